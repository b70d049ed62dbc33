//! Lines in the order of their times, though the log has them in another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// What is done about lines that are out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A line waits until the log is so far ahead of it. One that is later still is decided at the
    /// time the replay has come to, and counted.
    Within(Duration),
    /// Everything is read before anything is decided, which holds the whole log in memory.
    Sorted,
}

impl Default for Order {
    /// Ten seconds: longer than nearly every request that is logged when it ends under the time at
    /// which it began.
    fn default() -> Order {
        Order::Within(Duration::from_secs(10))
    }
}

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Microseconds since 1970.
    pub(super) time: u64,
    /// Its number in the log, from 1: lines of one time stay in order.
    pub(super) line: u64,
    /// The block it is in, and its place there.
    pub(super) block: u32,
    pub(super) index: u32,
}

/// Lines that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Those that were in order when they came, which in most logs are all.
    run: VecDeque<Entry>,
    strays: BinaryHeap<Reverse<Entry>>,
}

impl Queue {
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.run.back().is_none_or(|last| last.time <= entry.time) {
            self.run.push_back(entry);
        } else {
            self.strays.push(Reverse(entry));
        }
    }

    /// Takes the earliest, if it is not after `until`.
    #[inline]
    pub(super) fn pop(&mut self, until: u64) -> Option<Entry> {
        let Some(Reverse(stray)) = self.strays.peek() else {
            return if self.run.front()?.time <= until { self.run.pop_front() } else { None };
        };
        match self.run.front() {
            Some(first) if first < stray => {
                if first.time <= until {
                    self.run.pop_front()
                } else {
                    None
                }
            }
            _ if stray.time <= until => self.strays.pop().map(|Reverse(stray)| stray),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in_sorted(times in prop::collection::vec(0_u64..50, 0..200)) {
            let entry = |(time, line)| Entry { time, line, block: 0, index: 0 };
            let mut entries: Vec<Entry> = times.into_iter().zip(1..).map(entry).collect();
            let mut queue = Queue::default();
            entries.iter().for_each(|entry| queue.push(*entry));
            let out: Vec<Entry> = std::iter::from_fn(|| queue.pop(u64::MAX)).collect();
            entries.sort_unstable();
            prop_assert_eq!(out, entries);
        }
    }

    #[test]
    fn a_line_waits_until_its_time_is_over() {
        let mut queue = Queue::default();
        let entry = |time, line| Entry { time, line, block: 0, index: 0 };
        [entry(5, 1), entry(9, 2), entry(7, 3)].into_iter().for_each(|entry| queue.push(entry));
        assert_eq!(queue.pop(4), None);
        assert_eq!(queue.pop(8), Some(entry(5, 1)));
        assert_eq!(queue.pop(8), Some(entry(7, 3)));
        assert_eq!(queue.pop(8), None);
        assert_eq!(queue.pop(9), Some(entry(9, 2)));
    }
}
