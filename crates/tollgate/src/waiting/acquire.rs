//! `Acquire`: one wait, as a future or as a blocked thread.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::algorithm::Taken;
use crate::bounds::DEFAULT_QUEUE;
use crate::decision::{CostError, Decision, Outcome};
use crate::key::{Fingerprint, Key, KeyName};
use crate::limiter::Limiter;
use crate::store::memory::Entry;
#[cfg(feature = "tokio")]
use crate::time::Clock;
use crate::time::Timestamp;

/// A wait for units of a key, made by [`Limiter::acquire`].
///
/// `.await` it (feature `tokio`) or block a thread with [`wait`](Self::wait). Who asks first is
/// served first; dropping it gives its place, and whatever it took, back: a leaky queue's turn only
/// if nobody has been told a later one.
///
/// Awaited on the machine's clock it sleeps by tokio's timer, which counts whole milliseconds.
///
/// # Panics
/// Polled outside a tokio runtime that has its timer enabled, where it has to sleep; not on a
/// [`ManualClock`](crate::ManualClock).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_second(1000).burst(1))?;
/// for _ in 0..3 {
///     limiter.acquire("ana").within(Duration::from_secs(5)).wait()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an acquire does nothing unless it is awaited or waited for"]
pub struct Acquire {
    limiter: Limiter,
    fingerprint: Fingerprint,
    name: KeyName,
    cost: u64,
    within: Option<Duration>,
    queue: usize,
    stage: Stage,
    #[cfg(feature = "tokio")]
    pub(super) alarm: super::alarm::Alarm,
}

/// How far a wait has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    New,
    /// In the queue, to leave it by the deadline.
    Queued {
        ticket: u64,
        deadline: Option<Timestamp>,
    },
    /// Its units are taken; it goes ahead when its turn comes.
    Turn {
        until: Timestamp,
        decision: Decision,
    },
    Done,
}

/// Where a wait stands after a look.
#[derive(Debug)]
pub(super) enum Step {
    Ready(Result<Decision, AcquireError>),
    /// To look again at this time, or when woken.
    Wait(Option<Timestamp>),
}

/// Why a wait was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The cost can never be taken.
    Cost(CostError),
    /// As many wait for the key as may.
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The units cannot be had by the deadline.
    TooLate {
        /// After how long they could be, as far as is known.
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
            within: None,
            queue: DEFAULT_QUEUE,
            stage: Stage::New,
            #[cfg(feature = "tokio")]
            alarm: super::alarm::Alarm::default(),
        }
    }

    /// How many units to wait for; one if not said.
    pub fn cost(mut self, units: u64) -> Acquire {
        self.cost = units;
        self
    }

    /// How long to wait at most; for ever if not said. A wait that cannot end in time is refused
    /// at once.
    pub fn within(mut self, patience: Duration) -> Acquire {
        self.within = Some(patience);
        self
    }

    /// How many may wait for the key, this one included; 1024 if not said.
    pub fn queue(mut self, waiters: usize) -> Acquire {
        self.queue = waiters;
        self
    }

    /// Blocks the thread until the units are taken.
    ///
    /// # Errors
    /// Where the wait is refused.
    pub fn wait(mut self) -> Result<Decision, AcquireError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match self.step(&waker) {
                Step::Ready(answer) => return answer,
                Step::Wait(until) => self.park(until, &waker),
            }
        }
    }

    fn park(&self, until: Option<Timestamp>, waker: &Waker) {
        let clock = &self.limiter.memory().settings.clock;
        match (clock.manual(), until) {
            (_, None) => std::thread::park(),
            (None, Some(until)) => std::thread::park_timeout(until.since(clock.now())),
            (Some(manual), Some(until)) => {
                let sleeper = manual.wake_at(until, waker);
                std::thread::park();
                manual.forget(sleeper);
            }
        }
    }

    /// Looks where the wait stands, and goes on with it. `waker` is called when to look again.
    pub(super) fn step(&mut self, waker: &Waker) -> Step {
        let step = match self.stage {
            Stage::New => self.arrive(waker),
            Stage::Queued { ticket, deadline } => self.look_again(ticket, deadline, waker),
            Stage::Turn { until, decision, .. } => {
                if self.limiter.memory().now() >= until {
                    Step::Ready(Ok(decision))
                } else {
                    Step::Wait(Some(until))
                }
            }
            Stage::Done => Step::Wait(None),
        };
        if matches!(step, Step::Ready(_)) {
            self.stage = Stage::Done;
        }
        step
    }

    /// Takes the units if nobody waits before it and they are there; queues otherwise.
    fn arrive(&mut self, waker: &Waker) -> Step {
        let limiter = self.limiter.clone();
        let memory = limiter.memory();
        // Read before the lock: what times out meanwhile wakes waiters, which locks queues.
        let now = memory.now();
        let mut queues = memory.waiting.lock(self.fingerprint);
        let deadline = self.within.map(|patience| now.after(patience));
        let queue = queues.get(&self.fingerprint);
        let waiting = queue.map_or(0, super::queue::Queue::len);
        if let Outcome::Invalid(error) = self.peek(now).outcome() {
            return Step::Ready(Err(AcquireError::Cost(error)));
        }
        if let Some(deadline) = deadline {
            let before = queue.into_iter().flat_map(super::queue::Queue::costs);
            let ready = self.ready_at(before.chain([self.cost]), now, deadline);
            let ready = ready.min(self.held_until().unwrap_or(ready));
            if ready > deadline {
                return Step::Ready(Err(AcquireError::TooLate { ready_after: ready.since(now) }));
            }
        }
        if waiting == 0 {
            let decision = self.charge(now);
            if decision.is_allowed() {
                return self.go_ahead(now, decision);
            }
        }
        if waiting >= self.queue {
            return Step::Ready(Err(AcquireError::QueueFull { waiting }));
        }
        let ticket = memory.waiting.enter(&mut queues, self.fingerprint, self.cost, waker);
        self.stage = Stage::Queued { ticket, deadline };
        drop(queues);
        // Looked at once more now that it can be woken: units that came back in between are seen.
        self.look_again(ticket, deadline, waker)
    }

    fn look_again(&mut self, ticket: u64, deadline: Option<Timestamp>, waker: &Waker) -> Step {
        let limiter = self.limiter.clone();
        let memory = limiter.memory();
        let now = memory.now();
        let mut queues = memory.waiting.lock(self.fingerprint);
        let Some(queue) = queues.get_mut(&self.fingerprint) else {
            return Step::Wait(deadline);
        };
        queue.set_waker(ticket, waker);
        let mut wake_at = deadline;
        let mut answer = None;
        if queue.is_head(ticket) {
            // A queue's turn may come too late though the units are there.
            let turn = now.after(self.peek(now).delay());
            let in_time = deadline.is_none_or(|deadline| turn <= deadline);
            match in_time.then(|| self.charge(now)) {
                Some(decision) if decision.is_allowed() => {
                    answer = Some(self.go_ahead(now, decision));
                }
                Some(decision) => wake_at = decision.retry_after().map(|wait| now.after(wait)),
                None => wake_at = Some(turn),
            }
            // A reservation that times out first may leave its units to this one.
            wake_at = wake_at.map(|at| at.min(self.held_until().unwrap_or(at)));
        }
        let late = deadline.is_some_and(|deadline| now >= deadline || wake_at > Some(deadline));
        if answer.is_none() && late {
            let ready = self.ready_at(queue.costs_up_to(ticket), now, Timestamp::MAX);
            answer =
                Some(Step::Ready(Err(AcquireError::TooLate { ready_after: ready.since(now) })));
        }
        let Some(answer) = answer else {
            // At the last moment that can be told time stands still: only a call can change that.
            return Step::Wait(wake_at.filter(|at| now < Timestamp::MAX || *at < now));
        };
        let next = memory.waiting.leave(&mut queues, self.fingerprint, ticket);
        drop(queues);
        if let Some(next) = next {
            next.wake();
        }
        if matches!(answer, Step::Ready(_)) {
            self.stage = Stage::Done;
        }
        answer
    }

    /// The units are taken: ready, or for a leaky queue, in its turn.
    fn go_ahead(&mut self, now: Timestamp, decision: Decision) -> Step {
        if decision.delay().is_zero() {
            return Step::Ready(Ok(decision));
        }
        let until = now.after(decision.delay());
        self.stage = Stage::Turn { until, decision };
        Step::Wait(Some(until))
    }

    /// When the last of `costs` would be admitted, and have its turn: each is, on a copy of the
    /// state, as soon as the limit allows. No further than `enough`.
    fn ready_at(
        &self,
        costs: impl Iterator<Item = u64>,
        now: Timestamp,
        enough: Timestamp,
    ) -> Timestamp {
        let plan = &self.limiter.named().plan;
        let mut state = self.with_entry(|entry| self.limiter.memory().state(entry, now));
        let (mut at, mut turn) = (now, now);
        for cost in costs {
            let figures = plan.decide(state.as_ref(), at.as_nanos(), cost);
            if !figures.allowed() {
                at = at.after(Duration::from_nanos(figures.retry_after()));
            }
            let delay = plan.decide(state.as_ref(), at.as_nanos(), cost).delay();
            turn = at.after(Duration::from_nanos(delay));
            if turn > enough {
                break;
            }
            plan.take(state.as_mut(), at.as_nanos(), cost);
        }
        turn
    }

    /// When the first reservation of the key times out, if any does.
    fn held_until(&self) -> Option<Timestamp> {
        let until = self.limiter.memory().held_until(self.fingerprint)?;
        (until < Timestamp::MAX).then_some(until)
    }

    #[cfg(feature = "tokio")]
    pub(super) fn clock(&self) -> Clock {
        self.limiter.memory().settings.clock.clone()
    }

    fn charge(&self, now: Timestamp) -> Decision {
        self.with_entry(|entry| self.limiter.memory().charge(entry, now, self.cost))
    }

    fn peek(&self, now: Timestamp) -> Decision {
        self.with_entry(|entry| self.limiter.memory().peek(entry, now, self.cost))
    }

    fn with_entry<T>(&self, act: impl FnOnce(&Entry<'_>) -> T) -> T {
        let (named, fingerprint) = (self.limiter.named(), self.fingerprint);
        act(&Entry { named, fingerprint, key: &self.name })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let memory = self.limiter.memory();
        match self.stage {
            Stage::Queued { ticket, .. } => {
                let mut queues = memory.waiting.lock(self.fingerprint);
                let next = memory.waiting.leave(&mut queues, self.fingerprint, ticket);
                drop(queues);
                if let Some(next) = next {
                    next.wake();
                }
            }
            Stage::Turn { until, .. } => {
                let named = self.limiter.named();
                memory.give_back(named, self.fingerprint, Taken::Turn(until), self.cost);
            }
            Stage::New | Stage::Done => {}
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.cost)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Cost(_) => f.write_str("the cost can never be taken"),
            AcquireError::QueueFull { waiting } => {
                write!(f, "{waiting} wait for this key already, which is all that may")
            }
            AcquireError::TooLate { ready_after } if ready_after.is_zero() => {
                f.write_str("the deadline passed while others were served first")
            }
            AcquireError::TooLate { ready_after } => {
                write!(
                    f,
                    "the units can be had in {ready_after:?} at the earliest, past the deadline"
                )
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
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
