//! A gate that goes on without its store: one line an outage, not one a request.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;
#[path = "common/log.rs"]
mod log;

use std::time::Duration;

use common::{PATIENCE, wait};
use log::Log;
use tollgate::{Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::{RedisServer, command};

#[test]
fn a_gate_tells_an_outage_once_and_what_is_none_once_a_minute() {
    let log = Log::of_everything();
    let mut server = RedisServer::start();
    let policy = Policy::new().rule(Rule::new("a").key(["user"]).limit(Limit::per_hour(100_000)));
    wait(async {
        // Nobody is there when it starts: that is an outage, too.
        server.kill();
        let store = RedisStore::builder(server.url()).timeout(PATIENCE).open().unwrap();
        let gates = [1, 2].map(|nodes| {
            RedisGate::builder(store.clone()).nodes(nodes).build(policy.clone()).unwrap()
        });
        let ana = Request::new().with("user", "ana");
        for outage in 1..=2 {
            server.kill();
            for _ in 0..300 {
                for gate in &gates {
                    assert!(gate.check(&ana).await.is_degraded());
                    assert!(gate.peek(&ana).await.is_degraded());
                    drop(gate.reserve(&ana).await.unwrap());
                }
            }
            server.restart();
            while gates[0].check(&ana).await.is_degraded() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let text = log.text();
            assert_eq!(text.lines().count(), 2 * outage, "{text}");
            assert_eq!(text.matches("redis is away").count(), outage, "{text}");
            assert_eq!(text.matches("redis is back").count(), outage, "{text}");
        }
        // What the server does not permit is no outage, and yet nothing is decided by it.
        command(server.port(), "ACL SETUSER default -evalsha -eval");
        for _ in 0..300 {
            assert!(gates[0].check(&ana).await.is_degraded());
        }
        let text = log.text();
        let lines: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].contains("WARN") && lines[0].contains("no permissions"), "{text}");
        assert!(lines[0].contains("rulings=1") && lines[0].contains("on_store_error"), "{text}");
    });
}
