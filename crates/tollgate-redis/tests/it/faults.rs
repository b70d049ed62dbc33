//! A server that is slow, broken or away: every call answers within its timeout, nothing is minted,
//! and the server is used again when it is back.

use std::time::Duration;

use crate::common::clock::{OwnRuntime, alone};
use crate::common::rig::{LIMIT, Rig, TIMEOUT, Tally, is_unreachable};
use crate::common::server;
use redis::{Client, Connection, cmd};
use tollgate_redis::StoreError;
use tollgate_testkit::{Fault, RedisServer};

fn raw(server: &RedisServer) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn tell(server: &RedisServer, command: &[&str]) {
    let () = cmd(command[0]).arg(&command[1..]).query(&mut raw(server)).unwrap();
}

#[test]
fn a_server_that_refuses_connections_is_away_until_it_listens() {
    alone(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        rig.proxy.set(Fault::Refuse);
        rig.until_it_is_away(is_unreachable).await;
        rig.nobody_waits().await;
        rig.ends_outage().await;
    });
}

#[test]
fn a_connection_reset_in_mid_answer_is_an_error_and_is_made_again() {
    alone(async { Rig::new().rides_out(Fault::Reset).await });
}

#[test]
fn bytes_that_mean_nothing_are_an_error() {
    alone(async { Rig::new().rides_out(Fault::Garbage).await });
}

#[test]
fn answers_that_come_too_late_are_not_waited_for() {
    alone(async { Rig::new().rides_out_silence(Fault::Delay(TIMEOUT * 2)).await });
}

#[test]
fn a_frozen_network_is_not_waited_for() {
    alone(async { Rig::new().rides_out_silence(Fault::Freeze).await });
}

#[test]
fn half_an_answer_is_none() {
    alone(async { Rig::new().rides_out_silence(Fault::HalfAnswer).await });
}

#[test]
fn a_trickle_is_not_waited_for() {
    alone(async { Rig::new().rides_out_silence(Fault::Trickle(TIMEOUT / 2)).await });
}

#[test]
fn a_slow_answer_within_the_time_is_an_answer() {
    alone(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        rig.proxy.set(Fault::Delay(Duration::from_millis(25)));
        for _ in 0..5 {
            assert!(rig.call().await.unwrap());
        }
        assert_eq!(rig.store.health().outages, 0);
    });
}

#[test]
fn one_broken_connection_is_no_outage() {
    let server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        rig.until_it_answers().await;
        for _ in 0..3 {
            tell(&server, &["CLIENT", "KILL", "TYPE", "NORMAL"]);
            rig.until_it_answers().await;
            rig.until_it_answers().await;
        }
        assert_eq!(rig.store.health().outages, 0, "{:?}", rig.store.health());
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_killed_server_is_away_until_it_runs_again() {
    let mut server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        rig.until_it_answers().await;
        server.kill();
        rig.until_it_is_away(is_unreachable).await;
        rig.nobody_waits().await;
        rig.connects_again_and_again().await;
        server.restart();
        rig.until_it_answers().await;
        // It kept nothing on disk: its state is lost.
        rig.tally = Tally { admitted: 1, ..Tally::default() };
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_server_that_is_absent_at_the_start_is_an_outage() {
    let mut server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        server.kill();
        rig.until_it_is_away(is_unreachable).await;
        rig.nobody_waits().await;
        rig.connects_again_and_again().await;
        server.restart();
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_paused_server_is_not_waited_for() {
    let server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        rig.until_it_answers().await;
        // Scripts that may write wait; the command that ends the pause does not.
        tell(&server, &["CLIENT", "PAUSE", "3600000", "WRITE"]);
        rig.until_it_is_away_after_timeouts().await;
        rig.nobody_waits().await;
        tell(&server, &["CLIENT", "UNPAUSE"]);
        rig.ends_outage().await;
    });
}

#[test]
fn scripts_that_are_flushed_again_and_again_cost_nobody_an_answer() {
    alone(async {
        let mut rig = Rig::new();
        for _ in 0..LIMIT + 5 {
            tell(server(), &["SCRIPT", "FLUSH"]);
            let _ = rig.call().await.unwrap();
        }
        assert_eq!((rig.tally.admitted, rig.tally.denied), (LIMIT, 5));
    });
}

/// The code in the answer of the server at `address` that refused.
fn code<'a>(error: &'a StoreError, address: &str) -> Option<&'a str> {
    let StoreError::Refused(what) = error else { return None };
    let answer = what.strip_prefix(address)?.strip_prefix(": ")?;
    Some(answer.split(':').next()?.trim_matches('"'))
}

/// Does `break_it` to the server and `mend_it` again; meanwhile the server answers with `expected`.
fn rides_out_a_refusal(expected: &str, break_it: &[&str], mend_it: &[&str]) {
    let server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        let address = rig.proxy.url().replace("redis://", "");
        let is_expected = |error: &StoreError| code(error, &address) == Some(expected);
        rig.until_it_answers().await;
        tell(&server, break_it);
        rig.until_it_is_away(is_expected).await;
        rig.nobody_waits().await;
        rig.connects_again_and_again().await;
        let why = rig.store.health().outage.unwrap().cause;
        assert!(is_expected(&why), "probed by writing: {why:?}");
        tell(&server, mend_it);
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_server_out_of_memory_is_away_until_it_has_some() {
    let limit = |bytes| ["CONFIG", "SET", "maxmemory", bytes];
    rides_out_a_refusal("OOM", &limit("1"), &limit("0"));
}

#[test]
fn a_server_made_a_replica_is_away_until_it_is_a_primary() {
    let replicate = ["REPLICAOF", "127.0.0.1", "1"];
    rides_out_a_refusal("ReadOnly", &replicate, &["REPLICAOF", "NO", "ONE"]);
}

#[test]
fn a_server_without_enough_replicas_is_away_until_it_has_them() {
    let replicas = |count| ["CONFIG", "SET", "min-replicas-to-write", count];
    rides_out_a_refusal("NOREPLICAS", &replicas("1"), &replicas("0"));
}

#[test]
fn a_password_that_is_changed_is_an_outage() {
    let server = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&server);
        let address = rig.proxy.url().replace("redis://", "");
        rig.until_it_answers().await;
        let mut raw = raw(&server);
        let () = cmd("CONFIG").arg("SET").arg("requirepass").arg("other").query(&mut raw).unwrap();
        let () = cmd("CLIENT").arg("KILL").arg("SKIPME").arg("yes").query(&mut raw).unwrap();
        let is_cut =
            |error: &StoreError| is_unreachable(error) || code(error, &address) == Some("NOAUTH");
        rig.until_it_is_away(is_cut).await;
        let why = rig.fail_at_once();
        assert_eq!(code(&why, &address), Some("NOAUTH"), "{why:?}");
    });
}

#[test]
fn decisions_go_on_with_a_replica_that_takes_over() {
    let mut primary = RedisServer::with_options(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start();
    alone(async {
        let mut rig = Rig::on(&primary);
        let port = primary.port().to_string();
        tell(&replica, &["REPLICAOF", "127.0.0.1", &port]);
        for _ in 0..LIMIT / 2 {
            rig.until_it_answers().await;
        }
        // WAIT covers the writes of its connection, and earlier ones.
        let mut connection = raw(&primary);
        let () = cmd("SET").arg("last").arg("").query(&mut connection).unwrap();
        let reached: u64 = cmd("WAIT").arg(1).arg(0).query(&mut connection).unwrap();
        assert_eq!(reached, 1, "the replica has everything");
        rig.proxy.lead_to(replica.port());
        primary.kill();
        tell(&replica, &["REPLICAOF", "NO", "ONE"]);
        let _ = rig.call().await;
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn something_else_under_one_key_is_nobody_else_s_outage() {
    alone(async {
        let mut rig = Rig::new();
        let name = rig.limiter.name();
        let key = format!("tg:{{}}:{}:{name}:k\x0cben", name.len());
        tell(server(), &["RPUSH", &key, "a list"]);
        for _ in 0..20 {
            let error = rig.limiter.check("ben").await.unwrap_err();
            assert!(matches!(error, StoreError::ForeignKey(_)), "{error:?}");
        }
        assert!(rig.call().await.unwrap());
        let health = rig.store.health();
        assert_eq!((health.outages, health.failed_calls), (0, 0));
    });
}

#[test]
fn an_outage_ends_also_when_the_runtime_that_saw_it_begin_is_gone() {
    let mut rig = Rig::new();
    rig.proxy.set(Fault::Refuse);
    let first = OwnRuntime::new();
    first.block_on(rig.until_it_is_away(is_unreachable));
    drop(first);
    rig.proxy.set(Fault::None);
    alone(rig.until_it_answers());
}
