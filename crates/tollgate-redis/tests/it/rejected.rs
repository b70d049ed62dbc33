//! A server that answers and rejects decisions: it is unavailable, and says why.

use std::time::Duration;

use crate::common::{builder, connect, documented_acl, documented_url, unique, wait};
use redis::{Client, Commands};
use tollgate::{Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisStore, StoreError};
use tollgate_testkit::{RedisServer, command, eventually_async};

/// A policy that admits more than one request in an outage.
fn policy() -> Policy {
    let hour = Duration::from_secs(3600);
    let per_user = Rule::new("per-user").key(["user"]);
    let logged = Rule::new("logged").key(["user"]);
    Policy::new()
        .rule(per_user.limit(Limit::per_hour(1000)))
        .rule(logged.limit(Limit::sliding_log(1000, hour)))
}

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

/// Gives the user the documented rights, and then `change`.
fn permit(server: &RedisServer, change: &str) {
    command(server.port(), &format!("{} {change}", documented_acl()));
}

/// The reason why `gate` has no store, which it knows from a probe alone.
async fn reason(gate: &RedisGate) -> String {
    gate.probe().await.expect_err("the server rejects decisions");
    let outage = gate.health().outage.expect("a store that rejects decisions is unavailable");
    assert!(gate.check(&ana()).await.is_degraded());
    outage.cause.to_string()
}

#[test]
fn user_without_a_right_that_decisions_need_has_no_store() {
    let server = RedisServer::start();
    wait(async {
        for revoked in [
            "-evalsha",
            "-time",
            "-get",
            "-set",
            "-mset",
            "-pexpireat",
            "-hmget",
            "-hget",
            "-hset",
            "-hdel",
            "-unlink",
            "-exists",
            "-del",
            "resetkeys ~other:*",
        ] {
            permit(&server, revoked);
            let store = builder(documented_url(&server)).open().unwrap();
            let gate = RedisGate::builder(store).namespace(unique("acl")).build(policy()).unwrap();
            let why = reason(&gate).await;
            assert!(why.starts_with("redis refused: 127.0.0.1:"), "{revoked}: {why}");
            permit(&server, "");
            let recovered = async || !gate.check(&ana()).await.is_degraded();
            eventually_async("a decision of the store", recovered).await;
            let health = gate.health();
            assert!(health.outage.is_none() && health.outages == 1, "{revoked}: {health:?}");
        }
    });
}

#[test]
fn right_that_is_revoked_between_two_decisions_is_an_outage() {
    let server = RedisServer::start();
    permit(&server, "");
    wait(async {
        let store = connect(&documented_url(&server)).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        permit(&server, "-set");
        let error = limiter.check("ana").await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        assert_eq!(store.health().outages, 1);
        assert!(matches!(limiter.check("ana").await, Err(StoreError::Unavailable { .. })));
        permit(&server, "");
        let answer = eventually_async("an answer", async || limiter.check("ana").await).await;
        assert_eq!(answer.remaining(), 8);
    });
}

#[test]
fn right_that_only_operators_need_is_no_outage_of_decisions() {
    let server = RedisServer::start();
    permit(&server, "-scan");
    wait(async {
        let store = connect(&documented_url(&server)).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.keys().next().await.is_err());
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        assert_eq!(store.health().outages, 0);
    });
}

#[test]
fn gate_whose_shared_key_holds_something_else_says_so() {
    let server = RedisServer::start();
    wait(async {
        let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
        let () = raw.set("tg:{}:shared:", "something else").unwrap();
        let gate = RedisGate::with_store(connect(&server.url()).await, policy()).unwrap();
        let why = reason(&gate).await;
        assert!(why.contains("tg:{}:shared:"), "{why}");
        let () = raw.del("tg:{}:shared:").unwrap();
        assert!(!gate.check(&ana()).await.is_degraded());
        assert_eq!(gate.health().outage, None);
    });
}

#[test]
fn server_that_is_full_is_away_until_it_has_room() {
    let server = RedisServer::start();
    wait(async {
        let store: RedisStore = builder(server.url()).open().unwrap();
        let gate = RedisGate::with_store(store, policy()).unwrap();
        assert!(!gate.check(&ana()).await.is_degraded());
        command(server.port(), "CONFIG SET maxmemory 1");
        assert!(reason(&gate).await.contains("OOM"));
        command(server.port(), "CONFIG SET maxmemory 0");
        let recovered = async || !gate.check(&ana()).await.is_degraded();
        eventually_async("a decision of the store", recovered).await;
    });
}
