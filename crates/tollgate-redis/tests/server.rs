//! A real server that forgets, restarts, refuses or holds something else.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use common::{PATIENCE, connect, unique, wait};
use redis::{Client, Commands, Connection};
use tollgate::{Block, Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisStore, StoreError};
use tollgate_testkit::{RedisServer, command, one_limit_of_each};

fn raw(server: &RedisServer) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
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
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        for used in 1..5 {
            let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut raw(&server)).unwrap();
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
        assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
        server.restart();
        let mut answer = limiter.check("ana").await;
        for _ in 0..200 {
            if answer.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer = limiter.check("ana").await;
        }
        assert_eq!(answer.expect("it is back").remaining(), 9, "a new server knows nothing");
    });
}

#[test]
fn every_key_expires_when_it_is_worthless() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        for limit in one_limit_of_each() {
            let limiter = store.limiter(&unique("ttl"), limit.clone()).unwrap();
            let reset_after = limiter.check_n("ana", 3).await.unwrap().reset_after();
            let [(_, left)] = lifetimes(&server)[..] else { panic!("one key") };
            let most = i64::try_from(reset_after.as_millis()).unwrap() + 2;
            assert!(left <= most && left > most - 20_000.min(most), "{limit}: {left} of {most} ms");
            limiter.refund("ana", 1).await.unwrap();
            let held = limiter.reserve("ana", 1).await.unwrap().held().unwrap();
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
        tokio::time::sleep(Duration::from_millis(80)).await;
        assert_eq!(lifetimes(&server).len(), 0);
        assert!(limiter.status("ana").await.unwrap().is_new());
    });
}

#[test]
fn something_else_under_our_key_is_an_error_and_stays() {
    let server = RedisServer::start();
    wait(async {
        // What is changed behind its back is seen at once only without the deny cache.
        let builder = RedisStore::builder(server.url()).timeout(PATIENCE);
        let store = builder.deny_cache_for(Duration::ZERO).connect().await.unwrap();
        for limit in one_limit_of_each() {
            let name = unique("foreign");
            let limiter = store.limiter(&name, limit.clone()).unwrap();
            let key = [format!("tg:{{}}:{}:{name}:k", name.len()).as_bytes(), b"\x0cana"].concat();
            let mut connection = raw(&server);
            assert!(limiter.check("ana").await.unwrap().is_allowed());
            assert!(connection.exists::<_, bool>(&key).unwrap(), "the layout is as documented");
            let text = limit.to_string();
            let tag = [&[b'T', 1, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            let values: [Vec<u8>; 6] = [
                b"hello".to_vec(),
                b"".to_vec(),
                vec![0xff; 64],
                tag.clone(),
                [&tag[..], &[0xff; 21]].concat(),
                [&tag[..], &[0xff; 30]].concat(),
            ];
            for value in values {
                let () = connection.set(&key, &value).unwrap();
                refused(&limiter, &value).await;
                assert_eq!(connection.get::<_, Vec<u8>>(&key).unwrap(), value, "it stays");
            }
            let () = connection.del(&key).unwrap();
            let () = connection.rpush(&key, "a list").unwrap();
            refused(&limiter, b"a list").await;
            let () = connection.del(&key).unwrap();
            let () = connection.hset(&key, "a", "hash").unwrap();
            refused(&limiter, b"a hash").await;
            let () = connection.hset(&key, "h", [&tag[..], &[0xff; 35]].concat()).unwrap();
            refused(&limiter, b"a broken log").await;
            let () = connection.del(&key).unwrap();
            assert!(limiter.check("ana").await.unwrap().is_allowed(), "it recovers");
        }
    });
}

/// Whatever it is, nothing is allowed on it: an error, or a denial where the bytes can be read.
async fn refused(limiter: &tollgate_redis::RedisLimiter, value: &[u8]) {
    match limiter.check("ana").await {
        Err(StoreError::Foreign(_) | StoreError::Script(_)) => {}
        Ok(decision) if !decision.is_allowed() => {}
        other => panic!("{limiter:?} on {}: {other:?}", value.escape_ascii()),
    }
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
        let bad = [
            format!("redis://gate:wr0ng@127.0.0.1:{port}"),
            format!("redis://127.0.0.1:{port}"),
            format!("rediss://gate:wr0ng@127.0.0.1:{port}"),
            "redis://gate:wr0ng@127.0.0.1:1".to_owned(),
            "http://gate:wr0ng@127.0.0.1".to_owned(),
            "redis://gate:wr0ng@127.0.0.1:port".to_owned(),
            "wr0ng".to_owned(),
        ];
        for url in bad {
            let error = RedisStore::connect(&url).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
            assert!(!matches!(error, StoreError::Script(_)), "{error:?}");
            // Only what is wrong with the URL itself is known without asking.
            match RedisStore::open(&url) {
                Err(wrong) => assert_eq!(wrong, error),
                Ok(store) => {
                    let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
                    let error = limiter.check("ana").await.unwrap_err();
                    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
                }
            }
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
            ("redis_version:6.0.16\r\nredis_mode:standalone", "6.0.16, must be at least 6.2"),
            ("redis_version:7.0.15\r\nredis_mode:cluster", "part of a cluster"),
            ("redis_version:7.2.4\r\nserver_mode:cluster", "part of a cluster"),
            ("something:else", "unknown, must be at least 6.2"),
        ];
        for (info, reason) in cases {
            let builder = RedisStore::builder(fake(info)).timeout(PATIENCE);
            let error = builder.connect().await.unwrap_err();
            assert!(matches!(error, StoreError::Unsuitable(_)), "{error:?}");
            assert!(error.to_string().contains(reason), "{error}");

            // Opened without asking, it is an outage with the same reason.
            let store = RedisStore::builder(fake(info)).timeout(PATIENCE).open().unwrap();
            let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
            let error = limiter.check("ana").await.unwrap_err();
            let why = std::error::Error::source(&error).expect("an outage has a reason");
            assert!(why.to_string().contains(reason), "{error:?}");
        }
    });
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    wait(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let builder = RedisStore::builder(url).connect_timeout(Duration::from_millis(50));
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, StoreError::TimedOut(_)), "{error:?}");
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
    for limit in refused {
        let error = common::store().limiter("refused", limit).unwrap_err();
        let reason = std::error::Error::source(&error).expect("a limit's own reason").to_string();
        assert!(reason.contains("must be"), "{reason}");
    }
}

/// The commands that docs/redis.md says a user needs.
fn needed() -> Vec<&'static str> {
    let docs = include_str!("../../../docs/redis.md");
    let (_, rest) = docs.split_once("The user needs ").unwrap();
    let (said, _) = rest.split_once(" on keys `tg:*`").unwrap();
    said.split('`').skip(1).step_by(2).collect()
}

#[test]
fn a_user_needs_what_the_docs_say() {
    let server = RedisServer::start();
    let commands: String = needed().iter().map(|name| format!(" +{name}")).collect();
    command(server.port(), &format!("ACL SETUSER ana on >secret -@all resetkeys ~tg:*{commands}"));
    let url = format!("redis://ana:secret@127.0.0.1:{}", server.port());
    wait(async {
        let store = connect(&url).await;
        let name = unique("needs");
        // Each limit finds what the one before it has left, and scales it.
        for limit in one_limit_of_each() {
            let limiter = store.limiter(&name, limit.clone()).unwrap();
            let other = store.limiter(&unique("other"), limit).unwrap();
            let charges = [limiter.charge("ana"), other.charge("ana")];
            assert!(store.check_all(&charges).await.unwrap().is_allowed());
            let _ = limiter.peek("ana").await.unwrap();
            if let Some(held) = limiter.reserve("ana", 1).await.unwrap().held() {
                held.settle(2).await.unwrap();
            }
            limiter.refund("ana", 2).await.unwrap();
            assert!(other.reset("ana").await.unwrap());
        }
        let limiter = store.limiter(&name, Limit::per_hour(10)).unwrap();
        assert_eq!(limiter.reset_all(|_| {}).await.unwrap().reset, 1);
        let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
        let policy = Policy::new().rule(rule.block(Block::of(Duration::from_secs(60))));
        let gate = RedisGate::on(store, policy).unwrap();
        let request = Request::new().with("user", "ana");
        for is_allowed in [true, false] {
            assert_eq!(gate.try_check(&request).await.unwrap().is_allowed(), is_allowed);
        }
        assert!(gate.unblock("login", &["ana"]).await.unwrap());
        gate.block("login", &["ben"], Duration::from_secs(60)).await.unwrap();
        assert_eq!(gate.blocked().await.unwrap().len(), 1);
        let hold = gate.reserve(&Request::new().with("user", "cem")).await.unwrap();
        assert!(gate.keep_hold(7, hold, Duration::from_secs(60)).await.unwrap().is_none());
        gate.take_hold(7).await.unwrap().unwrap().cancel().await.unwrap();
    });
}
