//! One line when an outage begins and one when it ends, however many calls fail meanwhile.

use std::time::Instant;

use crate::common::clock::alone;
use crate::common::log::{Line, Log};
use crate::common::{connect, golden};
use tollgate::Limit;
use tollgate_redis::{RedisLimiter, StoreError};
use tollgate_testkit::{RedisServer, eventually_async};

/// The password of the server.
const SECRET: &str = "s3cr3t";

/// Makes 300 calls, which fail.
async fn fail(limiter: &RedisLimiter) {
    for _ in 0..300 {
        let error = limiter.check("ana").await.unwrap_err();
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
    }
}

#[test]
fn an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
    let log = Log::of_this_thread();
    let password = format!(">{SECRET}");
    let options = ["--user", "gate", "on", &password, "~*", "+@all"];
    let mut server = RedisServer::with_options(&options);
    let address = format!("127.0.0.1:{}", server.port());
    alone(async {
        let url = format!("redis://gate:{SECRET}@{address}");
        let store = connect(&url).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        for outage in 1..=2 {
            let (start, failed_before) = (Instant::now(), store.health().failed_calls);
            server.kill();
            fail(&limiter).await;
            let why = store.health().outage.unwrap().cause;
            assert!(matches!(why, StoreError::Connection(_)), "{why:?}");
            server.restart();
            eventually_async("an answer", async || limiter.check("ana").await).await;
            let failed = store.health().failed_calls - failed_before;

            let lines = log.lines();
            assert_eq!(lines.len(), 2 * outage, "{lines:?}");
            let [.., begins, ends] = &lines[..] else { unreachable!("there are two") };
            golden("outage_log.txt", &outlines(&[begins, ends]));
            assert_eq!(begins.fields["address"], address);
            assert_eq!(begins.fields["reason"], why.to_string());
            assert_eq!(ends.fields["address"], address);
            // All but the call that found the connection broken.
            assert_eq!(ends.number("failed_calls"), failed - 1);
            assert!(u128::from(ends.number("lasted_ms")) <= start.elapsed().as_millis());
            assert!(!format!("{lines:?}").contains(SECRET), "{lines:?}");
        }
    });
}

fn outlines(lines: &[&Line]) -> String {
    lines.iter().map(|line| line.outline() + "\n").collect()
}
