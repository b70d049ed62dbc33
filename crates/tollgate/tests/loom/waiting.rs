//! Waiters: nobody sleeps while units are there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tollgate::Acquire;

use super::*;

/// Counts its wake-ups; not loom's, as it only records what has happened.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A task of one wait: looked at when it begins, and again only when it was woken.
struct Task {
    acquire: Pin<Box<Acquire>>,
    bell: Arc<Bell>,
    seen: usize,
}

impl Task {
    fn new(limiter: &Limiter) -> Task {
        let acquire = Box::pin(limiter.acquire("ana"));
        Task { acquire, bell: Arc::default(), seen: 0 }
    }

    /// Whether it has its unit by now.
    fn poll(&mut self) -> bool {
        self.seen = self.bell.rings();
        let waker = Waker::from(self.bell.clone());
        match self.acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => answer.unwrap().is_allowed(),
            Poll::Pending => false,
        }
    }

    /// Looks again for as long as it is woken; whether it has its unit in the end.
    fn run(&mut self) -> bool {
        loop {
            if self.poll() {
                return true;
            }
            if self.bell.rings() == self.seen {
                return false;
            }
        }
    }

    /// Goes on where `run` has left off: polled only if it was woken since.
    fn resume(&mut self) -> bool {
        self.bell.rings() != self.seen && self.run()
    }
}

/// A limiter of one unit, which is taken, and what a thread does to bring it back.
fn a_waiter_gets_what_comes_back(give_back: fn(&Limiter)) {
    explore(move || {
        let limiter = limiter(hourly(1));
        assert!(limiter.check("ana").is_allowed());
        let other = limiter.clone();
        let mut task = Task::new(&limiter);
        let ((), served) = both(move || give_back(&other), || task.run());
        assert!(served || task.resume(), "asleep, and the unit is there");
        assert_eq!(limiter.status("ana").used(), 1);
    });
}

#[test]
fn a_waiter_is_never_left_asleep_by_a_refund() {
    a_waiter_gets_what_comes_back(|limiter| limiter.refund("ana", 1));
}

#[test]
fn a_waiter_is_never_left_asleep_by_a_reset() {
    a_waiter_gets_what_comes_back(|limiter| assert!(limiter.reset("ana")));
}

#[test]
fn a_waiter_is_never_left_asleep_by_a_reset_of_all() {
    a_waiter_gets_what_comes_back(Limiter::reset_all);
}

#[test]
fn a_waiter_is_never_left_asleep_by_a_reservation_given_up() {
    explore(|| {
        let limiter = limiter(hourly(1));
        let reservation = limiter.reserve("ana", 1).unwrap();
        let mut task = Task::new(&limiter);
        let ((), served) = both(move || drop(reservation), || task.run());
        assert!(served || task.resume(), "asleep, and the unit is there");
    });
}

#[test]
fn a_waiter_is_never_left_asleep_by_a_reservation_that_another_call_finds_timed_out() {
    explore(|| {
        let clock = ManualClock::new();
        let limiter = clocked_store(&clock, ONE_SHARD).limiter("limit", hourly(1)).unwrap();
        let _held = limiter.reserve_for("ana", 1, SECOND).unwrap();
        let mut task = Task::new(&limiter);
        assert!(!task.run());
        clock.advance(SECOND);
        let other = limiter.clone();
        let (ben, served) = both(move || other.check("ben"), || task.poll());
        assert!(ben.is_allowed());
        assert!(served || task.resume(), "asleep, and the unit is there");
    });
}

#[test]
fn two_waiters_share_what_comes_back_one_by_one() {
    explore(|| {
        let limiter = limiter(hourly(2));
        assert!(limiter.check_n("ana", 2).is_allowed());
        let mut first = Task::new(&limiter);
        assert!(!first.run());
        let other = limiter.clone();
        let mut second = Task::new(&limiter);
        let ((), served) = both(move || other.refund("ana", 2), || second.run());
        assert!(first.resume(), "the head is woken by the refund");
        assert!(served || second.resume(), "the head wakes the next");
    });
}

#[test]
fn a_waiter_that_gives_up_passes_its_wake_up_on() {
    explore(|| {
        let limiter = limiter(hourly(1));
        assert!(limiter.check("ana").is_allowed());
        let (mut first, mut second) = (Task::new(&limiter), Task::new(&limiter));
        assert!(!first.run() && !second.run());
        let other = limiter.clone();
        let ((), ()) = both(move || other.refund("ana", 1), || drop(first));
        assert!(second.resume(), "asleep, and the unit is there");
    });
}

#[test]
fn a_waiter_is_served_though_somebody_else_checks_in_between() {
    explore(|| {
        let limiter = limiter(hourly(1));
        assert!(limiter.check("ana").is_allowed());
        let [refunder, checker] = [limiter.clone(), limiter.clone()];
        let refunder = thread::spawn(move || refunder.refund("ana", 1));
        let mut task = Task::new(&limiter);
        let (check, served) = both(move || checker.check("ana"), || task.run());
        refunder.join().unwrap();
        let served = served || task.resume();
        assert!(served != check.is_allowed(), "one of them has it");
    });
}

#[test]
fn two_waiters_that_arrive_together_take_one_unit_once() {
    explore(|| {
        let limiter = limiter(hourly(1));
        let other = limiter.clone();
        let there = move || Task::new(&other).run();
        let (a, b) = both(there, || Task::new(&limiter).run());
        // One that gives up has left the queue: nobody is in the way of the next.
        assert!(a != b);
        limiter.refund("ana", 1);
        assert!(Task::new(&limiter).run());
    });
}
