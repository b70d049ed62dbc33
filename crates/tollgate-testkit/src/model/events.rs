//! Windows, logs and counters: all from a plain list of what was taken and when.

use tollgate::{CalendarUnit, Limit, WindowStart};

use num_bigint::BigInt;
use num_rational::BigRational;

use super::calendar::{Zone, same_window};
use super::{Model, started};

/// What was taken and when, oldest first.
type Events = Vec<(u128, u128)>;

fn sum(events: &Events, counts: impl Fn(u128) -> bool) -> u128 {
    events.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost).sum()
}

/// So many whole units.
fn whole(units: u128) -> BigRational {
    BigRational::from_integer(BigInt::from(units))
}

/// So many units, rounded up to whole ones.
fn rounded_up(units: &BigRational) -> u128 {
    units.ceil().to_integer().try_into().expect("units are not negative")
}

/// Takes `units` out of the events that `counts` says, the latest first.
fn remove(events: &mut Events, units: u64, counts: impl Fn(u128) -> bool) {
    let mut left = u128::from(units);
    for (_, cost) in events.iter_mut().rev().filter(|(at, _)| counts(*at)) {
        let gone = left.min(*cost);
        *cost -= gone;
        left -= gone;
    }
    events.retain(|(_, cost)| *cost > 0);
}

/// Where the windows of a fixed window are.
#[derive(Debug)]
enum Windows {
    Epoch(u128),
    First(u128),
    Calendar(CalendarUnit, Zone),
}

#[derive(Debug)]
pub(super) struct Fixed {
    count: u128,
    window: u128,
    windows: Windows,
    events: Events,
}

impl Fixed {
    pub(super) fn new(limit: &Limit) -> Fixed {
        let window = limit.period().as_nanos();
        let windows = match limit.align() {
            WindowStart::Epoch => Windows::Epoch(window),
            WindowStart::FirstRequest => Windows::First(window),
            WindowStart::Calendar(unit) => Windows::Calendar(unit, Zone::new(limit.zone_name())),
            other => unimplemented!("no model of {other:?} yet"),
        };
        Fixed { count: limit.capacity().into(), window, windows, events: Events::new() }
    }

    /// Whether what was taken at `event` counts at `at`.
    fn counts(&self, event: u128, at: u128) -> bool {
        match &self.windows {
            Windows::Epoch(window) => event / window == at / window,
            Windows::First(window) => self.began(event, *window) == self.began(at, *window),
            Windows::Calendar(unit, zone) => same_window([event, at], *unit, zone),
        }
    }

    /// When the window began that holds `at`, if one does: each begins with the first event that
    /// is not in the one before.
    fn began(&self, at: u128, window: u128) -> Option<u128> {
        let mut began = None;
        for (event, _) in self.events.iter().filter(|(event, _)| *event <= at) {
            if began.is_none_or(|began| *event >= began + window) {
                began = Some(*event);
            }
        }
        began.filter(|began| at < began + window)
    }

    fn used(&self, at: u128) -> u128 {
        sum(&self.events, |event| self.counts(event, at))
    }

    /// The start of the window that holds `at`.
    fn start(&self, at: u128) -> u128 {
        match &self.windows {
            Windows::Epoch(window) => at / window * window,
            Windows::First(window) => self.began(at, *window).unwrap_or(at),
            Windows::Calendar(unit, zone) => {
                // A window of the calendar is never twice as long as it is called.
                let (mut before, mut inside) = (at.saturating_sub(2 * self.window), at);
                if same_window([before, at], *unit, zone) {
                    // Time begins within the window.
                    return before;
                }
                while inside - before > 1 {
                    let middle = before + (inside - before) / 2;
                    if same_window([middle, at], *unit, zone) {
                        inside = middle;
                    } else {
                        before = middle;
                    }
                }
                inside
            }
        }
    }
}

impl Model for Fixed {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= self.count
    }

    fn is_new(&self, at: u128) -> bool {
        self.used(at) == 0
    }

    fn used(&self, at: u128) -> BigRational {
        whole(self.used(at))
    }

    fn newest(&self, seen: u128) -> u128 {
        self.start(seen)
    }

    fn scaled(&self, at: u128, ratio: &BigRational, to: &Limit) -> Box<dyn Model> {
        // The window stays where it is.
        started(to, self.start(at), &(whole(self.used(at)) * ratio))
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.events.push((at, cost.into()));
    }

    fn give_back(&mut self, at: u128, units: u64) {
        let in_window: Vec<u128> =
            self.events.iter().map(|(event, _)| *event).filter(|e| self.counts(*e, at)).collect();
        if self.used(at) <= u128::from(units) {
            // The window itself is undone: the key is as good as new.
            return self.events.retain(|(event, _)| !in_window.contains(event));
        }
        // The first event stays where it is, since the window began with it.
        let mut left = u128::from(units);
        for (event, cost) in self.events.iter_mut().rev() {
            if in_window.contains(event) {
                let gone = left.min(*cost);
                *cost -= gone;
                left -= gone;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Log {
    count: u128,
    window: u128,
    events: Events,
}

impl Log {
    pub(super) fn new(limit: &Limit) -> Log {
        let (count, window) = (limit.capacity().into(), limit.period().as_nanos());
        Log { count, window, events: Events::new() }
    }

    fn used(&self, at: u128) -> u128 {
        sum(&self.events, |event| at < event + self.window)
    }
}

impl Model for Log {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= self.count
    }

    fn is_new(&self, at: u128) -> bool {
        self.used(at) == 0
    }

    fn used(&self, at: u128) -> BigRational {
        whole(self.used(at))
    }

    fn scaled(&self, at: u128, ratio: &BigRational, to: &Limit) -> Box<dyn Model> {
        // At each later moment what is left of the log has its share, rounded up once.
        let mut scaled = Log::new(to);
        for (index, (event, _)) in self.events.iter().enumerate() {
            if at >= event + self.window {
                continue;
            }
            let share_from = |index: usize| -> u128 {
                let sum = self.events[index..].iter().map(|(_, cost)| cost).sum();
                rounded_up(&(whole(sum) * ratio))
            };
            scaled.events.push((*event, share_from(index) - share_from(index + 1)));
        }
        Box::new(scaled)
    }

    fn moved(&self, from: u128, to: u128, limit: &Limit) -> Box<dyn Model> {
        let mut moved = Log::new(limit);
        for (event, cost) in self.events.iter().filter(|(event, _)| from < event + self.window) {
            moved.events.push((event.saturating_sub(from - to), *cost));
        }
        Box::new(moved)
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.events.push((at, cost.into()));
    }

    fn give_back(&mut self, at: u128, units: u64) {
        let window = self.window;
        remove(&mut self.events, units, |event| at < event + window);
    }
}

#[derive(Debug)]
pub(super) struct Counter {
    count: u128,
    window: u128,
    events: Events,
}

impl Counter {
    pub(super) fn new(limit: &Limit) -> Counter {
        let (count, window) = (limit.capacity().into(), limit.period().as_nanos());
        Counter { count, window, events: Events::new() }
    }

    fn used(&self, at: u128) -> u128 {
        let window = self.window;
        let current = sum(&self.events, |event| event / window == at / window);
        let previous = sum(&self.events, |event| event / window + 1 == at / window);
        let elapsed = at % window;
        current + previous * (window - elapsed) / window
    }
}

impl Model for Counter {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= self.count
    }

    fn is_new(&self, at: u128) -> bool {
        self.used(at) == 0
    }

    fn used(&self, at: u128) -> BigRational {
        whole(self.used(at))
    }

    fn scaled(&self, at: u128, ratio: &BigRational, to: &Limit) -> Box<dyn Model> {
        // The count of each window by itself.
        let mut scaled = Counter::new(to);
        for window in [(at / self.window).checked_sub(1), Some(at / self.window)] {
            let Some(window) = window else { continue };
            let count = sum(&self.events, |event| event / self.window == window);
            if count > 0 {
                let units = rounded_up(&(whole(count) * ratio));
                scaled.events.push((window * self.window, units));
            }
        }
        Box::new(scaled)
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.events.push((at, cost.into()));
    }

    fn give_back(&mut self, at: u128, units: u64) {
        let window = self.window;
        remove(&mut self.events, units, |event| event / window + 1 >= at / window);
    }
}
