//! A store that is slow, broken or away: what was charged is spent once at most, and in time.

use std::time::Duration;

use tollgate::{Limit, ManualClock, OnStoreError, Policy, Rule};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::{Fault, FaultProxy, RedisServer};

use crate::common::{connect, wait, within_a_second};
use crate::{SECOND, ana, heat, leased, per_user};

const TIMEOUT: Duration = Duration::from_millis(200);

/// A node behind a proxy on a clock of the test's, and one beside it that is never disturbed.
struct Rig {
    server: RedisServer,
    proxy: FaultProxy,
    clock: ManualClock,
    gate: RedisGate,
    beside: RedisGate,
}

impl Rig {
    async fn new(policy: Policy) -> Rig {
        let server = RedisServer::start();
        let proxy = FaultProxy::to(server.port());
        let clock = ManualClock::new();
        let store = RedisStore::builder(proxy.url()).timeout(TIMEOUT).open().unwrap();
        let gate = RedisGate::on(store.with_injected_clock(clock.clone()), policy.clone()).unwrap();
        let store = connect(&server.url()).await.with_injected_clock(clock.clone());
        let beside = RedisGate::on(store, policy).unwrap();
        Rig { server, proxy, clock, gate, beside }
    }

    async fn used(&self) -> u64 {
        let ruling = self.beside.status(&ana()).await;
        ruling.limit() - ruling.remaining()
    }

    /// Waits until the node is answered again.
    async fn recovers(&self) {
        self.proxy.set(Fault::None);
        within_a_second(async || {
            self.gate.store().health().outage.is_none()
                && self.gate.try_check(&ana().cost(9999)).await.is_ok()
        })
        .await;
    }
}

fn strict(limit: Limit) -> Policy {
    let rule = leased("per-user", limit).on_store_error(OnStoreError::Deny);
    Policy::new().rule(rule)
}

#[test]
fn a_lease_is_counted_from_before_it_was_asked_for() {
    wait(async {
        let rig = Rig::new(per_user(Limit::fixed_window(10_000, 3600 * SECOND))).await;
        for _ in 0..3 {
            assert!(rig.gate.try_check(&ana().cost(100)).await.unwrap().is_allowed());
        }
        // The fourth makes it hot; the answer to the borrow comes when its time is over.
        rig.proxy.set(Fault::Delay(Duration::from_millis(150)));
        let _ = rig.gate.try_check(&ana().cost(100)).await;
        within_a_second(async || rig.gate.lease_counts().borrows == 1).await;
        rig.clock.advance(SECOND);
        within_a_second(async || {
            let counts = rig.gate.lease_counts();
            counts.borrowed > 0 || rig.gate.store().health().failed_calls > 0
        })
        .await;
        rig.proxy.set(Fault::None);
        assert_eq!(rig.gate.lease_counts().in_hand, 0, "it ended before it came");
        within_a_second(async || rig.used().await == 400).await;
    });
}

#[test]
fn what_is_in_hand_is_spent_while_the_store_is_away_and_then_the_rule_falls_back() {
    wait(async {
        for (choice, falls_back) in [(OnStoreError::Allow, true), (OnStoreError::Deny, false)] {
            let mut policy = per_user(Limit::per_hour(10_000));
            policy.rules[0].on_store_error = Some(choice);
            let rig = Rig::new(policy).await;
            heat(&rig.gate, &ana()).await;
            rig.proxy.set(Fault::Refuse);
            let in_hand = rig.gate.lease_counts().in_hand;
            for _ in 0..in_hand {
                let ruling = rig.gate.check(&ana()).await;
                assert!(ruling.is_allowed() && ruling.is_leased() && !ruling.is_degraded());
            }
            let ruling = rig.gate.check(&ana()).await;
            assert_eq!((ruling.is_allowed(), ruling.is_degraded()), (falls_back, true));
            assert!(!ruling.is_leased());
        }
    });
}

#[test]
fn what_is_in_hand_is_not_spent_after_its_end_though_the_store_is_away() {
    wait(async {
        let rig = Rig::new(per_user(Limit::per_hour(10_000))).await;
        heat(&rig.gate, &ana()).await;
        rig.proxy.set(Fault::Refuse);
        assert!(rig.gate.check(&ana()).await.is_leased());
        rig.clock.advance(SECOND);
        let ruling = rig.gate.check(&ana()).await;
        assert!(!ruling.is_leased() && ruling.is_degraded());
    });
}

#[test]
fn a_request_whose_store_does_not_answer_puts_back_what_it_took_from_hand() {
    wait(async {
        let policy = per_user(Limit::per_hour(10_000))
            .rule(Rule::new("exports").matches("route", "/export").limit(Limit::per_hour(1000)));
        let rig = Rig::new(policy).await;
        heat(&rig.gate, &ana()).await;
        rig.proxy.set(Fault::Freeze);
        let before = rig.gate.lease_counts().in_hand;
        let export = ana().with("route", "/export");
        assert!(rig.gate.try_check(&export).await.is_err(), "it times out");
        assert_eq!(rig.gate.lease_counts().in_hand, before);
        // And one that nobody waits for any more.
        rig.recovers().await;
        let before = rig.gate.lease_counts().in_hand;
        rig.proxy.set(Fault::Freeze);
        let dropped = tokio::time::timeout(TIMEOUT / 4, rig.gate.try_check(&export)).await;
        assert!(dropped.is_err(), "it is dropped on its way");
        assert_eq!(rig.gate.lease_counts().in_hand, before);
    });
}

#[test]
fn a_return_whose_answer_is_lost_is_not_repeated() {
    wait(async {
        let lost = [Fault::Reset, Fault::HalfAnswer, Fault::Garbage, Fault::Delay(TIMEOUT * 2)];
        for fault in lost {
            let rig = Rig::new(strict(Limit::fixed_window(10_000, 3600 * SECOND))).await;
            let taken = heat(&rig.gate, &ana()).await;
            let in_hand = rig.gate.lease_counts().in_hand;
            rig.proxy.set(fault);
            rig.gate.return_leases().await;
            // The server has done it: once more would be one too many.
            within_a_second(async || rig.used().await == taken).await;
            rig.proxy.set(Fault::None);
            tokio::time::sleep(TIMEOUT).await;
            assert_eq!(rig.used().await, taken, "{fault:?}");
            let counts = rig.gate.lease_counts();
            assert_eq!((counts.returns, counts.returned), (1, in_hand), "{fault:?}");
        }
    });
}

#[test]
fn whatever_breaks_no_more_is_admitted_than_the_limit_and_nothing_is_minted() {
    const LIMIT: u64 = 3000;
    let faults = [
        Fault::Reset,
        Fault::Delay(TIMEOUT * 2),
        Fault::Freeze,
        Fault::Garbage,
        Fault::HalfAnswer,
        Fault::Trickle(Duration::from_millis(5)),
        Fault::Refuse,
    ];
    wait(async {
        let rig = Rig::new(strict(Limit::fixed_window(LIMIT, 3600 * SECOND))).await;
        let (mut admitted, mut paid) = (0, 0);
        for fault in faults {
            for step in 0..120_u64 {
                // The fault comes between a borrow and its answer as often as not.
                if step == 60 {
                    rig.proxy.set(fault);
                }
                let ruling = rig.gate.check(&ana().cost(1 + step % 3)).await;
                if ruling.is_allowed() {
                    admitted += 1 + step % 3;
                    paid += u64::from(ruling.is_leased());
                }
                if step % 8 == 0 {
                    // What it has in hand it gives back, or tries to.
                    rig.gate.return_leases().await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            rig.recovers().await;
            let used = rig.used().await;
            assert!(used >= admitted, "{fault:?}: {used} used, {admitted} admitted");
        }
        assert!(paid > 100, "{paid} were paid from hand");
        loop {
            let ruling = rig.gate.check(&ana()).await;
            if !ruling.is_allowed() && !ruling.is_degraded() {
                break;
            }
            admitted += u64::from(ruling.is_allowed());
        }
        assert!(admitted <= LIMIT, "{admitted}");
    });
}

#[test]
fn a_server_that_has_forgotten_everything_is_minted_nothing_by_what_comes_back() {
    wait(async {
        let mut rig = Rig::new(strict(Limit::fixed_window(10_000, 3600 * SECOND))).await;
        heat(&rig.gate, &ana()).await;
        let in_hand = rig.gate.lease_counts().in_hand;
        rig.server.restart();
        rig.recovers().await;
        rig.gate.return_leases().await;
        let mut admitted = 0;
        loop {
            let ruling = rig.gate.check(&ana().cost(50)).await;
            if !ruling.is_allowed() && !ruling.is_degraded() {
                break;
            }
            admitted += 50 * u64::from(ruling.is_allowed());
        }
        assert!(admitted <= 10_000 + in_hand, "{admitted} with {in_hand} in hand before");
    });
}
