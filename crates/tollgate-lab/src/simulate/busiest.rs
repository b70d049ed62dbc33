//! The most in any window, exactly.

use super::result::Busiest;

/// The most units in any interval of `window`, its end not counted: what is that far apart is not
/// in one. Each event is when and how many; they are in order.
pub(super) fn sliding(events: &[(u64, u64)], window: u64) -> Busiest {
    let (mut most, mut units, mut first) = (Busiest::default(), 0u64, 0);
    for (at, cost) in events {
        units = units.saturating_add(*cost);
        // An interval that begins with an event is as good as any.
        while at - events[first].0 >= window {
            units = units.saturating_sub(events[first].1);
            first += 1;
        }
        if units > most.units {
            most = Busiest { units, from_nanos: events[first].0 };
        }
    }
    most
}

/// The most units in any window that begins at a multiple of its length since 1970; the events
/// are counted from `start`.
pub(super) fn on_the_clock(events: &[(u64, u64)], window: u64, start: u64) -> Busiest {
    let number = |at: u64| start.saturating_add(at) / window;
    let mut most = Busiest::default();
    for events in events.chunk_by(|a, b| number(a.0) == number(b.0)) {
        let units = events.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
        if units > most.units {
            let begins = (number(events[0].0) * window).saturating_sub(start);
            most = Busiest { units, from_nanos: begins };
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Random;

    #[test]
    fn the_busiest_window_is_what_trying_all_of_them_finds() {
        let mut random = Random::new(3, 0);
        for _ in 0..500 {
            let many = random.below(30);
            let mut events: Vec<(u64, u64)> =
                (0..many).map(|_| (random.below(60), 1 + random.below(3))).collect();
            events.sort_unstable();
            let window = 1 + random.below(20);
            let within = |from: u64| {
                let inside = events.iter().filter(|(at, _)| (from..from + window).contains(at));
                inside.map(|(_, cost)| cost).sum::<u64>()
            };
            let found = sliding(&events, window);
            assert_eq!(found.units, (0..60).map(within).max().unwrap_or(0));
            assert_eq!(within(found.from_nanos), found.units);
            let start = random.below(100);
            let on_the_clock = on_the_clock(&events, window, start).units;
            let begins = (0..60).filter(|at| (start + at).is_multiple_of(window));
            let first = (0..window).map(|at| within_first(&events, at, (window, start)));
            assert_eq!(on_the_clock, begins.map(within).chain(first).max().unwrap_or(0));
        }
    }

    /// What is in the window that had begun before the start.
    fn within_first(events: &[(u64, u64)], at: u64, (window, start): (u64, u64)) -> u64 {
        let number = (start + at) / window;
        let inside = events.iter().filter(|(at, _)| (start + at) / window == number);
        inside.map(|(_, cost)| cost).sum()
    }
}
