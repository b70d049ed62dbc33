//! `Acquire`: one wait, as a future or as a blocked thread.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use super::queue::{ServeCall, WaitGrant, WaitQueue, WaitRequest, WakeList};
use crate::bounds::DEFAULT_QUEUE;
use crate::decision::{CostError, Decision, Outcome};
use crate::key::{Key, KeyId, KeyName};
use crate::limiter::Limiter;
use crate::store::memory::KeyEntry;
use crate::time::{Clock, Timestamp};

/// A wait for units of a key, made by [`Limiter::acquire`].
///
/// `.await` it (feature `tokio`) or block a thread with [`wait`](Self::wait). Waiters of a key are
/// served in the order in which they began to wait. Dropping a wait leaves the queue and returns
/// its units; a leaky queue's turn is returned only if no later turn was given out.
///
/// Each waiter is charged for the instant at which its units came, so a timer that wakes it later
/// does not slow down those behind it. The decision it returns has the figures of that instant.
///
/// An awaited wait sleeps by tokio's timer, which counts whole milliseconds, and reads tokio's
/// clock. If that is paused, as in a test, the wait follows it.
///
/// # Panics
/// If it has to sleep and is polled outside a tokio runtime with an enabled timer. A wait on a
/// [`ManualClock`](crate::ManualClock) needs no runtime.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_second(1000).burst(1))?;
/// for _ in 0..3 {
///     limiter.acquire("ana").timeout(Duration::from_secs(5)).wait()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an acquire does nothing unless it is awaited or waited for"]
pub struct Acquire {
    limiter: Limiter,
    fingerprint: KeyId,
    name: KeyName,
    cost: u64,
    timeout: Option<Duration>,
    max_waiters: usize,
    stage: WaitStage,
    #[cfg(feature = "tokio")]
    pub(super) alarm: super::alarm::WaitTimer,
}

/// The progress of a wait.
#[derive(Clone, Copy, Debug)]
enum WaitStage {
    New,
    Queued {
        ticket: u64,
    },
    /// The units are taken; the wait ends at the turn of a leaky queue.
    Granted(WaitGrant),
    Done,
}

/// What to do next in a wait.
#[derive(Debug)]
pub(super) enum WaitStep {
    Ready(Result<Decision, AcquireError>),
    /// Take the next step at this time, or when woken.
    Sleep(Option<Timestamp>),
}

/// The reason why a wait was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The cost can never be taken.
    Cost(CostError),
    /// The key's queue is full.
    QueueFull {
        /// The number of waiters in it.
        waiting: usize,
    },
    /// The units cannot be had by the deadline.
    DeadlineExceeded {
        /// The time until they could be had, as far as is known.
        ready_after: Duration,
    },
}

impl Acquire {
    pub(crate) fn new(limiter: Limiter, key: &impl Key) -> Acquire {
        let (fingerprint, name) = (limiter.fingerprint(key), KeyName::new(key));
        Acquire {
            limiter,
            fingerprint,
            name,
            cost: 1,
            timeout: None,
            max_waiters: DEFAULT_QUEUE,
            stage: WaitStage::New,
            #[cfg(feature = "tokio")]
            alarm: super::alarm::WaitTimer::default(),
        }
    }

    /// Sets the number of units to wait for. Default: 1.
    pub fn cost(mut self, units: u64) -> Acquire {
        self.cost = units;
        self
    }

    /// Sets the longest wait. Default: no limit. A wait that cannot end in time is refused at once.
    pub fn timeout(mut self, patience: Duration) -> Acquire {
        self.timeout = Some(patience);
        self
    }

    /// Sets how many may wait for the key, this one included. Default: 1024.
    pub fn max_waiters(mut self, waiters: usize) -> Acquire {
        self.max_waiters = waiters;
        self
    }

    /// Blocks the thread until the units are taken.
    ///
    /// # Errors
    /// If the wait is refused.
    pub fn wait(mut self) -> Result<Decision, AcquireError> {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        loop {
            match self.step(self.limiter.memory().now(), &waker) {
                WaitStep::Ready(answer) => return answer,
                WaitStep::Sleep(until) => self.park(until, &waker),
            }
        }
    }

    fn park(&self, until: Option<Timestamp>, waker: &Waker) {
        let clock = self.clock();
        match (clock.manual(), until) {
            (_, None) => std::thread::park(),
            (None, Some(until)) => std::thread::park_timeout(until.saturating_since(clock.now())),
            (Some(manual), Some(until)) => {
                let sleeper = manual.wake_at(until, waker);
                std::thread::park();
                manual.forget(sleeper);
            }
        }
    }

    /// Takes the next step of the wait. `waker` is called when to take another one.
    pub(super) fn step(&mut self, now: Timestamp, waker: &Waker) -> WaitStep {
        let outcome = match self.stage {
            WaitStage::New => self.arrive(now, waker),
            WaitStage::Queued { ticket } => self.look_again(now, ticket, waker),
            WaitStage::Granted(grant) => Ok(Ok(grant)),
            WaitStage::Done => Err(None),
        };
        match outcome {
            Err(until) => {
                // At the last moment there is, time stands still: only another call changes that.
                WaitStep::Sleep(until.filter(|at| now < Timestamp::MAX || *at < now))
            }
            Ok(Ok(grant)) if grant.turn() > now => {
                self.stage = WaitStage::Granted(grant);
                WaitStep::Sleep(Some(grant.turn()))
            }
            Ok(outcome) => {
                self.stage = WaitStage::Done;
                WaitStep::Ready(outcome.map(|grant| grant.decision))
            }
        }
    }

    /// Takes the units if they are there and the queue is empty; enters the queue otherwise.
    fn arrive(&mut self, now: Timestamp, waker: &Waker) -> WaitOutcome {
        let limiter = self.limiter.clone();
        let memory = limiter.memory();
        let peeked = self.with_entry(|entry| memory.peek(entry, now, self.cost));
        match peeked.outcome() {
            Outcome::Invalid(error) => return Ok(Err(AcquireError::Cost(error))),
            _ if self.cost == 0 => return Ok(Ok(WaitGrant { due: now, decision: peeked })),
            _ => {}
        }
        let request = WaitRequest {
            named: Arc::clone(limiter.named()),
            cost: self.cost,
            arrived: now,
            deadline: self.timeout.map_or(Timestamp::MAX, |patience| now.saturating_add(patience)),
        };
        // Dropped in reverse order: the wakers are called once the lock is released.
        let mut wakes = WakeList::default();
        let mut queues = memory.waiting.lock(self.fingerprint);
        if let Some(queue) = queues.get_mut(&self.fingerprint) {
            self.serve(queue, now, None, &mut wakes);
        }
        let queue = queues.get(&self.fingerprint);
        let waiting = queue.map_or(0, WaitQueue::len);
        if self.timeout.is_some() {
            let before = queue.into_iter().flat_map(WaitQueue::requests);
            let ready = self.ready_at(before, &request, now);
            let ready = ready.min(self.held_until().unwrap_or(ready));
            if ready > request.deadline {
                return Ok(Err(AcquireError::DeadlineExceeded {
                    ready_after: ready.saturating_since(now),
                }));
            }
        }
        if waiting == 0 {
            let decision = self.with_entry(|entry| memory.charge(entry, now, self.cost));
            if decision.is_allowed() {
                return Ok(Ok(WaitGrant { due: now, decision }));
            }
        }
        if waiting >= self.max_waiters {
            return Ok(Err(AcquireError::QueueFull { waiting }));
        }
        let ticket = memory.waiting.enter(&mut queues, self.fingerprint, request, waker);
        self.stage = WaitStage::Queued { ticket };
        drop(queues);
        // Served once more now that it can be woken: units that came back in between are seen.
        self.look_again(now, ticket, waker)
    }

    /// Serves the queue. Returns this waiter's outcome, or when to look again.
    fn look_again(&mut self, now: Timestamp, ticket: u64, waker: &Waker) -> WaitOutcome {
        let limiter = self.limiter.clone();
        let memory = limiter.memory();
        // Dropped in reverse order: the wakers are called once the lock is released.
        let mut wakes = WakeList::default();
        let mut queues = memory.waiting.lock(self.fingerprint);
        let Some(queue) = queues.get_mut(&self.fingerprint) else {
            return Err(None);
        };
        queue.set_waker(ticket, waker);
        let next = self.serve(queue, now, Some(ticket), &mut wakes);
        let mut outcome = queue.take_outcome(ticket);
        if outcome.is_none() {
            if queue.is_head(ticket) {
                return Err(next);
            }
            let Some(request) = queue.request(ticket) else { return Err(None) };
            let deadline = (request.deadline < Timestamp::MAX).then_some(request.deadline);
            if !request.is_late(now) {
                return Err(deadline);
            }
            let ready = self.ready_at(queue.requests_before(ticket), request, now);
            outcome = Some(Err(AcquireError::DeadlineExceeded {
                ready_after: ready.saturating_since(now),
            }));
        }
        memory.waiting.leave(&mut queues, self.fingerprint, ticket, &mut wakes);
        outcome.ok_or(None)
    }

    fn serve(
        &self,
        queue: &mut WaitQueue,
        now: Timestamp,
        own: Option<u64>,
        wakes: &mut WakeList,
    ) -> Option<Timestamp> {
        let (memory, fingerprint, name) = (self.limiter.memory(), self.fingerprint, &self.name);
        let call = ServeCall { memory, fingerprint, name, now, own };
        memory.waiting.serve(queue, &call, wakes)
    }

    /// Returns when `last` would go ahead after all of `before`, if nothing else arrives. The
    /// search ends at its deadline.
    fn ready_at<'a>(
        &self,
        before: impl Iterator<Item = &'a WaitRequest>,
        last: &'a WaitRequest,
        now: Timestamp,
    ) -> Timestamp {
        let plan = &self.limiter.named().plan;
        let mut state = self.with_entry(|entry| self.limiter.memory().state(entry, now));
        let mut at = now;
        let enough = if last.is_late(now) { Timestamp::MAX } else { last.deadline };
        for request in before.chain([last]) {
            let figures = plan.decide(state.as_ref(), at.as_nanos(), request.cost);
            if !figures.allowed() {
                at = at.after_nanos(figures.retry_after());
            }
            let delay = plan.decide(state.as_ref(), at.as_nanos(), request.cost).delay();
            let turn = at.after_nanos(delay);
            if turn > enough || std::ptr::eq(request, last) {
                return turn;
            }
            plan.take(state.as_mut(), at.as_nanos(), request.cost);
        }
        at
    }

    /// Returns when the first reservation of the key times out, if any does.
    fn held_until(&self) -> Option<Timestamp> {
        let until = self.limiter.memory().held_until(self.fingerprint)?;
        (until < Timestamp::MAX).then_some(until)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.limiter.memory().settings.clock
    }

    /// The time for a future: tokio's, unless the clock is a manual one.
    #[cfg(feature = "tokio")]
    pub(super) fn now(&self) -> Timestamp {
        let now = self.limiter.memory().now();
        #[cfg(not(target_family = "wasm"))]
        if self.clock().manual().is_none() {
            return Timestamp::of_instant(tokio::time::Instant::now().into_std());
        }
        now
    }

    fn with_entry<T>(&self, act: impl FnOnce(&KeyEntry<'_>) -> T) -> T {
        let (named, fingerprint) = (self.limiter.named(), self.fingerprint);
        act(&KeyEntry { named, fingerprint, key: &self.name })
    }
}

/// The outcome of a wait; as an error, when to look again, if not only when woken.
type WaitOutcome = Result<Result<WaitGrant, AcquireError>, Option<Timestamp>>;

impl Drop for Acquire {
    fn drop(&mut self) {
        let memory = self.limiter.memory();
        let unused = match self.stage {
            WaitStage::Queued { ticket } => {
                let mut wakes = WakeList::default();
                let mut queues = memory.waiting.lock(self.fingerprint);
                memory.waiting.leave(&mut queues, self.fingerprint, ticket, &mut wakes)
            }
            WaitStage::Granted(grant) => Some(grant),
            WaitStage::New | WaitStage::Done => None,
        };
        if let Some(grant) = unused {
            let key = (&**self.limiter.named(), self.fingerprint);
            memory.return_due(key, (grant.due, grant.turn()), self.cost);
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.cost)
            .field("within", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Cost(_) => f.write_str("the cost can never be taken"),
            AcquireError::QueueFull { waiting } => {
                write!(f, "the key's queue is full: {waiting} are waiting")
            }
            AcquireError::DeadlineExceeded { ready_after } if ready_after.is_zero() => {
                f.write_str("the deadline passed while others were served first")
            }
            AcquireError::DeadlineExceeded { ready_after } => {
                write!(f, "the units come in {ready_after:?}, after the deadline")
            }
        }
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AcquireError::Cost(error) => Some(error),
            _ => None,
        }
    }
}

/// Wakes a thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
