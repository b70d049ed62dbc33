//! Sliding log: what was admitted and when.
//!
//! Each entry carries the running total up to itself, so that what is in view, and when enough of
//! it will have left, are found by bisection however long the log is.

use std::collections::VecDeque;

use crate::bounds::LOG_DROPS_PER_CALL;
use crate::decision::PlainFigures;

/// A checked sliding log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlidingLog {
    pub(crate) count: u64,
    pub(crate) window: u64,
}

/// What one key was admitted, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    entries: VecDeque<LogEntry>,
    /// The running total before the first entry. Totals wrap; only their differences count.
    before: u64,
}

#[derive(Clone, Copy, Debug)]
struct LogEntry {
    at: u64,
    total: u64,
}

impl EventLog {
    pub(crate) const fn new() -> EventLog {
        EventLog { entries: VecDeque::new(), before: 0 }
    }

    /// A log of these moments and units, oldest first.
    pub(crate) fn from_entries(entries: impl IntoIterator<Item = (u64, u64)>) -> EventLog {
        let mut log = EventLog::new();
        for (at, units) in entries {
            log.add(at.max(log.seen()), units);
        }
        log
    }

    /// The moments and units it holds, oldest first.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        let mut before = self.before;
        self.entries.iter().map(move |entry| {
            let units = entry.total.wrapping_sub(before);
            before = entry.total;
            (entry.at, units)
        })
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<LogEntry>()
    }

    /// The moment of the last entry.
    pub(super) fn seen(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.at)
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.before, |entry| entry.total)
    }

    /// The running total before entry `index`.
    fn total_before(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(previous) => self.entries[previous].total,
            None => self.before,
        }
    }

    fn add(&mut self, at: u64, units: u64) {
        let total = self.total().wrapping_add(units);
        match self.entries.back_mut() {
            Some(last) if last.at == at => last.total = total,
            _ => self.entries.push_back(LogEntry { at, total }),
        }
    }

    /// Takes `units` out of the entries up to `taken_at`, the latest first.
    fn remove(&mut self, taken_at: u64, units: u64) {
        let mut left = units;
        let mut index = self.entries.partition_point(|entry| entry.at <= taken_at);
        while left > 0 && index > 0 {
            index -= 1;
            let held = self.entries[index].total.wrapping_sub(self.total_before(index));
            let gone = held.min(left);
            left -= gone;
            self.entries.range_mut(index..).for_each(|entry| {
                entry.total = entry.total.wrapping_sub(gone);
            });
            if gone == held {
                self.entries.remove(index);
            }
        }
    }
}

impl SlidingLog {
    pub(super) fn decide(&self, log: &EventLog, now: u64, cost: u64) -> PlainFigures {
        let first = self.first_in_view(log, now);
        let gone = log.total_before(first);
        let used = log.total().wrapping_sub(gone);
        let allowed = cost <= self.count && used <= self.count - cost;
        let after = if allowed { used + cost } else { used };
        let newest = if allowed && cost > 0 { log.seen().max(now) } else { log.seen() };
        PlainFigures {
            allowed,
            limit: self.count,
            cost,
            remaining: self.count.saturating_sub(after),
            retry_after: if allowed || cost > self.count {
                0
            } else {
                let too_many = used - (self.count - cost);
                self.when_gone(log, gone.wrapping_add(too_many), first) - now
            },
            reset_after: if after == 0 { 0 } else { newest + self.window - now },
            next_after: self.next_after(log, first, [after, newest, now]),
            delay: 0,
        }
    }

    pub(super) fn take(&self, log: &mut EventLog, now: u64, cost: u64) {
        let first = self.first_in_view(log, now);
        let used = log.total().wrapping_sub(log.total_before(first));
        for _ in 0..first.min(LOG_DROPS_PER_CALL) {
            if let Some(entry) = log.entries.pop_front() {
                log.before = entry.total;
            }
        }
        let at = log.seen().max(now);
        // Only a debt can make more entries than units are allowed: it shares the last entry.
        let full = u64::try_from(log.entries.len()).unwrap_or(u64::MAX) > self.count;
        if let (true, Some(last)) = (full, log.entries.back_mut()) {
            last.at = at;
        }
        log.add(at, cost.min(u64::MAX - used));
        if log.entries.capacity() > 16 + 4 * log.entries.len() {
            log.entries.shrink_to(2 * log.entries.len());
        }
    }

    pub(super) fn give_back(&self, log: &mut EventLog, now: u64, taken_at: u64, units: u64) {
        let first = self.first_in_view(log, now);
        let in_view = log.total().wrapping_sub(log.total_before(first));
        log.remove(taken_at, units.min(in_view));
    }

    pub(super) fn fresh_at(&self, log: &EventLog) -> u64 {
        if log.entries.is_empty() { 0 } else { log.seen() + self.window }
    }

    /// The units that count at `now`.
    pub(super) fn used(&self, log: &EventLog, now: u64) -> u64 {
        log.total().wrapping_sub(log.total_before(self.first_in_view(log, now)))
    }

    /// The entries that count at `now`.
    pub(super) fn live(&self, log: &EventLog, now: u64) -> EventLog {
        let first = self.first_in_view(log, now);
        EventLog {
            entries: log.entries.range(first..).copied().collect(),
            before: log.total_before(first),
        }
    }

    /// Whether `now` is earlier than the last entry by more than the window.
    #[inline]
    pub(super) fn is_stepped(&self, log: &EventLog, now: u64) -> bool {
        log.seen().saturating_sub(now) > self.window
    }

    /// The wait until one unit more than now is there: the oldest leaves, or where there is a debt,
    /// enough of them.
    fn next_after(&self, log: &EventLog, first: usize, [after, newest, now]: [u64; 3]) -> u64 {
        let in_view = log.total().wrapping_sub(log.total_before(first));
        let leaving = after.saturating_sub(self.count) + 1;
        if after == 0 {
            0
        } else if leaving > in_view {
            newest + self.window - now
        } else {
            self.when_gone(log, log.total_before(first).wrapping_add(leaving), first) - now
        }
    }

    /// The first entry that still counts at `now`: at its moment plus the window it is gone.
    fn first_in_view(&self, log: &EventLog, now: u64) -> usize {
        let now = log.seen().max(now);
        log.entries.partition_point(|entry| entry.at + self.window <= now)
    }

    /// The moment at which the running total of what has left reaches `total`.
    fn when_gone(&self, log: &EventLog, total: u64, first: usize) -> u64 {
        let gone = log.total_before(first);
        let wanted = total.wrapping_sub(gone);
        // Not before `first`: what has left lies below `gone`, and its distance wraps to any number.
        let (mut low, mut high) = (first, log.entries.len().saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            match log.entries[middle].total.wrapping_sub(gone) < wanted {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        log.entries.get(low).map_or(0, |entry| entry.at + self.window)
    }
}
