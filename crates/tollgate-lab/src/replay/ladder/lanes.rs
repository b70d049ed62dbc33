//! One request against all rungs at once. A key's state is one number for each rung, and what is
//! done to all of them is done without a branch, so that the compiler does several in one step.

#![allow(clippy::needless_range_loop, reason = "several arrays are walked in step")]

use tollgate::port::ScriptPlan;
use tollgate::{Algorithm, Limit, WindowStart};

use super::rungs::RUNGS;

/// One number a rung.
pub(super) type Lanes = [u64; RUNGS];

pub(super) const ZERO: Lanes = [0; RUNGS];

/// The numbers of all rungs, and how they count. Times in microseconds.
#[allow(clippy::large_enum_variant, reason = "there is one for each ladder, in a box")]
pub(super) enum Kind {
    Bucket(Bucket),
    Window(Window),
    FromFirst(FromFirst),
    Counter(Counter),
}

/// Any bucket. What a key owes is counted in parts of a microsecond, as many of them as the count
/// over what it has in common with the period, so that everything is whole: a unit then costs the
/// period over the same.
pub(super) struct Bucket {
    parts: Lanes,
    prices: Lanes,
    capacities: Lanes,
    /// Capacities in parts.
    most: Lanes,
    /// After how long everything is paid back.
    full: Lanes,
    /// The longest of these.
    longest: u64,
}

/// A window that all keys share.
pub(super) struct Window {
    limits: Lanes,
    ported: ScriptPlan,
    /// A moment of the window that was asked for last, and its end.
    begin: u64,
    end: u64,
}

/// A window that begins with the first request that is admitted, and so at another moment for each
/// rung.
pub(super) struct FromFirst {
    limits: Lanes,
    window: u64,
}

pub(super) struct Counter {
    limits: Lanes,
    window: u64,
}

/// What a key has used.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// When it was last seen, when its window ends, or which window it is in.
    at: u64,
    lanes: Lanes,
}

impl State {
    /// Looks at every line of the processor's cache that it lies in: a number of no meaning.
    #[inline]
    pub(super) fn look(&self) -> u64 {
        self.lanes.iter().step_by(8).fold(self.at, |sum, lane| sum.wrapping_add(*lane))
    }
}

/// What a new key has used, in as many sets as there may be.
pub(super) const NEW: [State; 2] = [State { at: 0, lanes: ZERO }; 2];

impl Kind {
    /// Makes rungs ready; `None` where their numbers do not fit, or they are logs.
    pub(super) fn new(rungs: &[Limit]) -> Option<Kind> {
        let limit = rungs.first()?;
        if !limit.period().subsec_nanos().is_multiple_of(1000) {
            return None;
        }
        let period = u64::try_from(limit.period().as_micros()).ok()?;
        let mut limits = ZERO;
        for (lane, rung) in limits.iter_mut().zip(rungs) {
            *lane = rung.count();
        }
        match limit.algorithm() {
            Algorithm::SlidingLog => None,
            Algorithm::FixedWindow if limit.align() == WindowStart::FirstRequest => {
                Some(Kind::FromFirst(FromFirst { limits, window: period }))
            }
            Algorithm::FixedWindow => Some(Kind::Window(Window {
                limits,
                ported: ScriptPlan::new(limit).ok()?,
                begin: 0,
                end: 0,
            })),
            Algorithm::SlidingCounter => Some(Kind::Counter(Counter { limits, window: period })),
            _ => Bucket::new(rungs, period).map(Kind::Bucket),
        }
    }

    /// Whether the products of a rung's numbers fit.
    pub(super) fn fits(rung: &Limit) -> bool {
        let period = u64::try_from(rung.period().as_micros()).unwrap_or(u64::MAX);
        let common = match rung.algorithm() {
            Algorithm::SlidingCounter => 1,
            Algorithm::FixedWindow => return true,
            _ => gcd(rung.count(), period),
        };
        u128::from(rung.capacity()) * u128::from(period / common) < 1 << 62
    }

    /// How many sets of lanes a key has.
    pub(super) fn sets(&self) -> usize {
        if matches!(self, Kind::Counter(_) | Kind::FromFirst(_)) { 2 } else { 1 }
    }

    /// Charges a request to a key: `refused` is raised where a rung refuses.
    #[inline]
    pub(super) fn charge(&mut self, key: &mut [State], now: u64, cost: u64, refused: &mut Lanes) {
        match (self, key) {
            (Kind::Bucket(bucket), [state, ..]) => bucket.charge(state, now, cost, refused),
            (Kind::Window(window), [state, ..]) => window.charge(state, now, cost, refused),
            (Kind::FromFirst(window), [used, ends, ..]) => {
                window.charge([used, ends], now, cost, refused);
            }
            (Kind::Counter(counter), [current, before, ..]) => {
                counter.charge([current, before], now, cost, refused);
            }
            _ => {}
        }
    }

    /// From when on a key that asks at `now` is as good as new, whatever the rung, if it asks no
    /// more.
    #[inline]
    pub(super) fn fresh_at(&mut self, now: u64) -> u64 {
        match self {
            Kind::Bucket(bucket) => now.saturating_add(bucket.longest),
            Kind::Window(window) => window.end_after(now),
            Kind::FromFirst(window) => now.saturating_add(window.window),
            Kind::Counter(counter) => (now / counter.window + 2).saturating_mul(counter.window),
        }
    }
}

impl Bucket {
    fn new(rungs: &[Limit], period: u64) -> Option<Bucket> {
        let [parts, prices, capacities, most, full] = [ZERO; 5];
        let mut bucket = Bucket { parts, prices, capacities, most, full, longest: 0 };
        for (lane, rung) in rungs.iter().enumerate() {
            let common = gcd(rung.count(), period);
            bucket.parts[lane] = rung.count() / common;
            bucket.prices[lane] = period / common;
            bucket.capacities[lane] = rung.capacity();
            bucket.most[lane] = rung.capacity().checked_mul(period / common)?;
            bucket.full[lane] = bucket.most[lane].div_ceil(bucket.parts[lane]);
            bucket.longest = bucket.longest.max(bucket.full[lane]);
        }
        Some(bucket)
    }

    #[inline]
    fn charge(&self, key: &mut State, now: u64, cost: u64, refused: &mut Lanes) {
        let elapsed = now.saturating_sub(key.at);
        key.at = now;
        for lane in 0..RUNGS {
            // Meaningless where the cost is above the capacity, and not looked at then.
            let price = self.prices[lane].wrapping_mul(cost);
            let paid = elapsed.min(self.full[lane]) * self.parts[lane];
            let owed = key.lanes[lane].saturating_sub(paid);
            let fits = cost <= self.capacities[lane] && owed <= self.most[lane].wrapping_sub(price);
            key.lanes[lane] = if fits { owed.wrapping_add(price) } else { owed };
            refused[lane] += u64::from(!fits);
        }
    }
}

impl Window {
    /// The end of the window that `now` is in.
    #[inline]
    fn end_after(&mut self, now: u64) -> u64 {
        // What was put off is of an earlier window than what is asked now.
        if now >= self.end || now < self.begin {
            (self.begin, self.end) = (now, self.ported.end_after(now));
        }
        self.end
    }

    #[inline]
    fn charge(&mut self, key: &mut State, now: u64, cost: u64, refused: &mut Lanes) {
        if now >= key.at {
            *key = State { at: self.end_after(now), lanes: ZERO };
        }
        for lane in 0..RUNGS {
            let after = key.lanes[lane].saturating_add(cost);
            let fits = after <= self.limits[lane];
            key.lanes[lane] = if fits { after } else { key.lanes[lane] };
            refused[lane] += u64::from(!fits);
        }
    }
}

impl FromFirst {
    #[inline]
    fn charge(&self, [key, ends]: [&mut State; 2], now: u64, cost: u64, refused: &mut Lanes) {
        let end = now.saturating_add(self.window);
        for lane in 0..RUNGS {
            let is_over = now >= ends.lanes[lane];
            let used = if is_over { 0 } else { key.lanes[lane] };
            let after = used.saturating_add(cost);
            let fits = after <= self.limits[lane];
            key.lanes[lane] = if fits { after } else { used };
            ends.lanes[lane] = if fits && is_over { end } else { ends.lanes[lane] };
            refused[lane] += u64::from(!fits);
        }
    }
}

impl Counter {
    #[inline]
    fn charge(&self, [key, before]: [&mut State; 2], now: u64, cost: u64, refused: &mut Lanes) {
        let number = now / self.window;
        if number != key.at {
            before.lanes = if number == key.at + 1 { key.lanes } else { ZERO };
            *key = State { at: number, lanes: ZERO };
        }
        let weight = self.window - now % self.window;
        for lane in 0..RUNGS {
            let (limit, used) = (self.limits[lane], key.lanes[lane]);
            // What the window before weighs is below this many units, for the sum to fit.
            let room = limit.saturating_sub(used).wrapping_sub(cost).wrapping_add(1);
            let fits = cost <= limit.saturating_sub(used)
                && before.lanes[lane] * weight < room.wrapping_mul(self.window);
            key.lanes[lane] = if fits { used + cost } else { used };
            refused[lane] += u64::from(!fits);
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
