//! The queues of a store.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;

use super::AcquireError;
use crate::decision::Decision;
use crate::key::{KeyId, KeyName};
use crate::store::memory::{DueCharge, DueOutcome, KeyEntry, Memory, RegisteredLimit};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::time::Timestamp;

/// The number of locks that the queues of a store share.
const PARTS: usize = 16;

/// The waiters of a store, by key.
#[derive(Debug)]
pub(crate) struct WaitQueues {
    parts: [Mutex<QueueMap>; PARTS],
    /// The number of waiters in all queues: without any, a call that gives back need not lock.
    waiting: AtomicUsize,
}

/// The queues behind one lock.
pub(super) type QueueMap = HashMap<KeyId, WaitQueue>;

/// The waiters of one key, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    waiters: VecDeque<Waiter>,
    /// The outcomes of waiters that have left the queue and were not polled since, by ticket.
    outcomes: HashMap<u64, Result<WaitGrant, AcquireError>>,
    last_ticket: u64,
    /// The instant that the last waiter was charged for. No later waiter is charged for an earlier
    /// one.
    last_due: Timestamp,
    /// The instant at which the head's units would come, as of the last time it was served.
    expected: Option<Timestamp>,
}

/// A waiter in a queue.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    request: WaitRequest,
    waker: Waker,
}

/// The units that a waiter waits for.
#[derive(Clone, Debug)]
pub(super) struct WaitRequest {
    pub(super) named: Arc<RegisteredLimit>,
    pub(super) cost: u64,
    pub(super) arrived: Timestamp,
    /// The latest instant to go ahead at; the last moment there is if there is no deadline.
    pub(super) deadline: Timestamp,
}

impl WaitRequest {
    /// Whether the deadline has come.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        self.deadline <= now && self.deadline < Timestamp::MAX
    }
}

/// A call that serves the queue of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServeCall<'a> {
    pub(super) memory: &'a Memory,
    pub(super) fingerprint: KeyId,
    pub(super) name: &'a KeyName,
    pub(super) now: Timestamp,
    /// The caller's own ticket, which needs no wake-up.
    pub(super) own: Option<u64>,
}

/// Units that were taken for a waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitGrant {
    /// The instant they were taken for.
    pub(super) due: Timestamp,
    pub(super) decision: Decision,
}

impl WaitGrant {
    /// The instant at which the waiter goes ahead.
    pub(super) fn turn(&self) -> Timestamp {
        self.due.saturating_add(self.decision.delay())
    }
}

/// Wakers to call once no lock is held: they are called when the list is dropped.
#[derive(Debug, Default)]
pub(super) struct WakeList(SmallVec<[Waker; 8]>);

impl WakeList {
    fn add(&mut self, waker: Waker) {
        self.0.push(waker);
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

impl Default for WaitQueues {
    fn default() -> WaitQueues {
        WaitQueues {
            parts: std::array::from_fn(|_| Mutex::default()),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl WaitQueues {
    pub(super) fn lock(&self, fingerprint: KeyId) -> MutexGuard<'_, QueueMap> {
        // The highest bits choose the shard; these are independent of them.
        lock(&self.parts[usize::from(fingerprint.place.to_le_bytes()[0]) % PARTS])
    }

    /// Wakes the head of the key's queue: units came back.
    pub(crate) fn nudge(&self, fingerprint: KeyId) {
        // SeqCst, as in `enter`: either the waiter sees the units, or this sees the waiter.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waker = self.lock(fingerprint).get(&fingerprint).and_then(WaitQueue::head_waker);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes the heads of all queues.
    pub(crate) fn nudge_all(&self) {
        for part in &self.parts {
            let wakers: Vec<Waker> =
                lock(part).values().filter_map(WaitQueue::head_waker).collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Adds a waiter at the end of the key's queue. Returns its ticket.
    pub(super) fn enter(
        &self,
        queues: &mut QueueMap,
        fingerprint: KeyId,
        request: WaitRequest,
        waker: &Waker,
    ) -> u64 {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let queue = queues.entry(fingerprint).or_default();
        queue.last_ticket += 1;
        let ticket = queue.last_ticket;
        queue.waiters.push_back(Waiter { ticket, request, waker: waker.clone() });
        ticket
    }

    /// Serves the waiters of a key whose units have come, in order, and refuses those that reach
    /// the head and cannot be served by their deadline. Returns when the head is to be served next.
    pub(super) fn serve(
        &self,
        queue: &mut WaitQueue,
        call: &ServeCall<'_>,
        wakes: &mut WakeList,
    ) -> Option<Timestamp> {
        let ServeCall { memory, fingerprint, name, now, own } = *call;
        let head = queue.head_ticket();
        let mut next = None;
        while let Some(Waiter { ticket, request, .. }) = queue.waiters.front() {
            let ticket = *ticket;
            let WaitRequest { named, cost, arrived, deadline } = request;
            // Units that came earlier than expected came back after the last look.
            let expected = queue.expected.unwrap_or_default().min(now);
            let charge = DueCharge {
                cost: *cost,
                from: expected.max(*arrived).max(queue.last_due).min(now),
                now,
                deadline: *deadline,
            };
            let outcome = match memory
                .charge_due(&KeyEntry { named, fingerprint, key: name }, charge)
            {
                DueOutcome::Taken { due, decision } => {
                    queue.last_due = due;
                    Ok(WaitGrant { due, decision })
                }
                DueOutcome::Later { due, turn } => {
                    // A reservation that times out earlier may leave its units to this waiter.
                    let held = memory.held_until(fingerprint).filter(|at| *at < Timestamp::MAX);
                    let ready = held.map_or(turn, |held| held.min(turn));
                    if ready <= *deadline && !request.is_late(now) {
                        queue.expected = Some(due);
                        next = Some(held.map_or(due, |held| held.min(due)));
                        break;
                    }
                    Err(AcquireError::DeadlineExceeded { ready_after: turn.saturating_since(now) })
                }
            };
            let waker = self.remove(queue, 0);
            queue.outcomes.insert(ticket, outcome);
            if let Some(waker) = waker.filter(|_| own != Some(ticket)) {
                wakes.add(waker);
            }
        }
        if queue.head_ticket() != head {
            self.wake_head(queue, own, wakes);
        }
        next
    }

    /// Takes a waiter out of its queue. Returns what it had been granted and not used.
    pub(super) fn leave(
        &self,
        queues: &mut QueueMap,
        fingerprint: KeyId,
        ticket: u64,
        wakes: &mut WakeList,
    ) -> Option<WaitGrant> {
        let queue = queues.get_mut(&fingerprint)?;
        let granted = queue.outcomes.remove(&ticket).and_then(Result::ok);
        if let Some(place) = queue.place_of(ticket) {
            self.remove(queue, place);
            if place == 0 {
                self.wake_head(queue, None, wakes);
            }
        }
        if queue.is_unused() {
            queues.remove(&fingerprint);
        }
        granted
    }

    fn wake_head(&self, queue: &WaitQueue, own: Option<u64>, wakes: &mut WakeList) {
        if let Some(waker) = queue.head_waker().filter(|_| queue.head_ticket() != own) {
            wakes.add(waker);
        }
    }

    fn remove(&self, queue: &mut WaitQueue, place: usize) -> Option<Waker> {
        if place == 0 {
            queue.expected = None;
        }
        let waiter = queue.waiters.remove(place)?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(waiter.waker)
    }
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether no waiter will look at it again.
    pub(super) fn is_unused(&self) -> bool {
        self.waiters.is_empty() && self.outcomes.is_empty()
    }

    pub(super) fn take_outcome(&mut self, ticket: u64) -> Option<Result<WaitGrant, AcquireError>> {
        self.outcomes.remove(&ticket)
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &WaitRequest> {
        self.waiters.iter().map(|waiter| &waiter.request)
    }

    pub(super) fn request(&self, ticket: u64) -> Option<&WaitRequest> {
        Some(&self.waiters[self.place_of(ticket)?].request)
    }

    /// The requests of the waiters before this one.
    pub(super) fn requests_before(&self, ticket: u64) -> impl Iterator<Item = &WaitRequest> {
        let before = self.waiters.iter().take_while(move |waiter| waiter.ticket < ticket);
        before.map(|waiter| &waiter.request)
    }

    /// Tickets rise from head to end.
    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    pub(super) fn is_head(&self, ticket: u64) -> bool {
        self.head_ticket() == Some(ticket)
    }

    fn head_ticket(&self) -> Option<u64> {
        self.waiters.front().map(|waiter| waiter.ticket)
    }

    /// Tasks may be moved: the waker of the last poll is the one to call.
    pub(super) fn set_waker(&mut self, ticket: u64, waker: &Waker) {
        if let Some(place) = self.place_of(ticket) {
            self.waiters[place].waker.clone_from(waker);
        }
    }

    fn head_waker(&self) -> Option<Waker> {
        self.waiters.front().map(|waiter| waiter.waker.clone())
    }
}
