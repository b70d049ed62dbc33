//! A real server that forgets, restarts, refuses or holds something else.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::clock::{after_timeout, alone, with_timeouts};
use crate::common::{
    asking, builder, connect, documented_acl, documented_url, golden, server, store, unique, wait,
};
use redis::{Client, Commands, Connection};
use tollgate::{Algorithm, BlockPolicy, CalendarUnit, Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{DEADLINE, RedisServer, command, eventually, eventually_async};

fn raw(server: &RedisServer) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A limit of each kind whose keys outlive any test.
fn limits() -> Vec<Limit> {
    vec![
        Limit::token_bucket(10, YEAR),
        Limit::token_bucket(7, YEAR).burst(10),
        Limit::leaky_bucket(10, YEAR),
        Limit::leaky_queue(3, YEAR).burst(9),
        Limit::fixed_window(10, YEAR),
        Limit::fixed_window(10, YEAR).starting_at_first_request(),
        Limit::calendar(10, CalendarUnit::Month).zone("Europe/Paris"),
        Limit::sliding_log(10, YEAR),
        Limit::sliding_counter(10, YEAR),
    ]
}

/// Every key in the server with its PTTL.
fn lifetimes(server: &RedisServer) -> Vec<(Vec<u8>, i64)> {
    let mut connection = raw(server);
    let keys: Vec<Vec<u8>> = connection.scan().unwrap().map(Result::unwrap).collect();
    let mut connection = raw(server);
    keys.into_iter().map(|key| (key.clone(), connection.pttl(&key).unwrap())).collect()
}

#[test]
fn a_script_that_the_server_forgot_is_sent_again() {
    store();
    wait(async {
        let limiter = store().limiter(&unique("flushed"), Limit::per_hour(10)).unwrap();
        for used in 1..5 {
            let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut raw(server())).unwrap();
            assert_eq!(limiter.check("ana").await.unwrap().remaining(), 10 - used);
        }
    });
}

#[test]
fn a_restarted_server_is_used_again() {
    let mut server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        server.kill();
        let error = limiter.check("ana").await.unwrap_err();
        assert!(matches!(error, StoreError::Connection(_)), "{error}");
        server.restart();
        let answer = eventually_async("an answer", async || limiter.check("ana").await).await;
        assert_eq!(answer.remaining(), 9, "a new server knows nothing");
    });
}

#[test]
fn every_key_expires_when_it_is_worthless() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        for limit in limits() {
            let limiter = store.limiter(&unique("ttl"), limit.clone()).unwrap();
            let start = Instant::now();
            let reset_after = limiter.check_n("ana", 3).await.unwrap().reset_after();
            let [(_, left)] = lifetimes(&server)[..] else { panic!("one key") };
            // A count that weighs less than a unit is kept for limits of larger counts.
            let below_a_unit = match limit.algorithm() {
                Algorithm::SlidingCounter => limit.period() / 3,
                _ => Duration::ZERO,
            };
            let most = i64::try_from((reset_after + below_a_unit).as_millis()).unwrap() + 2;
            let passed = i64::try_from(start.elapsed().as_millis()).unwrap() + 4;
            assert!(left <= most && left >= most - passed, "{limit}: {left} of {most} ms");
            limiter.refund("ana", 1).await.unwrap();
            let held = limiter.reserve("ana", 1).await.unwrap();
            let refused = limiter.check_n("ana", 10).await.unwrap();
            assert!(!refused.is_allowed());
            drop(held.settle(20).await);
            let look = limiter.peek("a key that is not there").await.unwrap();
            assert_eq!(look.remaining(), 10);
            let all = lifetimes(&server);
            assert!(all.len() == 1 && all.iter().all(|(_, left)| *left > 0), "{limit}: {all:?}");
            assert_eq!(limiter.reset_all(|_| {}).await.unwrap().reset, 1);
        }
    });
}

#[test]
fn a_key_is_gone_when_its_time_is_over() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let limiter = store.limiter("short", Limit::per_second(100)).unwrap();
        assert_eq!(limiter.check_n("ana", 5).await.unwrap().remaining(), 95);
        eventually("the key to be gone", || lifetimes(&server).is_empty());
        assert!(limiter.status("ana").await.unwrap().is_fresh());
    });
}

#[test]
fn something_else_under_our_key_is_an_error_and_stays() {
    let mut outcomes = String::new();
    wait(async {
        // What is changed behind its back is seen at once only without the deny cache.
        let store = asking(&server().url());
        for limit in limits() {
            let name = unique("foreign");
            let limiter = store.limiter(&name, limit.clone()).unwrap();
            let key = [format!("tg:{{}}:{}:{name}:k", name.len()).as_bytes(), b"\x0cana"].concat();
            let mut connection = raw(server());
            assert!(limiter.check("ana").await.unwrap().is_allowed());
            assert!(connection.exists::<_, bool>(&key).unwrap(), "the layout is as documented");
            let text = limit.to_string();
            let tag = [&[b'T', 1, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            let values: [(&str, Vec<u8>); 6] = [
                ("a text", b"hello".to_vec()),
                ("nothing", b"".to_vec()),
                ("64 bytes", vec![0xff; 64]),
                ("a tag", tag.clone()),
                ("a tag and 21 bytes", [&tag[..], &[0xff; 21]].concat()),
                ("a tag and 30 bytes", [&tag[..], &[0xff; 30]].concat()),
            ];
            for (what, value) in values {
                let () = connection.set(&key, &value).unwrap();
                let outcome = refused(&limiter, what).await;
                // A state of ours from so late a moment is re-dated.
                if outcome.ends_with("foreign\n") {
                    assert_eq!(connection.get::<_, Vec<u8>>(&key).unwrap(), value, "it stays");
                }
                outcomes += &outcome;
            }
            let () = connection.del(&key).unwrap();
            let () = connection.rpush(&key, "a list").unwrap();
            outcomes += &refused(&limiter, "a list").await;
            let () = connection.del(&key).unwrap();
            let () = connection.hset(&key, "a", "hash").unwrap();
            outcomes += &refused(&limiter, "a hash").await;
            let () = connection.hset(&key, "h", [&tag[..], &[0xff; 35]].concat()).unwrap();
            outcomes += &refused(&limiter, "a broken log").await;
            let () = connection.del(&key).unwrap();
            assert!(limiter.check("ana").await.unwrap().is_allowed(), "it recovers");
        }
    });
    golden("something_else_under_a_key.txt", &outcomes);
}

#[test]
fn key_with_a_claim_that_has_ended_is_decided_by_its_state() {
    wait(async {
        let store = asking(&server().url());
        for limit in limits() {
            let name = unique("claimed");
            let limiter = store.limiter(&name, limit.clone()).unwrap();
            let key = [format!("tg:{{}}:{}:{name}:k", name.len()).as_bytes(), b"\x0cana"].concat();
            assert_eq!(limiter.check_n("ana", 4).await.unwrap().remaining(), 6, "{limit}");
            let mut connection = raw(server());
            // A client that died in a conversion: its claim ended in 1970.
            let claim = [&b"C\x01"[..], &[0x80, 0, 0, 0, 0, 0, 0], &[7; 8]].concat();
            if limit.to_string().contains("sliding_log") {
                let header: Vec<u8> = connection.hget(&key, "h").unwrap();
                let () = connection.hset(&key, "h", [claim, header].concat()).unwrap();
            } else {
                let state: Vec<u8> = connection.get(&key).unwrap();
                let () = connection.set(&key, [claim, state].concat()).unwrap();
            }
            assert_eq!(limiter.peek("ana").await.unwrap().remaining(), 6, "{limit}");
            assert_eq!(limiter.check("ana").await.unwrap().remaining(), 5, "{limit}");
            assert!(connection.ttl::<_, i64>(&key).unwrap() > 0, "{limit}");
        }
    });
}

#[test]
fn calls_that_time_out_while_the_server_answers_are_no_outage() {
    let name = unique("claimed");
    alone(async {
        let store = asking(&server().url());
        let limiter = store.limiter(&name, Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        let key = [format!("tg:{{}}:{}:{name}:k", name.len()).as_bytes(), b"\x0cana"].concat();
        let mut connection = raw(server());
        let state: Vec<u8> = connection.get(&key).unwrap();
        // Another client converts the state, and its claim does not end while the test runs.
        let claim = [&b"C\x01"[..], &[0x0f, 0, 0, 0, 0, 0, 0], &[7; 8]].concat();
        let () = connection.set(&key, [claim, state].concat()).unwrap();
        for _ in 0..4 {
            let (answer, _) = with_timeouts(DEADLINE, limiter.check("ana")).await;
            assert_eq!(answer.unwrap_err(), StoreError::Timeout(DEADLINE));
        }
        assert_eq!(store.health().outages, 0);
        assert!(limiter.check("ben").await.unwrap().is_allowed());
    });
}

/// Whatever it is, nothing is allowed on it: an error, or a denial where the bytes can be read. A line
/// that says which.
async fn refused(limiter: &RedisLimiter, what: &str) -> String {
    let outcome = match limiter.check("ana").await {
        Err(StoreError::ForeignKey(_)) => "foreign",
        Err(StoreError::Script(_)) => "script",
        Ok(decision) if !decision.is_allowed() => "denied",
        other => panic!("{limiter:?} on {what}: {other:?}"),
    };
    format!("{}: {what}: {outcome}\n", limiter.limit())
}

#[test]
fn keys_of_any_bytes_and_any_length_are_told_apart() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let limiter = store.limiter("any \u{0} {name}*", Limit::per_hour(10)).unwrap();
        let long: Vec<u8> = (0..65_536_u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut longer = long.clone();
        longer[65_000] ^= 1;
        let all_bytes: Vec<u8> = (0..=255).collect();
        let keys: [&[u8]; 9] =
            [b"", b"\0", b"{}", b"}", b"a\r\n", &all_bytes, &[0xff; 300], &long, &longer];
        for (number, key) in keys.iter().enumerate() {
            let cost = u64::try_from(number).unwrap() + 1;
            assert!(limiter.check_n(*key, cost).await.unwrap().is_allowed());
        }
        for (number, key) in keys.iter().enumerate() {
            let used = limiter.status(*key).await.unwrap().used();
            assert_eq!(used, u64::try_from(number).unwrap() + 1);
        }
        let all = lifetimes(&server);
        assert_eq!(all.len(), keys.len());
        assert!(all.iter().all(|(key, left)| key.len() < 320 && *left > 0));
    });
}

#[test]
fn user_password_database_socket_and_resp3_come_through_the_url() {
    let options = ["--user", "gate", "on", ">s3cr3t", "~*", "+@all", "--requirepass", "an0ther"];
    let server = RedisServer::with_options(&options);
    let (port, socket) = (server.port(), server.socket());
    wait(async {
        let good = [
            format!("redis://gate:s3cr3t@127.0.0.1:{port}/3"),
            format!("redis://:an0ther@127.0.0.1:{port}/3?protocol=resp3"),
            format!("redis+unix://{}?db=3&user=gate&pass=s3cr3t", socket.display()),
        ];
        for (number, url) in good.iter().enumerate() {
            let store = connect(url).await;
            let limiter = store.limiter("shared", Limit::per_hour(10)).unwrap();
            let used = u64::try_from(number).unwrap() + 1;
            assert_eq!(limiter.check("ana").await.unwrap().remaining(), 10 - used, "{url}");
            let log = store.limiter("log", Limit::sliding_log(10, Duration::from_secs(60)));
            assert_eq!(log.unwrap().check("ana").await.unwrap().remaining(), 10 - used, "{url}");
            assert!(!format!("{store:?}").contains("s3cr3t"));
            let other = store.limiter("log", Limit::per_hour(10)).unwrap();
            assert!(other.status("ana").await.is_ok(), "a hash is read in both protocols");
        }
    });
}

fn shows_no_password(error: &StoreError) {
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
}

/// Only what is wrong with the URL itself is known without asking.
#[test]
fn a_url_that_is_wrong_is_refused_without_asking() {
    let urls = ["http://gate:wr0ng@127.0.0.1", "redis://gate:wr0ng@127.0.0.1:port", "wr0ng"];
    for url in urls {
        let error = wait(RedisStore::connect(url)).unwrap_err();
        shows_no_password(&error);
        assert!(matches!(error, StoreError::Url(_)), "{url}: {error:?}");
        assert_eq!(RedisStore::open(url).unwrap_err(), error);
    }
}

#[test]
fn a_url_that_leads_to_no_store_is_an_outage_that_shows_no_password() {
    let options = ["--user", "gate", "on", ">s3cr3t", "~*", "+@all", "--requirepass", "an0ther"];
    let server = RedisServer::with_options(&options);
    let port = server.port();
    type Expected = fn(&StoreError) -> bool;
    let is_refused: Expected = |error| matches!(error, StoreError::Refused(_));
    let is_unreachable: Expected = |error| matches!(error, StoreError::Connection(_));
    let cases = [
        (format!("redis://gate:wr0ng@127.0.0.1:{port}"), is_refused),
        (format!("redis://127.0.0.1:{port}"), is_refused),
        ("redis://gate:wr0ng@127.0.0.1:1".to_owned(), is_unreachable),
    ];
    wait(async {
        for (url, is_expected) in cases {
            let error = builder(&url).connect().await.unwrap_err();
            shows_no_password(&error);
            assert!(is_expected(&error), "{url}: {error:?}");
            let store = builder(&url).open().unwrap();
            let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
            let error = limiter.check("ana").await.unwrap_err();
            shows_no_password(&error);
            let StoreError::Unavailable { why, .. } = error else { panic!("{url}: {error:?}") };
            assert!(is_expected(&why), "{url}: {why:?}");
        }
    });
}

/// Answers every command of one connection, INFO with `info`.
fn fake(info: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            for command in text.split('*').skip(1) {
                let answer = if command.contains("INFO\r\n$6") {
                    format!("${}\r\n{info}\r\n", info.len())
                } else {
                    "+OK\r\n".to_owned()
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    url
}

#[test]
fn a_server_that_cannot_be_used_is_refused_with_its_reason() {
    wait(async {
        let cases = [
            "redis_version:6.0.16\r\nredis_mode:standalone",
            "redis_version:7.0.15\r\nredis_mode:cluster",
            "redis_version:7.2.4\r\nserver_mode:cluster",
            "something:else",
        ];
        let mut reasons = String::new();
        for info in cases {
            let url = fake(info);
            let error = builder(&url).connect().await.unwrap_err();
            assert!(matches!(error, StoreError::Incompatible(_)), "{error:?}");
            let reason = without_address(&error, &url);

            // Opened without asking, it is an outage with the same reason.
            let url = fake(info);
            let store = builder(&url).open().unwrap();
            let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
            let StoreError::Unavailable { why, .. } = limiter.check("ana").await.unwrap_err()
            else {
                panic!("it is no outage");
            };
            assert!(matches!(*why, StoreError::Incompatible(_)), "{why:?}");
            assert_eq!(without_address(&why, &url), reason);
            reasons += &format!("{}\n    {reason}\n", info.escape_debug());
        }
        golden("servers_that_cannot_be_used.txt", &reasons);
    });
}

fn without_address(error: &StoreError, url: &str) -> String {
    error.to_string().replace(url.trim_start_matches("redis://"), "{address}")
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    alone(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let error = after_timeout(DEADLINE, builder(url).connect()).await.unwrap_err();
        assert_eq!(error, StoreError::Timeout(DEADLINE));
    });
}

#[test]
fn limits_that_cannot_be_kept_exact_are_refused() {
    let refused = [
        Limit::fixed_window((1 << 53) + 1, Duration::from_secs(1)),
        Limit::sliding_counter((1 << 50) + 1, Duration::from_secs(1)),
        Limit::per_second(10_000_000_000_000_061).burst(1),
        Limit::token_bucket(1, Duration::from_nanos(1_000_001)),
        Limit::per_second(0),
    ];
    let mut reasons = String::new();
    for limit in refused {
        let text = limit.to_string();
        let StoreError::Limit(reason) = store().limiter("refused", limit).unwrap_err() else {
            panic!("{text} is refused for itself");
        };
        reasons += &format!("{text}\n    {reason}\n");
    }
    golden("limits_that_cannot_be_kept_exact.txt", &reasons);
}

#[test]
fn a_user_needs_what_the_docs_say() {
    let server = RedisServer::start();
    command(server.port(), documented_acl());
    let url = documented_url(&server);
    wait(async {
        let store = connect(&url).await;
        let name = unique("needs");
        // Each limit finds what the one before it has left, and scales it.
        for limit in limits() {
            let limiter = store.limiter(&name, limit.clone()).unwrap();
            let other = store.limiter(&unique("other"), limit).unwrap();
            let charges = [limiter.charge("ana"), other.charge("ana")];
            assert!(store.check_all(&charges).await.unwrap().is_allowed());
            let _ = limiter.peek("ana").await.unwrap();
            let held = limiter.reserve("ana", 1).await.unwrap();
            held.settle(2).await.unwrap();
            limiter.refund("ana", 2).await.unwrap();
            assert!(other.reset("ana").await.unwrap());
        }
        let limiter = store.limiter(&name, Limit::per_hour(10)).unwrap();
        assert_eq!(limiter.reset_all(|_| {}).await.unwrap().reset, 1);
        let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
        let policy = Policy::new().rule(rule.block(BlockPolicy::fixed(Duration::from_secs(60))));
        let gate = RedisGate::with_store(store, policy).unwrap();
        let request = Request::new().with("user", "ana");
        for is_allowed in [true, false] {
            assert_eq!(gate.try_check(&request).await.unwrap().is_allowed(), is_allowed);
        }
        assert!(gate.unblock("login", &["ana"]).await.unwrap());
        gate.block("login", &["ben"], Duration::from_secs(60)).await.unwrap();
        assert_eq!(gate.blocked().await.unwrap().len(), 1);
        let hold = gate.reserve(&Request::new().with("user", "cem")).await.unwrap();
        assert!(gate.detach(7, hold, Duration::from_secs(60)).await.unwrap().is_none());
        gate.attach(7).await.unwrap().unwrap().cancel().await.unwrap();
        gate.probe().await.unwrap();
        gate.store().check_evictions().await.unwrap();
        assert!(gate.store().evictions().is_some());
        eventually_async("a heartbeat", async || gate.seen_nodes() == 1).await;
        gate.leave().await.unwrap();
        assert_eq!(gate.health().outages, 0);
    });
}
