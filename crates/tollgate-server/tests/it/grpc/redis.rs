//! Over a real Redis: the same answers, shared by servers.

use tollgate::Policy;
use tollgate_testkit::RedisServer;

use super::support::*;
use crate::support::{TestServer, redis_gate};

/// A server over Redis. Time is Redis' own: the limits are slow.
fn over(redis: &RedisServer, namespace: &str) -> Rls {
    let yaml = YAML.replace("unit: minute", "unit: year").replace("unit: hour", "unit: year");
    let policy = Policy::from_envoy("edge.yaml", &yaml).unwrap().policy;
    let gate = redis_gate(&redis.url(), namespace, policy);
    Rls::of(TestServer::over(gate, |server| server))
}

#[test]
fn servers_share_what_is_in_redis() {
    let over = || over(RedisServer::shared(), "grpc::servers_share_what_is_in_redis");
    let (one, other) = (over(), over());
    assert_eq!(left(&one.ask([user("ana")])), [2]);
    assert_eq!(left(&other.ask([user("ana")])), [1]);
    let look = RateLimitDescriptor { hits_addend: Some(0), ..user("ana") };
    assert_eq!(left(&one.ask([look.clone()])), [1]);
    let back = RateLimitDescriptor { is_negative_hits: true, ..user("ana") };
    assert_eq!(left(&other.ask([back])), [2]);
    // All descriptors or none, also in Redis.
    one.ask([ip("::1"), ip("::1")]);
    let response = other.ask([user("ana"), ip("::1")]);
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit]);
    assert_eq!(left(&one.ask([look])), [2]);
    // So are limits that descriptors bring.
    let limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 6 });
    let sent = |name| RateLimitDescriptor { limit, ..user(name) };
    assert_eq!(left(&one.ask([sent("x")])), [1]);
    assert_eq!(left(&other.ask([sent("x"), sent("y")])), [0, 1]);
    let response = one.ask([sent("y"), sent("x")]);
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![1, 0]));
    let back = RateLimitDescriptor { is_negative_hits: true, ..sent("x") };
    assert_eq!(left(&other.ask([back])), [1]);
}

#[test]
fn while_redis_is_away_it_goes_on_alone() {
    let redis = RedisServer::start();
    let rls = over(&redis, "");
    assert_eq!(left(&rls.ask([user("ana")])), [2]);
    drop(redis);
    let limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 6 });
    let sent = RateLimitDescriptor { limit, ..user("x") };
    let response = rls.ask([user("bob"), sent.clone()]);
    assert_eq!(codes(&response), [Code::Ok; 2]);
    let passed = [rls.ask([user("bob")]), rls.ask([user("bob")]), rls.ask([user("bob")])];
    let passed = passed.iter().filter(|response| response.overall_code() == Code::Ok).count();
    assert!(passed <= 2, "it is limited still");
    assert_eq!(rls.ask([sent]).overall_code(), Code::OverLimit);
}
