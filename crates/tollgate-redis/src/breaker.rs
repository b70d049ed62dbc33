//! The circuit breaker: keeps a link while the server answers, and keeps calls away from it while
//! it does not.
//!
//! ```text
//!            a link is made               3 failures in a row, or the server says it cannot
//! Joining ───────────────────► Up ────────────────────────────────────────────────────► Away
//!    ▲    calls wait for it     │  calls go on it                 calls fail at once      │
//!    └──────────────────────────┘                                                         │
//!        the link has broken    ▲                                                         │
//!                               └─────────── a probe has written within the time-out ─────┘
//! ```
//!
//! One task, the keeper, makes all links. It lives only while there is none, so that no call ever
//! owns a connection attempt, and nothing runs in the background while all is well.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tollgate::{Clock, Timestamp};

use crate::bounds::{CALM, FIRST_PROBE, LAST_PROBE, STRIKES};
use crate::error::StoreError;
use crate::link::{Connector, Link};
use crate::outage::{Health, Outage};

pub(crate) struct Breaker {
    dialer: Connector,
    /// The longest a call may take.
    timeout: Duration,
    clock: Clock,
    line: ArcSwap<LinkState>,
    /// Told when `line` is no longer `Joining`.
    changed: Notify,
    /// Failures since the last answer.
    strikes: AtomicU32,
    /// How many answers have come on all links.
    answers: AtomicU64,
    failed_calls: AtomicU64,
    /// Held to change `line`; no other lock is taken under it.
    book: Mutex<BreakerState>,
}

enum LinkState {
    Joining,
    Up(NumberedLink),
    Away(Arc<OutageInfo>),
}

/// A link and its number, so that an old link's failures are not the new one's.
#[derive(Clone)]
pub(crate) struct NumberedLink {
    pub(crate) link: Link,
    number: u64,
}

struct OutageInfo {
    since: Timestamp,
    why: Arc<StoreError>,
    failed_before: u64,
}

struct BreakerState {
    /// Of the last link.
    number: u64,
    /// Dead once the keeper has ended, with its runtime or by itself.
    keeper: Weak<()>,
    /// How many probes have failed, which says how long to wait for the next.
    step: u32,
    /// When the last outage ended.
    ended: Option<Timestamp>,
    outages: u64,
}

/// How a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFailure {
    /// The link is broken.
    Lost,
    /// No answer came in time.
    Late,
    /// The server said that it cannot serve.
    Refused,
}

impl Breaker {
    pub(crate) fn new(dialer: Connector, timeout: Duration) -> Arc<Breaker> {
        let book =
            BreakerState { number: 0, keeper: Weak::new(), step: 0, ended: None, outages: 0 };
        Arc::new(Breaker {
            dialer,
            timeout,
            clock: Clock::system(),
            line: ArcSwap::from_pointee(LinkState::Joining),
            changed: Notify::new(),
            strikes: AtomicU32::new(0),
            answers: AtomicU64::new(0),
            failed_calls: AtomicU64::new(0),
            book: Mutex::new(book),
        })
    }

    pub(crate) fn dialer(&self) -> &Connector {
        &self.dialer
    }

    /// The longest a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes the first link, for somebody who wants to know at once.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        let link = self.dialer.dial().await?;
        self.up(&mut self.book(), link);
        Ok(())
    }

    /// Sees to it that a link is being made, for somebody who will want it.
    pub(crate) fn prepare(self: &Arc<Breaker>) {
        if matches!(&**self.line.load(), LinkState::Joining) {
            self.see_to_a_keeper(&mut self.book());
        }
    }

    /// The link, waited for while it is being made, but not during an outage.
    pub(crate) async fn link(self: &Arc<Breaker>) -> Result<NumberedLink, StoreError> {
        if let LinkState::Up(link) = &**self.line.load() {
            return Ok(link.clone());
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on a change is noticed, also one before the wait begins.
            changed.as_mut().enable();
            match &**self.line.load() {
                LinkState::Up(link) => return Ok(link.clone()),
                LinkState::Joining => self.see_to_a_keeper(&mut self.book()),
                LinkState::Away(absence) => return Err(self.away(absence)),
            }
            changed.await;
        }
    }

    /// Whether calls fail at once, and with what.
    pub(crate) fn outage(self: &Arc<Breaker>) -> Option<StoreError> {
        match &**self.line.load() {
            LinkState::Away(absence) => {
                // The keeper's runtime may be gone, and the keeper with it. Who holds the book
                // sees to that, too.
                if let Ok(mut book) = self.book.try_lock() {
                    self.see_to_a_keeper(&mut book);
                }
                Some(self.away(absence))
            }
            LinkState::Up(_) | LinkState::Joining => None,
        }
    }

    fn away(&self, absence: &OutageInfo) -> StoreError {
        let lasted = self.clock.now().saturating_since(absence.since);
        StoreError::Unavailable { lasted, why: absence.why.clone() }
    }

    /// A call on the link was answered.
    pub(crate) fn answered(&self, link: &NumberedLink) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        if self.strikes.load(Ordering::Relaxed) > 0 && self.book().number == link.number {
            self.strikes.store(0, Ordering::Relaxed);
        }
    }

    /// How many answers have come so far. A server that answers while a call waits is not away: a call that
    /// takes several round trips may time out although all of them were answered.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// A call got no answer for want of a store, one way or another.
    pub(crate) fn count_failed_call(&self) {
        self.failed_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the link that is up; a call that times out says which one it began with.
    pub(crate) fn number(&self) -> Option<u64> {
        match &**self.line.load() {
            LinkState::Up(link) => Some(link.number),
            LinkState::Joining | LinkState::Away(_) => None,
        }
    }

    pub(crate) fn link_failed(
        self: &Arc<Breaker>,
        link: &NumberedLink,
        failure: CallFailure,
        why: &StoreError,
    ) {
        self.failed(Some(link.number), failure, why);
    }

    /// A call failed that began with the link `number`, or with none. What is known by then about
    /// another link is not touched.
    pub(crate) fn failed(
        self: &Arc<Breaker>,
        number: Option<u64>,
        failure: CallFailure,
        why: &StoreError,
    ) {
        let mut book = self.book();
        if matches!(&**self.line.load(), LinkState::Away(_)) || number != self.number() {
            return;
        }
        let strikes = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
        if failure == CallFailure::Refused || strikes >= STRIKES {
            self.begin_outage(&mut book, why);
        } else if failure == CallFailure::Lost {
            self.line.store(Arc::new(LinkState::Joining));
            self.see_to_a_keeper(&mut book);
        }
    }

    pub(crate) fn health(&self) -> Health {
        let book = self.book();
        let failed_calls = self.failed_calls.load(Ordering::Relaxed);
        let line = self.line.load();
        let outage = match &**line {
            LinkState::Away(absence) => Some(Outage {
                address: self.dialer.address().to_owned(),
                duration: self.clock.now().saturating_since(absence.since),
                cause: (*absence.why).clone(),
                failed_calls: failed_calls - absence.failed_before,
            }),
            LinkState::Up(_) | LinkState::Joining => None,
        };
        let connected = matches!(&**line, LinkState::Up(_));
        let (reached, outages) = (book.number > 0, book.outages);
        Health {
            connected,
            ever_connected: reached,
            outage,
            outages,
            failed_calls,
            cached_denials: 0,
        }
    }

    fn begin_outage(self: &Arc<Breaker>, book: &mut BreakerState, why: &StoreError) {
        let now = self.clock.now();
        if book.ended.is_none_or(|ended| now.saturating_since(ended) > CALM) {
            book.step = 0;
        }
        book.outages += 1;
        self.strikes.store(0, Ordering::Relaxed);
        tracing::warn!(
            address = self.dialer.address(),
            reason = %why,
            "redis is away: calls fail at once until it is back"
        );
        let failed_before = self.failed_calls.load(Ordering::Relaxed);
        let absence = OutageInfo { since: now, why: Arc::new(why.clone()), failed_before };
        self.line.store(Arc::new(LinkState::Away(Arc::new(absence))));
        self.changed.notify_waiters();
        self.see_to_a_keeper(book);
    }

    fn up(&self, book: &mut BreakerState, link: Link) {
        if let LinkState::Away(absence) = &**self.line.load() {
            let now = self.clock.now();
            let lasted = now.saturating_since(absence.since);
            book.ended = Some(now);
            self.strikes.store(0, Ordering::Relaxed);
            tracing::info!(
                address = self.dialer.address(),
                lasted_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
                failed_calls = self.failed_calls.load(Ordering::Relaxed) - absence.failed_before,
                "redis is back"
            );
        }
        book.number += 1;
        book.keeper = Weak::new();
        self.line.store(Arc::new(LinkState::Up(NumberedLink { link, number: book.number })));
        self.changed.notify_waiters();
    }

    /// Starts the keeper unless there is one.
    fn see_to_a_keeper(self: &Arc<Breaker>, book: &mut BreakerState) {
        if book.keeper.strong_count() == 0 {
            let alive = Arc::new(());
            book.keeper = Arc::downgrade(&alive);
            tokio::spawn(keep(Arc::downgrade(self), alive));
        }
    }

    /// How long to wait before the next try.
    fn wait(&self) -> Duration {
        let step = self.book().step;
        if step == 0 || !matches!(&**self.line.load(), LinkState::Away(_)) {
            return Duration::ZERO;
        }
        let wait = FIRST_PROBE.saturating_mul(1 << (step - 1).min(16)).min(LAST_PROBE);
        // Between three and five quarters of it, so that a fleet does not knock all at once.
        let share = u32::try_from(getrandom::u64().unwrap_or(0) % 512).unwrap_or(0);
        wait * (768 + share) / 1024
    }

    /// Tries to make a link; whether there is one now.
    async fn try_to_join(self: &Arc<Breaker>) -> bool {
        let is_away = || matches!(&**self.line.load(), LinkState::Away(_));
        let must_be_probed = is_away();
        let made = async {
            let link = self.dialer.dial().await?;
            if must_be_probed {
                self.dialer.probe(&link, self.timeout).await?;
            }
            Ok(link)
        };
        let made = made.await;
        let mut book = self.book();
        match made {
            // Calls gave up waiting meanwhile: it must show first that it is fast enough.
            Ok(_) if is_away() && !must_be_probed => return false,
            Ok(link) => {
                self.up(&mut book, link);
                return true;
            }
            Err(why) => match &**self.line.load() {
                LinkState::Away(absence) => {
                    let OutageInfo { since, failed_before, .. } = **absence;
                    let absence = OutageInfo { since, why: Arc::new(why), failed_before };
                    self.line.store(Arc::new(LinkState::Away(Arc::new(absence))));
                }
                LinkState::Up(_) | LinkState::Joining => self.begin_outage(&mut book, &why),
            },
        }
        book.step = book.step.saturating_add(1);
        false
    }

    fn book(&self) -> MutexGuard<'_, BreakerState> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keeper: tries to make a link until there is one, or nobody is left to use it. `alive` is
/// dropped with it.
async fn keep(breaker: Weak<Breaker>, alive: Arc<()>) {
    loop {
        let Some(wait) = breaker.upgrade().map(|breaker| breaker.wait()) else { return };
        tokio::time::sleep(wait).await;
        let Some(breaker) = breaker.upgrade() else { return };
        if breaker.try_to_join().await {
            drop(alive);
            return;
        }
    }
}
