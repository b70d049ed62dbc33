//! What operators do with a Cluster, and URLs that name something else.

use std::collections::BTreeSet;

use tollgate::Limit;
use tollgate_redis::StoreError;

use super::shared::{cluster, store};
use crate::common::{builder, golden, server, unique, wait};

#[test]
fn keys_of_all_nodes_are_listed_and_reset_by_prefix() {
    let limiter = store().limiter(&unique("li*st[ed]"), Limit::per_hour(10)).unwrap();
    let other = store().limiter(&unique("li*st[ed]"), Limit::per_hour(10)).unwrap();
    let limiter = limiter.partition_by(1);
    wait(async {
        for number in 0..300 {
            let prefix = if number % 3 == 0 { "bot" } else { "user" };
            let key = (format!("{prefix}-{number}"), number % 50);
            assert!(limiter.check(key).await.unwrap().is_allowed());
        }
        assert!(other.check("bot-1").await.unwrap().is_allowed());
        let mut names = BTreeSet::new();
        let mut walk = limiter.keys();
        while let Some(keys) = walk.next().await.unwrap() {
            names.extend(keys.into_iter().map(|name| name.to_string()));
        }
        assert_eq!(names.len(), 300);
        assert!(names.contains("(bot-3, 3)"));
        let mut steps = Vec::new();
        let done = limiter.reset_prefix("bot-", |progress| steps.push(progress)).await.unwrap();
        assert_eq!((done.reset, done.seen), (100, 300));
        assert!(steps.len() >= 3, "a step for every node at least");
        assert!(limiter.status(("bot-3", 3)).await.unwrap().is_fresh());
        assert_eq!(limiter.reset_all(|_| {}).await.unwrap().reset, 200);
        assert_eq!(other.status("bot-1").await.unwrap().used(), 1, "not its key");
    });
}

#[test]
fn a_script_that_one_node_forgot_is_sent_again_to_it() {
    let limiter = store().limiter(&unique("flushed"), Limit::per_hour(10)).unwrap();
    wait(async {
        for node in 0..3 {
            assert_eq!(cluster().ask(node, "SCRIPT FLUSH"), "OK");
            for key in 0..12 {
                let left = limiter.check(key).await.unwrap().remaining();
                assert_eq!(left, 9 - node as u64, "key {key}");
            }
        }
    });
}

#[test]
fn a_url_of_another_kind_of_server_is_refused_with_what_to_write() {
    let (node, port) = (cluster().nodes()[1].port(), server().port());
    let urls = [
        format!("redis://127.0.0.1:{node}"),
        format!("redis+cluster://127.0.0.1:{port}"),
        format!("redis+sentinel://127.0.0.1:{port}/mymaster"),
    ];
    wait(async {
        let mut advice = String::new();
        for url in urls {
            let error = builder(&url).connect().await.unwrap_err();
            assert!(matches!(error, StoreError::Incompatible(_)), "{url}: {error:?}");
            advice += &format!("{url}\n    {error}\n");
        }
        let advice =
            advice.replace(&node.to_string(), "{node}").replace(&port.to_string(), "{port}");
        golden("urls_of_another_kind_of_server.txt", &advice);

        let secret = builder(format!("redis://:s3cret@127.0.0.1:{node}"));
        let error = secret.connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        let nobody = builder("redis+cluster://127.0.0.1:1,127.0.0.1:2").connect().await;
        assert!(matches!(nobody, Err(StoreError::Connection(_))), "{nobody:?}");
    });
}

#[test]
fn one_seed_is_enough_and_dead_ones_do_no_harm() {
    let url = format!(
        "redis+cluster://127.0.0.1:1,127.0.0.1:{}?protocol=resp3",
        cluster().nodes()[2].port()
    );
    wait(async {
        let store = crate::common::connect(&url).await;
        let limiter = store.limiter(&unique("seed"), Limit::per_hour(10)).unwrap();
        for key in 0..30 {
            assert!(limiter.check(key).await.unwrap().is_allowed());
        }
    });
}
