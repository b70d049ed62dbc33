//! The manual clock, which tests and simulations stand on.

use std::thread;
use std::time::Duration;

use tollgate::ManualClock;

const THREADS: u64 = 4;
const STEPS: u64 = 50_000;

#[test]
fn steps_of_several_threads_add_up() {
    let clock = ManualClock::new();
    let start = clock.now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..STEPS).for_each(|_| clock.advance(Duration::from_nanos(1))));
        }
    });
    assert_eq!(clock.now().saturating_since(start), Duration::from_nanos(THREADS * STEPS));
}

#[test]
fn a_new_clock_stands_at_midnight() {
    let seconds = ManualClock::new().now().as_nanos() / 1_000_000_000;
    assert_eq!(seconds % 86_400, 0);
}
