//! Over a real Redis: the same answers, shared by servers.

use std::time::Duration;

use tollgate::{ManualClock, Policy};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::RedisServer;

use super::support::*;

/// A server over the Redis at `url`. Time is Redis' own: limits here are slow.
async fn over(url: &str) -> Rls {
    let yaml = YAML.replace("unit: minute", "unit: year").replace("unit: hour", "unit: year");
    let policy = Policy::from_envoy("edge.yaml", &yaml).unwrap().policy;
    // Long enough that a busy machine does not look like a Redis that is away.
    let store = RedisStore::builder(url).timeout(Duration::from_secs(10)).open().unwrap();
    let shared = RedisGate::on(store, policy).unwrap();
    let unused = ManualClock::new();
    Rls::over(shared.into(), (gate(&unused), unused), |server| server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_share_what_is_in_redis() {
    let redis = RedisServer::start();
    let (one, other) = (over(&redis.url()).await, over(&redis.url()).await);
    assert_eq!(left(&one.ask([user("ana")]).await), [2]);
    assert_eq!(left(&other.ask([user("ana")]).await), [1]);
    let look = RateLimitDescriptor { hits_addend: Some(0), ..user("ana") };
    assert_eq!(left(&one.ask([look.clone()]).await), [1]);
    let back = RateLimitDescriptor { is_negative_hits: true, ..user("ana") };
    assert_eq!(left(&other.ask([back]).await), [2]);
    // All descriptors or none, also in Redis.
    one.ask([ip("::1"), ip("::1")]).await;
    let response = other.ask([user("ana"), ip("::1")]).await;
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit]);
    assert_eq!(left(&one.ask([look]).await), [2]);
    // So are limits that descriptors bring.
    let limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 6 });
    let sent = |name| RateLimitDescriptor { limit, ..user(name) };
    assert_eq!(left(&one.ask([sent("x")]).await), [1]);
    assert_eq!(left(&other.ask([sent("x"), sent("y")]).await), [0, 1]);
    let response = one.ask([sent("y"), sent("x")]).await;
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![1, 0]));
    let back = RateLimitDescriptor { is_negative_hits: true, ..sent("x") };
    assert_eq!(left(&other.ask([back]).await), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_it_goes_on_alone() {
    let redis = RedisServer::start();
    let rls = over(&redis.url()).await;
    assert_eq!(left(&rls.ask([user("ana")]).await), [2]);
    drop(redis);
    let limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 6 });
    let sent = RateLimitDescriptor { limit, ..user("x") };
    let response = rls.ask([user("bob"), sent.clone()]).await;
    assert_eq!(codes(&response), [Code::Ok; 2]);
    let passed =
        [rls.ask([user("bob")]).await, rls.ask([user("bob")]).await, rls.ask([user("bob")]).await];
    let passed = passed.iter().filter(|response| response.overall_code() == Code::Ok).count();
    assert!(passed <= 2, "it is limited still");
    assert_eq!(rls.ask([sent]).await.overall_code(), Code::OverLimit);
}
