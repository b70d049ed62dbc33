//! Waiters that wake late: each is charged for the instant at which its units came.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Acquire, AcquireError, CalendarUnit, Decision, Limit, Limiter, ManualClock};
use tollgate_testkit::manual;

use crate::waiting::futures::{Task, queue_of};

const SECOND: Duration = Duration::from_secs(1);

fn wake_ups(tasks: &[Task]) -> Vec<usize> {
    tasks.iter().map(Task::wake_ups).collect()
}

#[test]
fn late_wake_up_serves_every_waiter_whose_unit_has_come() {
    let (limiter, clock, mut tasks) = queue_of(5);
    clock.advance(3 * SECOND + SECOND / 2);
    assert_eq!(wake_ups(&tasks), [1, 0, 0, 0, 0]);
    assert!(tasks[0].poll().unwrap().is_ok());
    assert_eq!(wake_ups(&tasks), [0, 1, 1, 1, 0], "two were served, the next is the new head");
    assert!(tasks[1].poll().unwrap().is_ok());
    assert!(tasks[2].poll().unwrap().is_ok());
    assert!(tasks[3].poll().is_none());
    assert_eq!(clock.next_timer(), Some(clock.now().saturating_add(SECOND / 2)));
    assert_eq!(limiter.check("ana").retry_after(), Some(SECOND / 2));
}

#[test]
fn newcomer_serves_the_waiters_whose_units_have_come() {
    let (limiter, clock, mut tasks) = queue_of(2);
    clock.advance(2 * SECOND);
    let mut newcomer = Task::waiting(limiter.acquire("ana"));
    assert!(tasks[1].poll().unwrap().is_ok());
    assert!(tasks[0].poll().unwrap().is_ok());
    clock.advance(SECOND);
    assert!(newcomer.poll().unwrap().is_ok());
}

#[test]
fn late_wake_up_meets_a_deadline_that_the_unit_came_before() {
    let (limiter, clock, mut tasks) = queue_of(1);
    let mut last = Task::waiting(limiter.acquire("ana").timeout(2 * SECOND));
    clock.advance(3 * SECOND);
    assert!(tasks[0].poll().unwrap().is_ok());
    assert!(last.poll().unwrap().is_ok());
}

#[test]
fn every_wait_that_is_refused_is_refused_at_once() {
    let (limiter, clock) = manual(Limit::per_second(1000).burst(1));
    let within = Duration::from_millis(500);
    let acquire = || Task::new(limiter.acquire("ana").timeout(within));
    let mut tasks: Vec<Task> = (0..1000).map(|_| acquire()).collect();
    let at_once: Vec<_> = tasks.iter_mut().map(Task::poll).collect();
    let refused = at_once.iter().flatten().filter(|answer| answer.is_err()).count();
    assert_eq!(refused, 1000 - 501, "the first unit is there, and 500 come in time");
    let mut waiting: Vec<Task> = tasks
        .into_iter()
        .zip(at_once)
        .filter(|(_, answer)| answer.is_none())
        .map(|of| of.0)
        .collect();
    // A timer that is late by up to ten milliseconds.
    while !waiting.is_empty() {
        clock.advance(Duration::from_micros(9_700));
        waiting.retain_mut(|task| match task.poll() {
            Some(answer) => answer.is_err(),
            None => true,
        });
        assert!(clock.next_timer().is_some() || waiting.is_empty());
    }
}

#[test]
fn check_before_a_late_wake_up_is_served_first() {
    let (limiter, clock, mut tasks) = queue_of(1);
    clock.advance(SECOND + SECOND / 2);
    assert!(limiter.check("ana").is_allowed());
    assert!(tasks[0].poll().is_none(), "the state has seen a later instant");
    assert_eq!(clock.next_timer(), Some(clock.now().saturating_add(SECOND)));
}

#[test]
fn units_of_a_waiter_that_leaves_after_it_was_served_are_returned() {
    let (limiter, clock, mut tasks) = queue_of(3);
    clock.advance(2 * SECOND);
    assert!(tasks[0].poll().unwrap().is_ok());
    assert_eq!(wake_ups(&tasks), [1, 1, 1]);
    drop(tasks.remove(1));
    assert_eq!(limiter.status("ana").used(), 0);
    assert_eq!(tasks[1].wake_ups(), 1);
    assert!(tasks[1].poll().unwrap().is_ok());
}

#[test]
fn units_that_time_has_refilled_are_not_returned_again() {
    let (limiter, clock, mut tasks) = queue_of(2);
    clock.advance(2 * SECOND + SECOND / 2);
    let last = tasks.pop().unwrap();
    assert!(limiter.acquire("ana").timeout(SECOND / 4).wait().is_err(), "serves both");
    drop(tasks.pop());
    assert_eq!(limiter.check("ana").retry_after(), Some(SECOND / 2), "the other was due at 2 s");
    drop(last);
}

#[test]
fn turns_of_a_leaky_queue_stay_apart_if_a_served_waiter_leaves() {
    let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(1));
    assert!(limiter.check_n("ana", 2).is_allowed());
    let first = Task::waiting(limiter.acquire("ana"));
    let mut second = Task::waiting(limiter.acquire("ana"));
    clock.advance(2 * SECOND);
    // Its arrival serves the others: their turns are at 2 s and 3 s.
    let mut third = Task::waiting(limiter.acquire("ana"));
    drop(first);
    for (at, expected) in [(2, [false, false]), (3, [true, false]), (4, [true, true])] {
        let ready = [&mut second, &mut third].map(Task::is_done);
        assert_eq!(ready, expected, "at {at} s");
        clock.advance(SECOND);
    }
}

/// A step of a scenario: time passes, then something happens.
#[derive(Clone, Debug)]
enum LateStep {
    Acquire { cost: u64, within: Option<u64> },
    Check { cost: u64 },
    Leave { index: usize },
}

/// A run of a scenario, on a clock that stops at every wake-up or only at the scenario's steps.
struct LateRun {
    limiter: Limiter,
    clock: ManualClock,
    is_late: bool,
    /// Waiters by arrival; those that are done are `None`.
    waiters: Vec<Option<Task>>,
    outcomes: Vec<String>,
}

impl LateRun {
    fn new(limit: Limit, is_late: bool) -> LateRun {
        let (limiter, clock) = manual(limit);
        LateRun { limiter, clock, is_late, waiters: Vec::new(), outcomes: Vec::new() }
    }

    /// Polls every waiter, until none ends and none was woken.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for (waiter, outcome) in self.waiters.iter_mut().zip(&mut self.outcomes) {
                let Some(task) = waiter else { continue };
                if let Some(answer) = task.poll() {
                    *outcome = told(answer);
                    *waiter = None;
                    is_quiet = false;
                }
            }
            let woken =
                |waiter: &Option<Task>| waiter.as_ref().is_some_and(|task| task.wake_ups() > 0);
            if self.waiters.iter().filter(|waiter| woken(waiter)).count() == 0 && is_quiet {
                return;
            }
        }
    }

    fn advance(&mut self, by: u64) {
        let until = self.clock.now().saturating_add(Duration::from_millis(by));
        while !self.is_late
            && let Some(next) = self.clock.next_timer().filter(|next| *next <= until)
        {
            self.clock.set(next);
            self.settle();
        }
        self.clock.set(until);
    }

    fn take(&mut self, step: &LateStep) {
        match *step {
            LateStep::Acquire { cost, within } => {
                let acquire: Acquire = self.limiter.acquire("ana").cost(cost);
                let acquire = match within {
                    Some(within) => acquire.timeout(Duration::from_millis(within)),
                    None => acquire,
                };
                let mut task = Task::new(acquire);
                let answer = task.poll();
                let is_done = answer.is_some();
                self.outcomes.push(answer.map(told).unwrap_or_default());
                self.waiters.push((!is_done).then_some(task));
            }
            LateStep::Check { cost } => {
                self.settle();
                self.outcomes.push(format!("{:?}", figures(&self.limiter.check_n("ana", cost))));
                self.waiters.push(None);
            }
            LateStep::Leave { index } => {
                self.settle();
                if !self.waiters.is_empty() {
                    let index = index % self.waiters.len();
                    self.waiters[index] = None;
                }
                // Units that come back are had from the moment at which the next waiter looks.
                self.settle();
            }
        }
        if !self.is_late {
            self.settle();
        }
    }
}

fn told(answer: Result<Decision, AcquireError>) -> String {
    match answer {
        Ok(decision) => format!("{:?}", figures(&decision)),
        Err(AcquireError::DeadlineExceeded { .. }) => "too late".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn figures(of: &Decision) -> (bool, u64, Option<Duration>, Duration, Duration) {
    (of.is_allowed(), of.remaining(), of.retry_after(), of.reset_after(), of.delay())
}

fn limit() -> impl Strategy<Value = Limit> {
    let window = prop_oneof![Just(10_u64), Just(70), Just(1000)].prop_map(Duration::from_millis);
    (1..5_u64, 1..4_u64, window, 0..8_u8).prop_map(|(count, burst, window, kind)| match kind {
        0 | 1 => Limit::token_bucket(count, window).burst(burst),
        2 => Limit::leaky_bucket(count, window).burst(burst),
        3 => Limit::leaky_queue(count, window).burst(burst),
        4 => Limit::fixed_window(count, window),
        5 => Limit::fixed_window(count, window).starting_at_first_request(),
        6 => Limit::sliding_log(count, window),
        _ if burst == 1 => Limit::calendar(count, CalendarUnit::Minute),
        _ => Limit::sliding_counter(count, window),
    })
}

fn steps() -> impl Strategy<Value = Vec<(u64, LateStep)>> {
    let within = prop_oneof![Just(None), (0..300_u64).prop_map(Some)];
    let step = prop_oneof![
        8 => (1..3_u64, within).prop_map(|(cost, within)| LateStep::Acquire { cost, within }),
        1 => (1..3_u64).prop_map(|cost| LateStep::Check { cost }),
        1 => (0..20_usize).prop_map(|index| LateStep::Leave { index }),
    ];
    let pause = prop_oneof![3 => Just(0_u64), 3 => 0..30_u64, 1 => 0..500_u64, 1 => 0..90_000_u64];
    prop::collection::vec((pause, step), 1..25)
}

proptest! {
    /// The exact run polls every waiter at the very instant its units come, so it is a sequence of
    /// ordinary charges, which never exceeds the limit. The late run has the same outcomes, and
    /// leaves the same state.
    #[test]
    fn late_wake_ups_have_the_outcomes_of_exact_ones(limit in limit(), steps in steps()) {
        let mut runs = [false, true].map(|is_late| LateRun::new(limit.clone(), is_late));
        for run in &mut runs {
            for (pause, step) in &steps {
                run.advance(*pause);
                run.take(step);
            }
            run.advance(400_000);
            run.settle();
        }
        let [exact, late] = runs;
        prop_assert_eq!(&exact.outcomes, &late.outcomes);
        let stands = |run: &LateRun| {
            let status = run.limiter.status("ana");
            (status.used(), status.retry_after(), status.reset_after())
        };
        prop_assert_eq!(stands(&exact), stands(&late));
    }
}

/// Tokio's clock is paused: it moves only when every task sleeps.
#[tokio::test(start_paused = true)]
async fn wait_follows_tokio_s_paused_clock() {
    let limiter = Limiter::new(Limit::per_second(1)).unwrap();
    let start = tokio::time::Instant::now();
    for _ in 0..10 {
        assert!(limiter.acquire("ana").await.unwrap().is_allowed());
    }
    let elapsed = start.elapsed();
    assert!(elapsed >= 9 * SECOND && elapsed < 9 * SECOND + SECOND / 10, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn waiters_under_tokio_s_paused_clock_keep_their_order_and_rate() {
    let limiter = Limiter::new(Limit::per_second(10_000).burst(1)).unwrap();
    let start = tokio::time::Instant::now();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..1000 {
        let (limiter, served) = (limiter.clone(), served.clone());
        tokio::spawn(async move {
            limiter.acquire("ana").await.unwrap();
            served.send(number).unwrap();
        });
    }
    drop(served);
    for number in 0..1000 {
        assert_eq!(order.recv().await, Some(number));
    }
    // The last unit comes after 99.9 ms; tokio's timer counts milliseconds.
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(99), "{elapsed:?}");
    assert!(elapsed <= Duration::from_millis(105), "{elapsed:?}");
}
