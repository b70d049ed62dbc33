//! A store behind a proxy that breaks what passes, and the outcome of its calls.

use std::time::Duration;

use super::clock::after_timeout;
use super::{builder, server, unique};
use futures_util::FutureExt;
use tokio::time::Instant;
use tollgate::{Decision, Limit};
use tollgate_redis::{RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{DEADLINE, Fault, FaultProxy, RedisServer, eventually_async};

/// The timeout of the calls of [`builder`]. The machine never needs so long for an answer; where no answer comes, the
/// test moves the clock of its runtime.
pub(crate) const TIMEOUT: Duration = DEADLINE;
pub(crate) const LIMIT: u64 = 40;

/// A store behind a proxy, and one limiter of it.
pub(crate) struct Rig {
    pub(crate) proxy: FaultProxy,
    pub(crate) store: RedisStore,
    pub(crate) limiter: RedisLimiter,
    pub(crate) tally: Tally,
}

/// The number of calls by their outcomes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// Failed without being sent.
    pub(crate) away: u64,
    /// Failed otherwise: they may have been done all the same.
    pub(crate) failed: u64,
}

impl Rig {
    /// A rig on the shared server, for faults of the network.
    pub(crate) fn new() -> Rig {
        Rig::on(server())
    }

    /// A rig on a server that the test breaks.
    pub(crate) fn on(server: &RedisServer) -> Rig {
        let proxy = FaultProxy::to(server.port());
        let store = builder(proxy.url()).open().unwrap();
        let limiter = store.limiter(&unique("fault"), Limit::per_day(LIMIT)).unwrap();
        Rig { proxy, store, limiter, tally: Tally::default() }
    }

    pub(crate) fn count(
        &mut self,
        answer: Result<Decision, StoreError>,
    ) -> Result<bool, StoreError> {
        match &answer {
            Ok(decision) if decision.is_allowed() => self.tally.admitted += 1,
            Ok(_) => self.tally.denied += 1,
            Err(StoreError::Unavailable { .. }) => self.tally.away += 1,
            Err(_) => self.tally.failed += 1,
        }
        answer.map(|decision| decision.is_allowed())
    }

    pub(crate) async fn call(&mut self) -> Result<bool, StoreError> {
        let answer = self.limiter.check("ana").await;
        self.count(answer)
    }

    /// The error of a call that does not wait: the store is unavailable.
    pub(crate) fn fail_at_once(&mut self) -> StoreError {
        let answer = self.limiter.check("ana").now_or_never().expect("the call does not wait");
        match self.count(answer) {
            Err(StoreError::Unavailable { why, .. }) => (*why).clone(),
            other => panic!("the store is not away: {other:?}"),
        }
    }

    pub(crate) async fn until_it_answers(&mut self) {
        eventually_async("an answer", async || self.call().await).await;
    }

    /// Calls until the store is unavailable; every call until then fails as `is_expected` says.
    pub(crate) async fn until_it_is_away(&mut self, is_expected: impl Fn(&StoreError) -> bool) {
        for _ in 0..10 {
            match self.call().await {
                Err(StoreError::Unavailable { why, .. }) => {
                    assert!(is_expected(&why), "{why:?}");
                    return;
                }
                Err(error) => assert!(is_expected(&error), "{error:?}"),
                Ok(_) => panic!("it answers"),
            }
        }
        panic!("it is asked again and again: {:?}", self.store.health());
    }

    /// Three calls wait for their timeout and no longer; then the store is unavailable.
    pub(crate) async fn until_it_is_away_after_timeouts(&mut self) {
        for _ in 0..3 {
            let answer = after_timeout(TIMEOUT, self.limiter.check("ana")).await;
            assert_eq!(self.count(answer), Err(StoreError::Timeout(TIMEOUT)));
        }
        assert_eq!(self.fail_at_once(), StoreError::Timeout(TIMEOUT));
    }

    /// While the store is unavailable, no call waits, and few connections are tried.
    pub(crate) async fn nobody_waits(&mut self) {
        let (start, accepted) = (Instant::now(), self.proxy.accepted());
        for _ in 0..500 {
            let _ = self.fail_at_once();
        }
        let health = self.store.health();
        assert!(!health.connected && health.outages == 1, "{health:?}");
        assert!(health.outage.unwrap().failed_calls >= 500);
        self.tried_seldom(start, accepted);
    }

    /// The store tries to connect again and again, but seldom.
    pub(crate) async fn connects_again_and_again(&self) {
        let (start, accepted) = (Instant::now(), self.proxy.accepted());
        eventually_async("three connections", async || self.proxy.accepted() >= accepted + 3).await;
        self.tried_seldom(start, accepted);
    }

    /// Asserts that no more connections were tried since `start`, when there were `accepted`, than the
    /// pauses between them allow.
    pub(crate) fn tried_seldom(&self, start: Instant, accepted: u64) {
        let tried = self.proxy.accepted() - accepted;
        let elapsed = start.elapsed();
        assert!(tried <= most_connections(elapsed), "{tried} connections in {elapsed:?}");
    }

    /// The whole of an outage in which the network breaks connections.
    pub(crate) async fn rides_out(&mut self, fault: Fault) {
        self.until_it_answers().await;
        self.proxy.set(fault);
        self.until_it_is_away(is_unreachable).await;
        self.nobody_waits().await;
        self.connects_again_and_again().await;
        self.ends_outage().await;
    }

    /// The whole of an outage in which answers do not come in time.
    pub(crate) async fn rides_out_silence(&mut self, fault: Fault) {
        self.until_it_answers().await;
        self.proxy.set(fault);
        self.until_it_is_away_after_timeouts().await;
        self.nobody_waits().await;
        self.ends_outage().await;
    }

    pub(crate) async fn ends_outage(&mut self) {
        self.proxy.set(Fault::None);
        self.until_it_answers().await;
        assert_eq!(self.store.health().outage, None);
        self.nothing_was_minted().await;
    }

    /// Uses up what is left: never more than the limit was admitted, and no call was charged but
    /// those that were sent.
    pub(crate) async fn nothing_was_minted(&mut self) {
        let used = self.limiter.status("ana").await.unwrap().used();
        let Tally { admitted, failed, .. } = self.tally;
        assert!((admitted..=admitted + failed).contains(&used), "{used} used, {:?}", self.tally);
        while self.call().await.unwrap() {}
        assert!(self.tally.admitted <= LIMIT, "{:?}", self.tally);
        assert!(self.tally.admitted + self.tally.failed >= LIMIT, "{:?}", self.tally);
    }
}

/// The most connections that are tried within a time: one that is on its way, one at once, and one
/// after each pause. Pauses begin with 50 ms, double up to a second, and are shorter by a quarter at
/// most.
fn most_connections(time: Duration) -> u64 {
    let (mut most, mut pause, mut passed) = (2, Duration::from_millis(50), Duration::ZERO);
    loop {
        passed += pause * 3 / 4;
        if passed > time {
            return most;
        }
        (most, pause) = (most + 1, (pause * 2).min(Duration::from_secs(1)));
    }
}

pub(crate) fn is_unreachable(error: &StoreError) -> bool {
    matches!(error, StoreError::Connection(_))
}
