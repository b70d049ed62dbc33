//! A server that evicts states is reported.

use std::collections::BTreeMap;

use crate::common::clock::alone;
use crate::common::log::{Line, Log};
use crate::common::{asking, connect, wait};
use tollgate::Limit;
use tollgate_testkit::{RedisServer, command};

#[test]
fn server_that_may_evict_is_reported_at_connect() {
    let server = RedisServer::start();
    wait(async {
        let report = connect(&server.url()).await.evictions().unwrap();
        assert!(!report.may_evict() && report.evicted_keys == 0, "{report:?}");
        command(server.port(), "CONFIG SET maxmemory-policy volatile-lru");
        let report = connect(&server.url()).await.evictions().unwrap();
        assert!(report.may_evict() && report.policy == "volatile-lru", "{report:?}");
    });
}

#[test]
fn evicted_states_are_counted_and_logged() {
    let log = Log::of_this_thread();
    let server = RedisServer::start();
    alone(async {
        let store = asking(&server.url());
        store.check_evictions().await.unwrap();
        assert!(log.lines().is_empty(), "{:?}", log.lines());
        command(server.port(), "CONFIG SET maxmemory-policy volatile-lru");
        store.check_evictions().await.unwrap();
        store.check_evictions().await.unwrap();
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        for user in 0..100 {
            assert!(limiter.check(user).await.unwrap().is_allowed());
        }
        // A maximum that is already reached: the server evicts before the next write.
        command(server.port(), "CONFIG SET maxmemory 1");
        let _ = limiter.check("ana").await;
        command(server.port(), "CONFIG SET maxmemory 0");
        tollgate_testkit::eventually_async("an answer", async || {
            store.check_evictions().await.is_ok()
        })
        .await;
        let report = store.evictions().unwrap();
        assert!(report.evicted_keys >= 100, "{report:?}");
        let lines: Vec<Line> =
            log.lines().into_iter().filter(|line| line.message.contains("evict")).collect();
        let [policy, evicted] = &lines[..] else { panic!("two lines: {lines:?}") };
        let address = format!("127.0.0.1:{}", server.port());
        let fields = [("address", address.clone()), ("policy", "volatile-lru".to_owned())];
        assert_eq!(policy.fields, BTreeMap::from(fields));
        assert_eq!(evicted.number("evicted"), report.evicted_keys);
    });
}
