//! Fixed window: a count that starts again at zero with every window.
//!
//! Words: the moment at which the window ends, and the units taken in it. The end says which
//! window it is, so that a calendar is asked only once a window and key.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp as Moment, Zoned};

use super::StateWords;
use crate::decision::PlainFigures;
use crate::limit::CalendarUnit;
use crate::time::Timestamp;

/// A checked fixed window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedWindow {
    pub(crate) count: u64,
    pub(crate) start: WindowBoundary,
}

/// Where windows begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowBoundary {
    Epoch { window: u64 },
    First { window: u64 },
    Calendar { unit: CalendarUnit, zone: TimeZone },
}

impl FixedWindow {
    #[inline]
    pub(super) fn decide(&self, state: StateWords, now: u64, cost: u64) -> PlainFigures {
        let [end, used] = self.current(state, now);
        let allowed = cost <= self.count && used <= self.count - cost;
        let used = if allowed { used + cost } else { used };
        let reset_after = if used == 0 { 0 } else { end - now };
        PlainFigures {
            allowed,
            limit: self.count,
            cost,
            remaining: self.count.saturating_sub(used),
            retry_after: if allowed { 0 } else { end - now },
            reset_after,
            // In debt too: all of it is gone with the window.
            next_after: reset_after,
            delay: 0,
        }
    }

    #[inline]
    pub(super) fn take(&self, state: &mut StateWords, now: u64, cost: u64) {
        let [end, used] = self.current(*state, now);
        *state = [end, used.saturating_add(cost), 0];
    }

    pub(super) fn give_back(&self, state: &mut StateWords, taken_at: u64, units: u64) {
        let [end, used, _] = *state;
        // What was taken in an earlier window is gone with it.
        let in_window = taken_at >= end || self.start.end_after(taken_at) == end;
        if in_window
            || matches!(self.start, WindowBoundary::First { window } if taken_at >= end.saturating_sub(window))
        {
            state[1] = used.saturating_sub(units);
        }
    }

    pub(super) fn fresh_at([end, used, _]: StateWords) -> u64 {
        if used == 0 { 0 } else { end }
    }

    /// The end of the window that a take at `now` is counted in.
    pub(crate) fn end(&self, state: StateWords, now: u64) -> u64 {
        self.current(state, now)[0]
    }

    /// The units that count at `now`.
    pub(super) fn used(&self, state: StateWords, now: u64) -> u64 {
        self.current(state, now)[1]
    }

    /// Whether `now` is earlier than the start of the stored window by more than a window.
    #[inline]
    pub(super) fn is_stepped(&self, state: StateWords, now: u64) -> bool {
        let [end, used, _] = state;
        let length = self.start.length();
        // A look at the calendar takes long. No window of it is half again as long as its nominal
        // length, so that most states need none.
        used > 0
            && end.saturating_sub(now) > length + length / 2
            && self.start_of_stored(state, now).saturating_sub(now) > length
    }

    /// The start of the stored window if that is later than `now`, otherwise 0.
    pub(super) fn start_of_stored(&self, [end, used, _]: StateWords, now: u64) -> u64 {
        if used == 0 || now >= end || self.start.holds(now, end) {
            return 0;
        }
        self.start.start_before(end)
    }

    /// The state as of `from`, moved to the earlier moment `to`.
    pub(super) fn moved(&self, [end, used, _]: StateWords, from: u64, to: u64) -> StateWords {
        if from >= end || used == 0 {
            return [0; 3];
        }
        match self.start {
            WindowBoundary::First { .. } => [end.saturating_sub(from.saturating_sub(to)), used, 0],
            WindowBoundary::Epoch { .. } | WindowBoundary::Calendar { .. } => {
                [self.start.end_after(to), used, 0]
            }
        }
    }

    /// The end of the window that `now` is in, and what was taken in it. A window of which all was
    /// given back is as good as none: the next take begins its own.
    #[inline]
    fn current(&self, [end, used, _]: StateWords, now: u64) -> [u64; 2] {
        if now < end && used > 0 { [end, used] } else { [self.start.end_after(now), 0] }
    }
}

impl WindowBoundary {
    /// The end of the window that a first request at `now` would be in; always later than `now`.
    #[inline]
    pub(crate) fn end_after(&self, now: u64) -> u64 {
        match self {
            // Both are below 2^63, by `Timestamp::MAX` and `MAX_PERIOD`.
            WindowBoundary::Epoch { window } => now - now % window + window,
            WindowBoundary::First { window } => now + window,
            // A calendar that knows no end, as none does today, ends with the last moment.
            WindowBoundary::Calendar { unit, zone } => {
                calendar_end(now, *unit, zone).unwrap_or(u64::MAX)
            }
        }
    }

    /// The length of a window; for a window of the calendar, the nominal one.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        match self {
            WindowBoundary::Epoch { window } | WindowBoundary::First { window } => *window,
            WindowBoundary::Calendar { unit, .. } => unit.nominal_nanos(),
        }
    }

    /// Whether `now` is in the window that ends at `end`, or later.
    fn holds(&self, now: u64, end: u64) -> bool {
        match self {
            WindowBoundary::Epoch { window } | WindowBoundary::First { window } => {
                end.saturating_sub(now) <= *window
            }
            WindowBoundary::Calendar { .. } => self.end_after(now) >= end,
        }
    }

    /// The start of the window that ends at `end`. Searches the calendar: for rare calls.
    fn start_before(&self, end: u64) -> u64 {
        let length = self.length();
        if !matches!(self, WindowBoundary::Calendar { .. }) {
            return end.saturating_sub(length);
        }
        // No window is twice as long as its nominal length.
        let (mut before, mut inside) = (end.saturating_sub(2 * length), end.saturating_sub(1));
        if self.end_after(before) >= end {
            // Time begins within the window.
            return before;
        }
        while inside - before > 1 {
            let middle = before.midpoint(inside);
            if self.end_after(middle) < end { before = middle } else { inside = middle }
        }
        inside
    }
}

fn calendar_end(now: u64, unit: CalendarUnit, zone: &TimeZone) -> Option<u64> {
    let now = Moment::from_nanosecond(i128::from(now)).ok()?.to_zoned(zone.clone());
    let today = now.date();
    let end = match unit {
        CalendarUnit::Minute => next_multiple(&now, 60),
        CalendarUnit::Hour => next_multiple(&now, 60 * 60),
        CalendarUnit::Day => start_after(&now, today.tomorrow().ok()?)?,
        CalendarUnit::Week => {
            let days = 7 - i64::from(now.weekday().to_monday_zero_offset());
            start_after(&now, today.checked_add(Span::new().days(days)).ok()?)?
        }
        CalendarUnit::Month => {
            let next = today.first_of_month().checked_add(Span::new().months(1)).ok()?;
            start_after(&now, next)?
        }
    };
    u64::try_from(end.as_nanosecond()).ok()
}

/// The first moment of `date` after `now`. Where clocks are set back at midnight, a day is entered
/// twice, and its first beginning may have passed.
fn start_after(now: &Zoned, date: Date) -> Option<Moment> {
    let midnight = now.time_zone().to_ambiguous_zoned(date.at(0, 0, 0, 0));
    let first = midnight.clone().compatible().ok()?.timestamp();
    let second = midnight.later().ok()?.timestamp();
    [first, second].into_iter().find(|start| *start > now.timestamp())
}

/// The next full minute or hour by the zone's offset of the moment, which need not be whole hours.
fn next_multiple(now: &Zoned, seconds: i64) -> Moment {
    let offset = i64::from(now.offset().seconds());
    let local = now.timestamp().as_second() + offset;
    let next = local - local.rem_euclid(seconds) + seconds;
    Moment::UNIX_EPOCH.checked_add(SignedDuration::from_secs(next - offset)).unwrap_or(Moment::MAX)
}

// `end_after` adds a window to a timestamp without a check.
const _: () = assert!(Timestamp::MAX.as_nanos() <= u64::MAX / 2);
