//! Waiting: first come, first served, one wake-up an admission, and nothing lost on the way.

use std::thread;
use std::time::Duration;

use tollgate::{AcquireError, CostError, Limit, ManualClock};
use tollgate_testkit::{eventually, manual};

const SECOND: Duration = Duration::from_secs(1);

/// Returns when a thread sleeps on `clock`.
fn until_somebody_sleeps(clock: &ManualClock) {
    eventually("a thread that sleeps on the clock", || clock.next_timer());
}

#[test]
fn a_thread_waits_until_its_units_are_there() {
    let (limiter, clock) = manual(Limit::per_second(1));
    assert!(limiter.check("ana").is_allowed());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire("ana").wait());
        until_somebody_sleeps(&clock);
        assert_eq!(clock.next_timer(), Some(clock.now().saturating_add(SECOND)));
        clock.advance(SECOND);
        assert!(waiter.join().unwrap().unwrap().is_allowed());
    });
    assert_eq!(limiter.status("ana").remaining(), 0);
}

#[test]
fn a_thread_waits_for_its_turn_in_a_queue() {
    let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(5));
    assert!(limiter.check_n("ana", 2).is_allowed());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire("ana").wait());
        until_somebody_sleeps(&clock);
        assert_eq!(clock.next_timer(), Some(clock.now().saturating_add(2 * SECOND)));
        clock.advance(2 * SECOND);
        assert_eq!(waiter.join().unwrap().unwrap().delay(), 2 * SECOND);
    });
}

#[test]
fn many_threads_are_all_served() {
    let (limiter, clock) = manual(Limit::per_second(1));
    thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..8).map(|_| scope.spawn(|| limiter.acquire("ana").wait().is_ok())).collect();
        eventually("the end of all threads", || {
            if clock.next_timer().is_some() {
                clock.advance(SECOND);
            }
            waiters.iter().all(thread::ScopedJoinHandle::is_finished)
        });
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

#[test]
fn a_thread_on_the_machine_s_clock_is_served() {
    let limiter = tollgate::Limiter::new(Limit::per_second(1000).burst(1)).unwrap();
    for _ in 0..5 {
        assert!(limiter.acquire("ana").wait().is_ok());
    }
}

#[test]
fn a_wait_that_cannot_end_in_time_is_refused_at_once() {
    let (limiter, _) = manual(Limit::per_second(1));
    assert!(limiter.check("ana").is_allowed());
    let refused = limiter.acquire("ana").timeout(SECOND - Duration::from_nanos(1)).wait();
    assert_eq!(refused.unwrap_err(), AcquireError::DeadlineExceeded { ready_after: SECOND });
}

#[test]
fn a_turn_that_comes_too_late_is_refused_at_once_and_not_taken() {
    let (limiter, _) = manual(Limit::leaky_queue(1, SECOND).burst(5));
    assert!(limiter.check_n("ana", 3).is_allowed());
    let refused = limiter.acquire("ana").timeout(2 * SECOND).wait();
    assert_eq!(refused.unwrap_err(), AcquireError::DeadlineExceeded { ready_after: 3 * SECOND });
    assert_eq!(limiter.status("ana").used(), 3);
}

#[test]
fn a_wait_that_a_reservation_may_end_in_time_is_not_refused() {
    let (limiter, clock) = manual(Limit::per_hour(1));
    std::mem::forget(limiter.reserve_for("ana", 1, SECOND).unwrap());
    let refused = limiter.acquire("ana").timeout(SECOND / 2).wait();
    assert_eq!(refused.unwrap_err(), AcquireError::DeadlineExceeded { ready_after: SECOND });
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire("ana").timeout(10 * SECOND).wait());
        until_somebody_sleeps(&clock);
        assert_eq!(clock.next_timer(), Some(clock.now().saturating_add(SECOND)));
        clock.advance(SECOND);
        assert!(waiter.join().unwrap().is_ok());
    });
}

#[test]
fn a_full_queue_refuses_at_once() {
    let (limiter, _) = manual(Limit::per_second(1));
    assert!(limiter.check("ana").is_allowed());
    let refused = limiter.acquire("ana").max_waiters(0).wait();
    assert_eq!(refused.unwrap_err(), AcquireError::QueueFull { waiting: 0 });
}

#[test]
fn a_cost_that_can_never_be_taken_is_refused_at_once() {
    let (limiter, _) = manual(Limit::per_second(1));
    let never = CostError::ExceedsCapacity { cost: 2, limit: 1 };
    assert_eq!(limiter.acquire("ana").cost(2).wait().unwrap_err(), AcquireError::Cost(never));
}

#[cfg(feature = "tokio")]
pub(crate) mod futures {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use tollgate::{Acquire, Decision, Limiter};

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A wait that is polled by hand.
    pub(crate) struct Task {
        acquire: Acquire,
        woken: Arc<Woken>,
        has_ended: bool,
    }

    impl Task {
        /// A wait that has not been polled.
        pub(crate) fn new(acquire: Acquire) -> Task {
            Task { acquire, woken: Arc::default(), has_ended: false }
        }

        /// A wait that has been polled once and found nothing.
        pub(crate) fn waiting(acquire: Acquire) -> Task {
            let mut task = Task::new(acquire);
            assert!(task.poll().is_none(), "there was something to be had");
            task
        }

        pub(crate) fn poll(&mut self) -> Option<Result<Decision, AcquireError>> {
            let waker = Waker::from(self.woken.clone());
            match Pin::new(&mut self.acquire).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            }
        }

        /// Polls it unless it has ended. Returns whether it has ended.
        pub(crate) fn is_done(&mut self) -> bool {
            self.has_ended = self.has_ended || self.poll().is_some();
            self.has_ended
        }

        /// How often it was woken since it was asked last.
        pub(crate) fn wake_ups(&self) -> usize {
            self.woken.0.swap(0, Ordering::Relaxed)
        }
    }

    /// A limiter of one unit a second whose unit is taken, and `waiters` who wait for the next.
    pub(crate) fn queue_of(waiters: usize) -> (Limiter, ManualClock, Vec<Task>) {
        let (limiter, clock) = manual(Limit::per_second(1));
        assert!(limiter.check("ana").is_allowed());
        let tasks = (0..waiters).map(|_| Task::waiting(limiter.acquire("ana"))).collect();
        (limiter, clock, tasks)
    }

    #[test]
    fn who_asks_first_is_served_first() {
        let (_, clock, mut tasks) = queue_of(5);
        for served in 0..5 {
            clock.advance(SECOND);
            // Whoever is polled first, only the head is served.
            let ready: Vec<usize> =
                (served..5).rev().filter(|index| tasks[*index].poll().is_some()).collect();
            assert_eq!(ready, [served]);
        }
    }

    #[test]
    fn a_thousand_waiters_cost_two_wake_ups_an_admission() {
        let (_, clock, mut tasks) = queue_of(1000);
        let (mut served, mut wake_ups) = (0, 0);
        while served < 1000 {
            let woken = tasks[served].wake_ups();
            wake_ups += woken;
            if woken == 0 {
                clock.set(clock.next_timer().expect("the head sleeps"));
            } else if tasks[served].poll().is_some() {
                served += 1;
            }
        }
        // One when it becomes the head, one when its time has come.
        assert_eq!(wake_ups, 2 * 1000 - 1);
        assert!(tasks.iter().all(|task| task.wake_ups() == 0), "somebody was woken in vain");
    }

    #[test]
    fn only_the_head_is_woken_by_the_clock() {
        let (_, clock, tasks) = queue_of(3);
        clock.advance(SECOND);
        assert_eq!(tasks.iter().map(Task::wake_ups).collect::<Vec<_>>(), [1, 0, 0]);
    }

    #[test]
    fn a_newcomer_does_not_overtake_who_waits() {
        let (limiter, clock, mut tasks) = queue_of(1);
        clock.advance(SECOND);
        Task::waiting(limiter.acquire("ana"));
        assert!(tasks[0].poll().is_some());
    }

    #[test]
    fn a_bounded_queue_refuses_the_one_too_many() {
        let (limiter, _, _tasks) = queue_of(2);
        let mut third = Task::new(limiter.acquire("ana").max_waiters(2));
        assert_eq!(third.poll().unwrap().unwrap_err(), AcquireError::QueueFull { waiting: 2 });
    }

    #[test]
    fn a_deadline_counts_those_who_wait_before() {
        let (limiter, _, _tasks) = queue_of(2);
        let mut hasty = Task::new(limiter.acquire("ana").timeout(2 * SECOND));
        let refused = hasty.poll().unwrap().unwrap_err();
        assert_eq!(refused, AcquireError::DeadlineExceeded { ready_after: 3 * SECOND });
        Task::waiting(limiter.acquire("ana").timeout(3 * SECOND));
    }

    #[test]
    fn who_is_not_served_in_time_is_told_when_it_could_have_been() {
        let (limiter, clock, mut tasks) = queue_of(1);
        let mut late = Task::waiting(limiter.acquire("ana").timeout(2 * SECOND));
        for _ in 0..2 {
            clock.advance(SECOND);
            assert!(limiter.check("ana").is_allowed(), "others do not queue");
        }
        assert!(tasks[0].poll().is_none());
        let refused = late.poll().unwrap().unwrap_err();
        assert_eq!(refused, AcquireError::DeadlineExceeded { ready_after: 2 * SECOND });
    }

    #[test]
    fn where_time_stands_still_a_wait_sleeps() {
        let (limiter, clock) = manual(Limit::per_second(1));
        clock.set(tollgate::Timestamp::MAX);
        assert!(limiter.check("ana").is_allowed());
        let mut task = Task::waiting(limiter.acquire("ana"));
        (0..5).for_each(|_| assert!(task.poll().is_none()));
        assert_eq!(task.wake_ups(), 0);
        limiter.refund("ana", 1);
        assert!(task.poll().unwrap().is_ok());
    }

    #[test]
    fn when_the_head_leaves_the_next_moves_up() {
        let (_, clock, mut tasks) = queue_of(3);
        drop(tasks.remove(0));
        assert_eq!(tasks.iter().map(Task::wake_ups).collect::<Vec<_>>(), [1, 0]);
        assert!(tasks[0].poll().is_none());
        clock.advance(SECOND);
        assert!(tasks[0].poll().unwrap().is_ok());
    }

    #[test]
    fn when_somebody_in_the_middle_leaves_nobody_is_woken() {
        let (_, clock, mut tasks) = queue_of(3);
        drop(tasks.remove(1));
        assert!(tasks.iter().all(|task| task.wake_ups() == 0));
        for task in &mut tasks {
            clock.advance(SECOND);
            assert!(task.poll().unwrap().is_ok());
        }
    }

    #[test]
    fn who_leaves_the_queue_has_taken_nothing() {
        let (limiter, clock, tasks) = queue_of(3);
        drop(tasks);
        clock.advance(SECOND);
        assert!(limiter.status("ana").is_fresh());
    }

    #[test]
    fn a_refund_wakes_the_head() {
        let (limiter, _, mut tasks) = queue_of(2);
        limiter.refund("ana", 1);
        assert_eq!(tasks.iter().map(Task::wake_ups).collect::<Vec<_>>(), [1, 0]);
        assert!(tasks[0].poll().unwrap().is_ok());
    }

    #[test]
    fn a_reset_wakes_the_head() {
        let (limiter, _, mut tasks) = queue_of(1);
        limiter.reset("ana");
        assert_eq!(tasks[0].wake_ups(), 1);
        assert!(tasks[0].poll().unwrap().is_ok());
    }

    #[test]
    fn a_leaky_queue_lets_waiters_go_one_by_one() {
        let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(5));
        assert!(limiter.check("ana").is_allowed());
        let mut tasks: Vec<_> = (0..3).map(|_| Task::waiting(limiter.acquire("ana"))).collect();
        for served in 0..3 {
            clock.advance(SECOND);
            let ready: Vec<usize> =
                (served..3).rev().filter(|index| tasks[*index].poll().is_some()).collect();
            assert_eq!(ready, [served]);
        }
    }

    #[test]
    fn a_turn_given_up_is_given_back() {
        let (limiter, _) = manual(Limit::leaky_queue(1, SECOND).burst(5));
        assert!(limiter.check("ana").is_allowed());
        drop(Task::waiting(limiter.acquire("ana")));
        assert_eq!(limiter.status("ana").used(), 1);
    }

    #[test]
    fn a_turn_given_up_never_brings_two_departures_together() {
        let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(5));
        assert!(limiter.check("ana").is_allowed());
        let second = Task::waiting(limiter.acquire("ana"));
        let mut third = Task::waiting(limiter.acquire("ana"));
        drop(second);
        let mut fourth = Task::waiting(limiter.acquire("ana"));
        clock.advance(2 * SECOND);
        let ready = [third.poll().is_some(), fourth.poll().is_some()];
        assert_eq!(ready, [true, false], "one unit leaves at a moment of a queue of one a second");
    }

    #[test]
    fn a_deadline_holds_though_somebody_took_the_units_meanwhile() {
        let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(1));
        assert!(limiter.check_n("ana", 2).is_allowed());
        let mut waiter = Task::waiting(limiter.acquire("ana").timeout(2 * SECOND));
        clock.advance(SECOND);
        assert!(limiter.check("ana").is_allowed());
        let too_late = AcquireError::DeadlineExceeded { ready_after: 2 * SECOND };
        assert_eq!(waiter.poll().unwrap().unwrap_err(), too_late, "as soon as that is known");
    }

    #[tokio::test]
    async fn on_tokio_s_timer_everybody_is_served() {
        let limiter = Limiter::new(Limit::per_second(1000).burst(1)).unwrap();
        let waiters: Vec<_> = (0..10)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire("ana").await.is_ok() })
            })
            .collect();
        for waiter in waiters {
            assert!(waiter.await.unwrap());
        }
    }
}
