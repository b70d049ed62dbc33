//! A store that is slow, broken or away: what was charged is spent once at most, and in time.

use std::pin::pin;

use futures_util::FutureExt;
use tokio::task::yield_now;
use tollgate::{Limit, ManualClock, OnStoreError, Policy, Rule};
use tollgate_redis::{RedisGate, RedisStore, StoreError};
use tollgate_testkit::{DEADLINE, Fault, FaultProxy, RedisServer, eventually_async};

use super::{SECOND, ana, heat, leased, per_user};
use crate::common::clock::{after_timeout, alone, with_timeouts};
use crate::common::{connect, server, unique};

/// A node behind a proxy on a clock of the test's, and one beside it that is never disturbed.
struct Rig {
    proxy: FaultProxy,
    clock: ManualClock,
    gate: RedisGate,
    beside: RedisGate,
}

impl Rig {
    /// A rig on the shared server, for faults of the network.
    async fn new(policy: Policy) -> Rig {
        Rig::on(server(), policy).await
    }

    async fn on(server: &RedisServer, policy: Policy) -> Rig {
        let proxy = FaultProxy::to(server.port());
        let (clock, namespace) = (ManualClock::new(), unique("faults"));
        let gate = |store: RedisStore| {
            let builder = RedisGate::builder(store.with_test_clock(clock.clone()));
            builder.namespace(namespace.clone()).build(policy.clone()).unwrap()
        };
        let [gate, beside] = [connect(&proxy.url()).await, connect(&server.url()).await].map(gate);
        Rig { proxy, clock, gate, beside }
    }

    async fn used(&self) -> u64 {
        let ruling = eventually_async("an answer", async || {
            let ruling = self.beside.status(&ana()).await;
            (!ruling.is_degraded()).then_some(ruling)
        });
        let ruling = ruling.await;
        ruling.limit() - ruling.remaining()
    }

    /// Waits until the node is answered again.
    async fn recovers(&self) {
        self.proxy.set(Fault::None);
        eventually_async("an answer", async || {
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
    alone(async {
        let rig = Rig::new(per_user(Limit::fixed_window(10_000, 3600 * SECOND))).await;
        for _ in 0..4 {
            assert!(rig.gate.try_check(&ana().cost(100)).await.unwrap().is_allowed());
        }
        // The fourth makes it hot: the borrow is sent when this task waits for the first time. Its
        // answer comes when its time is over.
        assert_eq!(rig.gate.lease_counts().borrows, 0);
        rig.proxy.set(Fault::Delay(DEADLINE));
        eventually_async("a borrow", async || rig.gate.lease_counts().borrows == 1).await;
        rig.clock.advance(SECOND);
        assert_eq!(rig.gate.lease_counts().borrowed, 0);
        rig.proxy.set(Fault::None);
        eventually_async("the answer", async || rig.gate.lease_counts().borrowed > 0).await;
        assert_eq!(rig.gate.lease_counts().available, 0, "it ended before it came");
        eventually_async("the units to be returned", async || rig.used().await == 400).await;
    });
}

#[test]
fn what_is_in_hand_is_spent_while_the_store_is_away_and_then_the_rule_falls_back() {
    alone(async {
        for (choice, falls_back) in [(OnStoreError::Allow, true), (OnStoreError::Deny, false)] {
            let mut policy = per_user(Limit::per_hour(10_000));
            policy.rules[0].on_store_error = Some(choice);
            let rig = Rig::new(policy).await;
            heat(&rig.gate, &ana()).await;
            rig.proxy.set(Fault::Refuse);
            let in_hand = rig.gate.lease_counts().available;
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
    alone(async {
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
    alone(async {
        let policy = per_user(Limit::per_hour(10_000))
            .rule(Rule::new("exports").matches("route", "/export").limit(Limit::per_hour(1000)));
        let rig = Rig::new(policy).await;
        heat(&rig.gate, &ana()).await;
        rig.proxy.set(Fault::Freeze);
        let before = rig.gate.lease_counts().available;
        let export = ana().with("route", "/export");
        let late = after_timeout(DEADLINE, rig.gate.try_check(&export)).await;
        assert_eq!(late.unwrap_err(), StoreError::Timeout(DEADLINE));
        assert_eq!(rig.gate.lease_counts().available, before);
        // And one that nobody waits for any more.
        rig.recovers().await;
        let before = rig.gate.lease_counts().available;
        rig.proxy.set(Fault::Freeze);
        {
            let mut dropped = pin!(rig.gate.try_check(&export));
            assert!(dropped.as_mut().now_or_never().is_none(), "it is dropped on its way");
        }
        assert_eq!(rig.gate.lease_counts().available, before);
    });
}

#[test]
fn a_return_whose_answer_is_lost_is_not_repeated() {
    alone(async {
        let lost = [Fault::Reset, Fault::HalfAnswer, Fault::Garbage, Fault::Delay(DEADLINE)];
        for fault in lost {
            let rig = Rig::new(strict(Limit::fixed_window(10_000, 3600 * SECOND))).await;
            let taken = heat(&rig.gate, &ana()).await;
            let in_hand = rig.gate.lease_counts().available;
            rig.proxy.set(fault);
            let mut returning = pin!(rig.gate.return_leases());
            let _ = returning.as_mut().now_or_never();
            // The server has done it: once more would be one too many.
            eventually_async("the units to be returned", async || rig.used().await == taken).await;
            with_timeouts(DEADLINE, returning).await;
            rig.proxy.set(Fault::None);
            eventually_async("an answer", async || !rig.gate.status(&ana()).await.is_degraded())
                .await;
            rig.gate.keep_leases_once().await;
            rig.gate.return_leases().await;
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
        Fault::Delay(DEADLINE),
        Fault::Freeze,
        Fault::Garbage,
        Fault::HalfAnswer,
        Fault::Trickle(DEADLINE),
        Fault::Refuse,
    ];
    alone(async {
        let rig = Rig::new(strict(Limit::fixed_window(LIMIT, 3600 * SECOND))).await;
        let (mut admitted, mut paid) = (0, 0);
        for fault in faults {
            for step in 0..120_u64 {
                // The fault comes between a borrow and its answer as often as not.
                if step == 60 {
                    rig.proxy.set(fault);
                }
                let request = ana().cost(1 + step % 3);
                let ruling = match step {
                    ..60 => rig.gate.check(&request).await,
                    _ => with_timeouts(DEADLINE, rig.gate.check(&request)).await.0,
                };
                if ruling.is_allowed() {
                    admitted += 1 + step % 3;
                    paid += u64::from(ruling.is_leased());
                }
                if step % 8 == 0 {
                    // What it has in hand it gives back, or tries to.
                    with_timeouts(DEADLINE, rig.gate.return_leases()).await;
                    yield_now().await;
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
    let mut server = RedisServer::start();
    alone(async {
        let policy = strict(Limit::fixed_window(10_000, 3600 * SECOND));
        let rig = Rig::on(&server, policy).await;
        heat(&rig.gate, &ana()).await;
        let in_hand = rig.gate.lease_counts().available;
        server.restart();
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
