//! Sliding counter: the counts of two windows, the older weighted by how much of it is in view.
//!
//! Words: the moment of the last take, what was taken in its window, and in the window before.

use super::StateWords;
use crate::decision::CounterFigures;

/// A checked sliding counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlidingCounter {
    pub(crate) count: u64,
    pub(crate) window: u64,
}

/// A counter packs if both counts fit 32 bits with room for debts of three times the limit.
const MOST_PACKED: u64 = 1 << 30;

/// A key's counts as they stand at a moment.
#[derive(Clone, Copy, Debug)]
struct CounterView {
    current: u64,
    previous: u64,
    /// How much of the current window has passed.
    into: u64,
}

impl SlidingCounter {
    pub(super) fn packs(&self) -> bool {
        self.count <= MOST_PACKED
    }

    #[inline]
    pub(super) fn decide(&self, state: StateWords, now: u64, cost: u64) -> CounterFigures {
        let CounterView { current, previous, into } = self.view(state, now);
        let allowed = match self.count.checked_sub(current).and_then(|left| left.checked_sub(cost))
        {
            Some(left) => weight_is_at_most(previous, self.window - into, self.window, left),
            None => false,
        };
        CounterFigures {
            allowed,
            limit: self.count,
            cost,
            current: if allowed { current + cost } else { current },
            previous,
            into,
            window: self.window,
            behind: state[0].saturating_sub(now),
        }
    }

    #[inline]
    pub(super) fn take(&self, state: &mut StateWords, now: u64, cost: u64) {
        let CounterView { current, previous, .. } = self.view(*state, now);
        *state = [state[0].max(now), current.saturating_add(cost), previous];
    }

    pub(super) fn give_back(&self, state: &mut StateWords, now: u64, taken_at: u64, units: u64) {
        let CounterView { current, previous, into } = self.view(*state, now);
        let at = state[0].max(now);
        let began = at - into;
        let from_current = if taken_at >= began { units.min(current) } else { 0 };
        // What was taken two windows ago no longer counts.
        let from_previous = if taken_at >= began.saturating_sub(self.window) {
            (units - from_current).min(previous)
        } else {
            0
        };
        *state = [at, current - from_current, previous - from_previous];
    }

    /// The moment from which neither count weighs anything, also under a limit of a larger count:
    /// a count that weighs less than one unit here may weigh more there.
    pub(super) fn fresh_at(&self, state: StateWords) -> u64 {
        let CounterView { current, previous, into } = self.view(state, state[0]);
        let windows = if current > 0 { 2 } else { u64::from(previous > 0) };
        if windows == 0 { 0 } else { (state[0] - into).saturating_add(windows * self.window) }
    }

    /// The units that count at `now`.
    pub(super) fn used(&self, state: StateWords, now: u64) -> u64 {
        let CounterView { current, previous, into } = self.view(state, now);
        let weight =
            u128::from(previous) * u128::from(self.window - into) / u128::from(self.window);
        current.saturating_add(u64::try_from(weight).unwrap_or(u64::MAX))
    }

    /// Whether `now` is earlier than the last take by more than two windows.
    #[inline]
    pub(super) fn is_stepped(&self, [last, current, previous]: StateWords, now: u64) -> bool {
        current.saturating_add(previous) > 0 && last.saturating_sub(now) > 2 * self.window
    }

    /// The end of the window that `at` is in.
    pub(crate) fn end(&self, at: u64) -> u64 {
        at - at % self.window + self.window
    }

    #[inline]
    fn view(&self, [last, current, previous]: StateWords, now: u64) -> CounterView {
        let began = last - last % self.window;
        let into = now.max(last) - began;
        if into < self.window {
            return CounterView { current, previous, into };
        }
        let previous = if into - self.window < self.window { current } else { 0 };
        CounterView { current: 0, previous, into: into % self.window }
    }
}

/// Whether floor(previous x in_view / window) <= most, without dividing.
#[inline]
fn weight_is_at_most(previous: u64, in_view: u64, window: u64, most: u64) -> bool {
    let weight = u128::from(previous) * u128::from(in_view);
    weight < (u128::from(most) + 1).saturating_mul(u128::from(window))
}

/// How far into a window floor(previous x (window - into) / window) falls to `most`.
pub(crate) fn until_weight_is(previous: u64, window: u64, most: u64) -> u64 {
    if previous <= most {
        return 0;
    }
    // The largest part in view that still weighs no more than `most`.
    let bound = ((u128::from(most) + 1) * u128::from(window)).div_ceil(u128::from(previous)) - 1;
    window - u64::try_from(bound).unwrap_or(window).min(window)
}
