//! A server that is slow, broken or away: every call answers within its time, nothing is minted,
//! and it is used again when it is back.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;

use std::time::{Duration, Instant};

use common::wait;
use redis::{Client, Connection, cmd};
use tollgate::Limit;
use tollgate_redis::{RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{Fault, FaultProxy, RedisServer};

const TIMEOUT: Duration = Duration::from_millis(200);
/// The longest a call may take here: a busy machine wakes late.
const BOUND: Duration = Duration::from_millis(600);
const LIMIT: u64 = 40;

struct Rig {
    server: RedisServer,
    proxy: FaultProxy,
    store: RedisStore,
    limiter: RedisLimiter,
    tally: Tally,
}

/// What came of the calls.
#[derive(Debug, Default)]
struct Tally {
    admitted: u64,
    denied: u64,
    /// Failed without being asked.
    away: u64,
    /// Failed otherwise: they may have been done all the same.
    failed: u64,
}

impl Rig {
    fn new() -> Rig {
        let server = RedisServer::start();
        let proxy = FaultProxy::to(server.port());
        let store = RedisStore::builder(proxy.url()).timeout(TIMEOUT).open().unwrap();
        let limiter = store.limiter("a", Limit::per_hour(LIMIT)).unwrap();
        Rig { server, proxy, store, limiter, tally: Tally::default() }
    }

    fn raw(&self) -> Connection {
        raw(&self.server)
    }

    /// A call, which must answer within the bound.
    async fn call(&mut self) -> Result<bool, StoreError> {
        let start = Instant::now();
        let answer = self.limiter.check("ana").await;
        let took = start.elapsed();
        assert!(took < BOUND, "{took:?} for {answer:?}");
        match &answer {
            Ok(decision) if decision.is_allowed() => self.tally.admitted += 1,
            Ok(_) => self.tally.denied += 1,
            Err(StoreError::Away { .. }) => self.tally.away += 1,
            Err(_) => self.tally.failed += 1,
        }
        answer.map(|decision| decision.is_allowed())
    }

    /// Calls until one is answered, which must be soon.
    async fn until_it_answers(&mut self) {
        let start = Instant::now();
        while let Err(error) = self.call().await {
            assert!(start.elapsed() < Duration::from_secs(10), "it does not recover: {error:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Calls until the store is away; every call until then fails as `is_expected` says.
    async fn until_it_is_away(&mut self, is_expected: impl Fn(&StoreError) -> bool) {
        for _ in 0..10 {
            match self.call().await {
                Err(StoreError::Away { why, .. }) => {
                    assert!(is_expected(&why), "{why:?}");
                    return;
                }
                Err(error) => assert!(is_expected(&error), "{error:?}"),
                Ok(_) => panic!("it answers"),
            }
        }
        panic!("it is asked again and again: {:?}", self.store.health());
    }

    /// While it is away, nobody waits, and few connections are tried.
    async fn nobody_waits(&mut self) {
        let (start, accepted) = (Instant::now(), self.proxy.accepted());
        for _ in 0..500 {
            let _ = self.call().await.unwrap_err();
        }
        assert!(start.elapsed() < TIMEOUT * 5, "500 calls took {:?}", start.elapsed());
        let health = self.store.health();
        assert!(!health.connected && health.outages == 1, "{health:?}");
        assert!(health.outage.unwrap().failed_calls >= 500);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tried = self.proxy.accepted() - accepted;
        assert!(tried < 12, "{tried} connections in a second");
    }

    /// The whole of an outage, whatever the fault.
    async fn rides_out(&mut self, fault: Fault, is_expected: impl Fn(&StoreError) -> bool) {
        self.until_it_answers().await;
        self.proxy.set(fault);
        self.until_it_is_away(is_expected).await;
        self.nobody_waits().await;
        self.proxy.set(Fault::None);
        self.until_it_answers().await;
        assert_eq!(self.store.health().outage, None);
        self.nothing_was_minted().await;
    }

    /// Uses up what is left: never more than the limit was admitted, and no call was charged but
    /// those that were sent.
    async fn nothing_was_minted(&mut self) {
        let used = self.limiter.status("ana").await.unwrap().used();
        let Tally { admitted, failed, .. } = self.tally;
        assert!((admitted..=admitted + failed).contains(&used), "{used} used, {:?}", self.tally);
        while self.call().await.unwrap() {}
        assert!(self.tally.admitted <= LIMIT, "{:?}", self.tally);
        assert!(self.tally.admitted + self.tally.failed >= LIMIT, "{:?}", self.tally);
    }
}

fn raw(server: &RedisServer) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn is_late(error: &StoreError) -> bool {
    matches!(error, StoreError::TimedOut(_))
}

fn is_unreachable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreachable(_))
}

#[test]
fn a_server_that_refuses_connections_is_away_until_it_listens() {
    wait(async { Rig::new().rides_out(Fault::Refuse, is_unreachable).await });
}

#[test]
fn a_connection_reset_in_mid_answer_is_an_error_and_is_made_again() {
    wait(async { Rig::new().rides_out(Fault::Reset, is_unreachable).await });
}

#[test]
fn answers_that_come_too_late_are_not_waited_for() {
    let late = Fault::Delay(TIMEOUT * 2);
    wait(async { Rig::new().rides_out(late, is_late).await });
}

#[test]
fn a_frozen_network_is_not_waited_for() {
    wait(async { Rig::new().rides_out(Fault::Freeze, is_late).await });
}

#[test]
fn bytes_that_mean_nothing_are_an_error() {
    let broken = |error: &StoreError| is_unreachable(error) || is_late(error);
    wait(async { Rig::new().rides_out(Fault::Garbage, broken).await });
}

#[test]
fn half_an_answer_is_none() {
    wait(async { Rig::new().rides_out(Fault::HalfAnswer, is_late).await });
}

#[test]
fn a_trickle_is_not_waited_for() {
    let trickle = Fault::Trickle(Duration::from_millis(20));
    wait(async { Rig::new().rides_out(trickle, is_late).await });
}

#[test]
fn a_slow_answer_within_the_time_is_an_answer() {
    wait(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        rig.proxy.set(Fault::Delay(TIMEOUT / 8));
        for _ in 0..5 {
            assert!(rig.call().await.unwrap());
        }
        assert_eq!(rig.store.health().outages, 0);
    });
}

#[test]
fn one_broken_connection_is_no_outage() {
    wait(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        for _ in 0..3 {
            let () =
                cmd("CLIENT").arg("KILL").arg("TYPE").arg("NORMAL").query(&mut rig.raw()).unwrap();
            rig.until_it_answers().await;
            rig.until_it_answers().await;
        }
        assert_eq!(rig.store.health().outages, 0, "{:?}", rig.store.health());
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_killed_server_is_away_until_it_runs_again() {
    wait(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        rig.server.kill();
        rig.until_it_is_away(is_unreachable).await;
        rig.nobody_waits().await;
        rig.server.restart();
        rig.until_it_answers().await;
        // It kept nothing on disk: what it knew is gone.
        rig.tally = Tally { admitted: 1, ..Tally::default() };
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_server_that_is_absent_at_the_start_is_an_outage() {
    wait(async {
        let mut rig = Rig::new();
        rig.server.kill();
        rig.until_it_is_away(is_unreachable).await;
        rig.nobody_waits().await;
        rig.server.restart();
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn a_paused_server_is_not_waited_for() {
    wait(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        let () = cmd("CLIENT").arg("PAUSE").arg(3000).query(&mut rig.raw()).unwrap();
        rig.until_it_is_away(is_late).await;
        rig.nobody_waits().await;
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn scripts_that_are_flushed_again_and_again_cost_nobody_an_answer() {
    wait(async {
        let mut rig = Rig::new();
        for _ in 0..LIMIT + 5 {
            let () = cmd("SCRIPT").arg("FLUSH").query(&mut rig.raw()).unwrap();
            let _ = rig.call().await.unwrap();
        }
        assert_eq!((rig.tally.admitted, rig.tally.denied), (LIMIT, 5));
    });
}

/// Does `break_it` to the server and `mend_it` again; meanwhile the server says `code`.
fn rides_out_a_refusal(code: &str, break_it: &[&str], mend_it: &[&str]) {
    wait(async {
        let mut rig = Rig::new();
        rig.until_it_answers().await;
        let tell = |what: &[&str], raw: &mut Connection| {
            let () = cmd(what[0]).arg(&what[1..]).query(raw).unwrap();
        };
        tell(break_it, &mut rig.raw());
        let says =
            |error: &StoreError| matches!(error, StoreError::Refused(what) if what.contains(code));
        rig.until_it_is_away(says).await;
        rig.nobody_waits().await;
        assert!(says(&rig.store.health().outage.unwrap().why), "probed by writing");
        tell(mend_it, &mut rig.raw());
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
    rides_out_a_refusal("read only", &replicate, &["REPLICAOF", "NO", "ONE"]);
}

#[test]
fn a_server_without_enough_replicas_is_away_until_it_has_them() {
    let replicas = |count| ["CONFIG", "SET", "min-replicas-to-write", count];
    rides_out_a_refusal("NOREPLICAS", &replicas("1"), &replicas("0"));
}

#[test]
fn a_password_that_is_changed_is_an_outage() {
    let server = RedisServer::start();
    wait(async {
        let store = RedisStore::builder(server.url()).timeout(TIMEOUT).open().unwrap();
        let limiter = store.limiter("a", Limit::per_hour(LIMIT)).unwrap();
        assert!(limiter.check("ana").await.unwrap().is_allowed());
        let mut raw = raw(&server);
        let () = cmd("CONFIG").arg("SET").arg("requirepass").arg("other").query(&mut raw).unwrap();
        let () = cmd("CLIENT").arg("KILL").arg("SKIPME").arg("yes").query(&mut raw).unwrap();
        let error = loop {
            match limiter.check("ana").await {
                Err(StoreError::Away { why, .. }) => break why,
                Err(_) => {}
                Ok(_) => panic!("it has no password"),
            }
        };
        assert!(
            matches!(&*error, StoreError::Refused(what) if what.contains("NOAUTH")),
            "{error:?}"
        );
    });
}

#[test]
fn decisions_go_on_with_a_replica_that_takes_over() {
    let replica = RedisServer::start();
    wait(async {
        let mut rig = Rig::new();
        let mut second = raw(&replica);
        let port = rig.server.port();
        let () = cmd("REPLICAOF").arg("127.0.0.1").arg(port).query(&mut second).unwrap();
        for _ in 0..LIMIT / 2 {
            rig.until_it_answers().await;
        }
        let reached: u64 = cmd("WAIT").arg(1).arg(10_000).query(&mut rig.raw()).unwrap();
        assert_eq!(reached, 1, "the replica has everything");
        rig.proxy.lead_to(replica.port());
        rig.server.kill();
        let () = cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut second).unwrap();
        let _ = rig.call().await;
        rig.until_it_answers().await;
        rig.nothing_was_minted().await;
    });
}

#[test]
fn something_else_under_one_key_is_nobody_else_s_outage() {
    wait(async {
        let mut rig = Rig::new();
        let () =
            cmd("RPUSH").arg(b"tg:{}:1:a:k\x0cben").arg("a list").query(&mut rig.raw()).unwrap();
        for _ in 0..20 {
            let error = rig.limiter.check("ben").await.unwrap_err();
            assert!(matches!(error, StoreError::Foreign(_)), "{error:?}");
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
    let first = tokio::runtime::Runtime::new().unwrap();
    first.block_on(rig.until_it_is_away(is_unreachable));
    drop(first);
    rig.proxy.set(Fault::None);
    wait(rig.until_it_answers());
}
