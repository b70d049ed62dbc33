//! A gate without its store: one log line per outage, not one per request.

use crate::common::clock::alone;
use crate::common::log::Log;
use crate::common::{builder, golden};
use tollgate::{Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, StoreError};
use tollgate_testkit::{RedisServer, command, eventually_async};

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

/// Makes 900 requests of each gate, which are decided without the store.
async fn decide_without_store(gates: &[RedisGate]) {
    for _ in 0..300 {
        for gate in gates {
            assert!(gate.check(&ana()).await.is_degraded());
            assert!(gate.peek(&ana()).await.is_degraded());
            drop(gate.reserve(&ana()).await.unwrap());
        }
    }
}

#[test]
fn a_gate_tells_an_outage_once_and_what_is_none_once_a_minute() {
    let log = Log::of_this_thread();
    let outlines = || log.lines().iter().map(|line| line.outline() + "\n").collect::<Vec<String>>();
    let mut server = RedisServer::start();
    let policy = Policy::new().rule(Rule::new("a").key(["user"]).limit(Limit::per_hour(100_000)));
    alone(async {
        // No server runs at the start: that is an outage, too.
        server.kill();
        let store = builder(server.url()).open().unwrap();
        let gates = [1, 2].map(|nodes| {
            RedisGate::builder(store.clone()).nodes(nodes).build(policy.clone()).unwrap()
        });
        for outage in 1..=2 {
            server.kill();
            decide_without_store(&gates).await;
            server.restart();
            eventually_async("an answer of the store", async || {
                !gates[0].check(&ana()).await.is_degraded()
            })
            .await;
            let lines = outlines();
            assert_eq!(lines.len(), 2 * outage, "{lines:?}");
            golden("outage_log.txt", &lines[2 * outage - 2..].concat());
        }
        // A key that holds something else is no outage, but it decides nothing.
        command(server.port(), "FLUSHALL");
        command(server.port(), "SET tg:{}:6:a\u{1e}user:k\u{c}ana other");
        let error = gates[0].try_check(&ana()).await.unwrap_err();
        assert!(matches!(error, StoreError::ForeignKey(_)), "{error:?}");
        for _ in 0..300 {
            assert!(gates[0].check(&ana()).await.is_degraded());
        }
        let lines = log.lines();
        let [line] = &lines[4..] else { panic!("one line: {lines:?}") };
        golden("refused_log.txt", &line.outline());
        assert_eq!(line.fields["address"], format!("127.0.0.1:{}", server.port()));
        assert_eq!(line.fields["reason"], error.to_string());
        assert_eq!(line.number("rulings"), 1);
    });
}
