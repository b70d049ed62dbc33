//! A server that answers and rejects decisions: it is unavailable, and says why.

use crate::common::{connect, needed, wait};
use tollgate::Limit;
use tollgate_redis::StoreError;
use tollgate_testkit::{RedisServer, command, eventually_async};

/// The rights of the user `ana` of a server: those of the docs, and `change`.
fn permit(server: &RedisServer, change: &str) {
    let rights: String = needed().iter().map(|name| format!(" +{name}")).collect();
    command(
        server.port(),
        &format!("ACL SETUSER ana reset on >secret -@all ~tg:*{rights} {change}"),
    );
}

fn url(server: &RedisServer) -> String {
    format!("redis://ana:secret@127.0.0.1:{}", server.port())
}

#[test]
fn right_that_is_revoked_between_two_decisions_is_an_outage() {
    let server = RedisServer::start();
    permit(&server, "");
    wait(async {
        let store = connect(&url(&server)).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        permit(&server, "-set");
        let error = limiter.check("ana").await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        assert_eq!(store.health().outages, 1);
        assert!(matches!(limiter.check("ana").await, Err(StoreError::Away { .. })));
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
        let store = connect(&url(&server)).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.keys().next().await.is_err());
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        assert_eq!(store.health().outages, 0);
    });
}
