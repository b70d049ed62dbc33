//! When each request is due, and who sends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

const SECOND: u128 = 1_000_000_000;

/// No sleep is shorter: the system would make it so anyway, and the server may need the core.
const SHORTEST: Duration = Duration::from_micros(50);

/// Between two looks at whether it is over.
const LONGEST: Duration = Duration::from_millis(10);

/// A request that is somebody's to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    /// When it should be sent: in an open loop by the rate, in a closed one now.
    pub(super) due: Instant,
    /// Whether it counts, and does not only warm up.
    pub(super) measured: bool,
}

/// Hands out requests, each once, in order.
#[derive(Debug)]
pub(super) struct Schedule {
    begin: Instant,
    pace: Pace,
    next: AtomicU64,
    /// The first number that nobody asks for.
    last: u64,
    stopped: AtomicBool,
}

#[derive(Debug)]
enum Pace {
    /// Whoever has its answer asks again. Those that warm up have numbers of their own, so that
    /// however many they are, what is measured is the same.
    Closed { warm: AtomicU64, measuring: AtomicBool },
    /// So many a second, whatever becomes of them, and the first so many to warm up. One permit for
    /// each that is due.
    Open { rate: u64, warm: u64, due: Semaphore },
}

impl Schedule {
    /// Requests from `begin` on: so many after the warm-up, or any number.
    pub(super) fn new(
        begin: Instant,
        rate: Option<u64>,
        warmup: Duration,
        requests: Option<u64>,
    ) -> Schedule {
        let (pace, warm) = match rate {
            None => {
                let measuring = AtomicBool::new(warmup.is_zero());
                (Pace::Closed { warm: AtomicU64::new(0), measuring }, 0)
            }
            Some(rate) => {
                let rate = rate.max(1);
                let warm = (warmup.as_nanos() * u128::from(rate)).div_ceil(SECOND);
                let warm = u64::try_from(warm).unwrap_or(u64::MAX);
                (Pace::Open { rate, warm, due: Semaphore::new(0) }, warm)
            }
        };
        let last = requests.map_or(u64::MAX, |requests| requests.saturating_add(warm));
        Schedule { begin, pace, next: AtomicU64::new(0), last, stopped: AtomicBool::new(false) }
    }

    /// The next request, when it is due; none when it is over.
    pub(super) async fn turn(&self) -> Option<Turn> {
        if let Pace::Open { due, .. } = &self.pace {
            due.acquire().await.ok()?.forget();
        }
        self.claim()
    }

    /// The next request, if it is due now.
    pub(super) fn turn_now(&self) -> Option<Turn> {
        if let Pace::Open { due, .. } = &self.pace {
            due.try_acquire().ok()?.forget();
        }
        self.claim()
    }

    fn claim(&self) -> Option<Turn> {
        if self.is_over() {
            return None;
        }
        if let Pace::Closed { warm, measuring } = &self.pace
            && !measuring.load(Ordering::Relaxed)
        {
            let number = warm.fetch_add(1, Ordering::Relaxed);
            return Some(Turn { number, due: Instant::now(), measured: false });
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number.saturating_add(1) >= self.last {
            // Nobody need wait for one more.
            self.stop();
        }
        let (due, measured) = match &self.pace {
            Pace::Closed { .. } => (Instant::now(), true),
            Pace::Open { rate, warm, .. } => (self.begin + offset(number, *rate), number >= *warm),
        };
        (number < self.last).then_some(Turn { number, due, measured })
    }

    /// The warm-up is over. In an open loop the rate says when.
    pub(super) fn measure(&self) {
        if let Pace::Closed { measuring, .. } = &self.pace {
            measuring.store(true, Ordering::Relaxed);
        }
    }

    /// Nothing more is sent.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Pace::Open { due, .. } = &self.pace {
            due.close();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How many requests are due before a moment, in an open loop.
    pub(super) fn due_before(&self, moment: Instant) -> u64 {
        match &self.pace {
            Pace::Closed { .. } => 0,
            Pace::Open { rate, .. } => {
                let passed = moment.saturating_duration_since(self.begin).as_nanos();
                let due = (passed * u128::from(*rate)).div_ceil(SECOND);
                u64::try_from(due).unwrap_or(u64::MAX).min(self.last)
            }
        }
    }

    /// Lets requests go when they are due, until it is over. For a thread of its own: the timers of
    /// the runtime are a millisecond coarse.
    pub(super) fn keep_pace(&self) {
        let Pace::Open { rate, due, .. } = &self.pace else { return };
        let mut released = 0;
        while !self.is_over() {
            let now = Instant::now();
            // Those that are due this very moment, too.
            let reached = self.due_before(now + Duration::from_nanos(1));
            due.add_permits(usize::try_from(reached - released).unwrap_or(usize::MAX));
            released = reached;
            let next = self.begin + offset(released, *rate);
            thread::sleep(next.saturating_duration_since(now).clamp(SHORTEST, LONGEST));
        }
    }
}

/// How long after the first a request is due.
fn offset(number: u64, rate: u64) -> Duration {
    let nanos = u128::from(number) * SECOND / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_hands_out_what_is_due_and_no_more() {
        let begin = Instant::now();
        let schedule = Schedule::new(begin, Some(1000), Duration::from_millis(2), None);
        assert!(schedule.turn_now().is_none(), "nobody keeps the pace");
        assert_eq!(schedule.due_before(begin), 0);
        assert_eq!(schedule.due_before(begin + Duration::from_nanos(1)), 1);
        assert_eq!(schedule.due_before(begin + Duration::from_millis(10)), 10);
        let Pace::Open { due, .. } = &schedule.pace else { panic!("it is open") };
        due.add_permits(3);
        let turns: Vec<_> = std::iter::from_fn(|| schedule.turn_now()).collect();
        let expected = [0, 1, 2].map(|number| (number, begin + Duration::from_millis(number)));
        let handed: Vec<_> = turns.iter().map(|turn| (turn.number, turn.due)).collect();
        assert_eq!(handed, expected);
        let measured: Vec<bool> = turns.iter().map(|turn| turn.measured).collect();
        assert_eq!(measured, [false, false, true], "two milliseconds warm up");
    }

    #[test]
    fn each_request_is_handed_out_once_to_many_threads() {
        let schedule = Schedule::new(Instant::now(), None, Duration::ZERO, Some(10_000));
        let mut numbers: Vec<u64> = thread::scope(|scope| {
            let claiming: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| std::iter::from_fn(|| schedule.turn_now()).collect::<Vec<_>>())
                })
                .collect();
            let claimed = claiming.into_iter().flat_map(|thread| thread.join().expect("no panic"));
            claimed.map(|turn| turn.number).collect()
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
        assert!(schedule.is_over());
    }

    #[test]
    fn a_pace_is_kept_and_ends_with_the_last_request() {
        let schedule = Schedule::new(Instant::now(), Some(100_000), Duration::ZERO, Some(500));
        thread::scope(|scope| {
            scope.spawn(|| schedule.keep_pace());
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                let mut sent = 0;
                while let Some(turn) = schedule.turn().await {
                    assert!(turn.due <= Instant::now(), "never early");
                    sent += 1;
                }
                assert_eq!(sent, 500);
            });
        });
    }

    #[test]
    fn what_is_measured_is_the_same_however_long_the_warm_up() {
        let schedule = Schedule::new(Instant::now(), None, Duration::from_secs(1), Some(3));
        for number in 0..7 {
            let turn = schedule.turn_now().expect("it warms up");
            assert_eq!((turn.number, turn.measured), (number, false));
        }
        schedule.measure();
        let measured: Vec<_> = std::iter::from_fn(|| schedule.turn_now()).collect();
        assert!(measured.iter().all(|turn| turn.measured));
        assert_eq!(measured.iter().map(|turn| turn.number).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
