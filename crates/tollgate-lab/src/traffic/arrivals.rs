//! When requests arrive.

use super::clients::Draw;
use super::{Random, Rate, Shape, Traffic};

/// A request: when, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds since the start.
    pub at_nanos: u64,
    /// The number of the client, from 0.
    pub client: u32,
}

/// The arrivals of a [`Traffic`], in order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    times: Times,
    draw: Draw,
    /// For whose they are: apart, so that the times are the same for any number of clients.
    who: Random,
    start: u64,
}

/// Moments since the traffic's own start.
#[derive(Clone, Debug)]
struct Times {
    shape: Shape,
    length: u64,
    /// What time it is at the traffic's start, in nanoseconds: windows end by the clock.
    clock: u128,
    /// How many there have been.
    done: u64,
    /// Where a Poisson process is, in parts of 2³² of a nanosecond.
    reached: u128,
    random: Random,
}

impl Arrivals {
    /// `clock` is what time it is at the start of everything.
    pub(super) fn new(traffic: &Traffic, seed: u64, clock: u64) -> Arrivals {
        let times = Times {
            shape: traffic.shape,
            length: nanos(traffic.length.as_nanos()),
            clock: u128::from(clock) + traffic.start.as_nanos(),
            done: 0,
            reached: 0,
            random: Random::new(seed, 0),
        };
        Arrivals {
            times,
            draw: Draw::new(traffic.clients),
            who: Random::new(seed, 1),
            start: nanos(traffic.start.as_nanos()),
        }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = self.times.next()?;
        let client = self.draw.next(&mut self.who);
        Some(Arrival { at_nanos: self.start + at, client })
    }
}

impl Times {
    fn next(&mut self) -> Option<u64> {
        let number = self.done;
        self.done += 1;
        let at = match self.shape {
            Shape::Steady(rate) => rate.moment(number),
            Shape::Poisson(rate) => self.poisson(rate),
            Shape::Bursts { size, every } => u128::from(number / size) * every.as_nanos(),
            Shape::OnOff { rate, on, off } => {
                // As many as begin within one spell.
                let each = rate.before(on.as_nanos());
                let (spell, within) = (u128::from(number) / each, u128::from(number) % each);
                let within = u64::try_from(within).unwrap_or(u64::MAX);
                spell * (on.as_nanos() + off.as_nanos()) + rate.moment(within)
            }
            Shape::Ramp { from, to } => ramp(from, to, (self.length, number))?,
            Shape::Edge { size, window } => edge(size, (window.as_nanos(), self.clock), number),
            Shape::Storm { size } if number < size => 0,
            Shape::Storm { .. } => return None,
        };
        u64::try_from(at).ok().filter(|at| *at < self.length)
    }

    fn poisson(&mut self, rate: Rate) -> u128 {
        let gap = self.random.exponential() * rate.period.as_nanos() / u128::from(rate.count);
        self.reached = self.reached.saturating_add(gap);
        self.reached >> 32
    }
}

impl Rate {
    /// When the `number`th of those at equal distances comes.
    fn moment(self, number: u64) -> u128 {
        u128::from(number) * self.period.as_nanos() / u128::from(self.count)
    }

    /// How many of those at equal distances come before `nanos`; at least the first.
    fn before(self, nanos: u128) -> u128 {
        self.within(nanos).max(1)
    }
}

/// When the `number`th request of a ramp comes: when the area under the line is so large.
///
/// Floats, since it is the root of a square: adding, multiplying, dividing and square roots have
/// the same last bit on every machine.
#[allow(
    clippy::float_arithmetic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the moment is checked against the length, and it decides nothing"
)]
fn ramp(from: Rate, to: Rate, (length, number): (u64, u64)) -> Option<u128> {
    let per_nano = |rate: Rate| rate.count as f64 / rate.period.as_nanos() as f64;
    let (first, last, length) = (per_nano(from), per_nano(to), length as f64);
    // From 0/s the first would come at once: it comes when half of it is due.
    let due = number as f64 + 0.5;
    let root = first * first + 2.0 * due * (last - first) / length;
    if root < 0.0 {
        return None;
    }
    let at = 2.0 * due / (first + root.sqrt());
    (at.is_finite() && at < length).then_some(at as u128)
}

/// The attack: `size` within the last hundredth of a window, and as many within the first
/// hundredth of the next; then a window of quiet, so that it can be done again.
fn edge(size: u64, (window, clock): (u128, u128), number: u64) -> u128 {
    let (size, number) = (u128::from(size), u128::from(number));
    let (attack, within) = (number / (2 * size), number % (2 * size));
    let room = window / 100;
    // The next end of a window that there is room before.
    let first = window - clock % window;
    let first = if first < room { first + window } else { first };
    let middle = first + 2 * attack * window;
    // Counted from the room's beginning, so that the last comes before the edge.
    middle - room + 2 * room * within / (2 * size)
}

fn nanos(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
