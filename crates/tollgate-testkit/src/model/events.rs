//! Windows, logs and counters: all from a plain list of what was taken and when.

use tollgate::{Align, CalendarUnit, Limit};

use super::Model;
use super::calendar::{Zone, same_window};

/// What was taken and when, oldest first.
type Events = Vec<(u128, u128)>;

fn sum(events: &Events, counts: impl Fn(u128) -> bool) -> u128 {
    events.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost).sum()
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
    windows: Windows,
    events: Events,
}

impl Fixed {
    pub(super) fn new(limit: &Limit) -> Fixed {
        let window = limit.period().as_nanos();
        let windows = match limit.align() {
            Align::Epoch => Windows::Epoch(window),
            Align::First => Windows::First(window),
            Align::Calendar(unit) => Windows::Calendar(unit, Zone::new(limit.zone_name())),
            other => unimplemented!("no model of {other:?} yet"),
        };
        Fixed { count: limit.capacity().into(), windows, events: Events::new() }
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
}

impl Model for Fixed {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.used(at) + u128::from(cost) <= self.count
    }

    fn is_new(&self, at: u128) -> bool {
        self.used(at) == 0
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

    fn take(&mut self, at: u128, cost: u64) {
        self.events.push((at, cost.into()));
    }

    fn give_back(&mut self, at: u128, units: u64) {
        let window = self.window;
        remove(&mut self.events, units, |event| event / window + 1 >= at / window);
    }
}
