//! One line when an outage begins and one when it ends, whatever is asked meanwhile.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;
#[path = "common/log.rs"]
mod log;

use std::time::Duration;

use common::{PATIENCE, wait};
use log::Log;
use tollgate::Limit;
use tollgate_redis::RedisStore;
use tollgate_testkit::RedisServer;

#[test]
fn an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
    let log = Log::of_everything();
    let options = ["--user", "gate", "on", ">s3cr3t", "~*", "+@all"];
    let mut server = RedisServer::with_options(&options);
    let url = format!("redis://gate:s3cr3t@127.0.0.1:{}", server.port());
    wait(async {
        let store = RedisStore::builder(url).timeout(PATIENCE).connect().await.unwrap();
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        for outage in 1..=2 {
            server.kill();
            for _ in 0..300 {
                let error = limiter.check("ana").await.unwrap_err();
                assert!(!format!("{error:?}").contains("s3cr3t"), "{error:?}");
            }
            server.restart();
            while limiter.check("ana").await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let text = log.text();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2 * outage, "{text}");
            let [.., begins, ends] = lines[..] else { unreachable!("there are two") };
            assert!(begins.contains("WARN") && begins.contains("redis is away"), "{text}");
            assert!(begins.contains("not reachable"), "it says why: {text}");
            assert!(ends.contains("INFO") && ends.contains("redis is back"), "{text}");
            assert!(ends.contains("lasted_ms=") && ends.contains("failed_calls=3"), "{text}");
            assert!(!text.contains("s3cr3t"), "{text}");
        }
    });
}
