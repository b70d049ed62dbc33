//! The queues of a store.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use crate::key::Fingerprint;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// How many locks the queues of a store share.
const PARTS: usize = 16;

/// Who waits, by key.
#[derive(Debug)]
pub(crate) struct Waiting {
    parts: [Mutex<Queues>; PARTS],
    /// How many wait in all, so that who gives back need not lock where nobody waits.
    waiting: AtomicUsize,
}

/// The queues behind one lock.
pub(super) type Queues = HashMap<Fingerprint, Queue>;

/// Who waits for one key, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: VecDeque<Waiter>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    cost: u64,
    waker: Waker,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { parts: std::array::from_fn(|_| Mutex::default()), waiting: AtomicUsize::new(0) }
    }
}

impl Waiting {
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, Queues> {
        // The highest bits choose the shard; these are independent of them.
        lock(&self.parts[usize::from(fingerprint.place.to_le_bytes()[0]) % PARTS])
    }

    /// Lets the head of the key's queue look again: units came back.
    pub(crate) fn nudge(&self, fingerprint: Fingerprint) {
        // SeqCst, as in `enter`: either the waiter sees the units, or this sees the waiter.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waker = self.lock(fingerprint).get(&fingerprint).and_then(Queue::head_waker);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Lets the heads of all queues look again.
    pub(crate) fn nudge_all(&self) {
        for part in &self.parts {
            let wakers: Vec<Waker> = lock(part).values().filter_map(Queue::head_waker).collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Puts a waiter at the end of the key's queue.
    pub(super) fn enter(
        &self,
        queues: &mut Queues,
        fingerprint: Fingerprint,
        cost: u64,
        waker: &Waker,
    ) -> u64 {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let queue = queues.entry(fingerprint).or_default();
        queue.last_ticket += 1;
        let waiter = Waiter { ticket: queue.last_ticket, cost, waker: waker.clone() };
        queue.waiters.push_back(waiter);
        queue.last_ticket
    }

    /// Takes a waiter out; if it was the head, the next one is to be woken.
    pub(super) fn leave(
        &self,
        queues: &mut Queues,
        fingerprint: Fingerprint,
        ticket: u64,
    ) -> Option<Waker> {
        let queue = queues.get_mut(&fingerprint)?;
        let place = queue.place_of(ticket)?;
        queue.waiters.remove(place);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let next = if place == 0 { queue.head_waker() } else { None };
        if queue.waiters.is_empty() {
            queues.remove(&fingerprint);
        }
        next
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = u64> {
        self.waiters.iter().map(|waiter| waiter.cost)
    }

    /// The costs of all up to this waiter.
    pub(super) fn costs_up_to(&self, ticket: u64) -> impl Iterator<Item = u64> {
        self.waiters
            .iter()
            .take_while(move |waiter| waiter.ticket <= ticket)
            .map(|waiter| waiter.cost)
    }

    /// Tickets rise from head to end.
    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    pub(super) fn is_head(&self, ticket: u64) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.ticket == ticket)
    }

    /// Tasks may be moved: the waker last polled with is the one to call.
    pub(super) fn set_waker(&mut self, ticket: u64, waker: &Waker) {
        if let Some(place) = self.place_of(ticket) {
            self.waiters[place].waker.clone_from(waker);
        }
    }

    fn head_waker(&self) -> Option<Waker> {
        self.waiters.front().map(|waiter| waiter.waker.clone())
    }
}
