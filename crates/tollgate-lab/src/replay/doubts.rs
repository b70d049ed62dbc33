//! Times that are too far ahead of all others to be believed at once.
//!
//! A line waits until the log is ahead of it, and the clock never goes back: one line of the far
//! future, believed, would make every line after it late.

use super::order::Entry;

/// A line so much after all before it is doubted: a day, in microseconds. Fewer logs than any have
/// nothing to tell for so long, and these are believed five lines later.
const FAR: u64 = 24 * 60 * 60 * 1_000_000;

/// So many doubted lines decide together: two of them may be wrong.
const TOGETHER: usize = 5;

/// What is believed of a log's times.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// The newest time that is believed.
    newest: u64,
    doubted: Vec<Entry>,
}

/// What became of lines that were doubted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) believed: Vec<Entry>,
    /// Those whose time is wrong.
    pub(super) wrong: Vec<Entry>,
}

impl Doubts {
    /// The newest time that is believed.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether a line is believed at once, and nothing else has to be decided.
    #[inline]
    pub(super) fn believes(&mut self, time: u64) -> bool {
        let believed = time <= self.newest.saturating_add(FAR) && self.doubted.is_empty();
        if believed {
            self.newest = self.newest.max(time);
        }
        believed
    }

    /// Hears a line that is not believed at once.
    #[cold]
    pub(super) fn hear(&mut self, entry: Entry) -> Judged {
        if entry.time <= self.newest.saturating_add(FAR) {
            // The log goes on as before: what was ahead of it is wrong.
            self.newest = self.newest.max(entry.time);
            return Judged { believed: vec![entry], wrong: std::mem::take(&mut self.doubted) };
        }
        self.doubted.push(entry);
        if self.doubted.len() < TOGETHER { Judged::default() } else { self.settle() }
    }

    /// Decides about those that are doubted, with what there is: wrong is what is far ahead of the
    /// one in their middle and of one that comes after it.
    pub(super) fn settle(&mut self) -> Judged {
        let doubted = std::mem::take(&mut self.doubted);
        let mut times: Vec<u64> = doubted.iter().map(|entry| entry.time).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2) else { return Judged::default() };
        let is_far_ahead_of = |entry: &Entry, time: u64| entry.time > time.saturating_add(FAR);
        let mut judged = Judged::default();
        for (at, entry) in doubted.iter().enumerate() {
            let after = doubted[at..].iter().any(|after| is_far_ahead_of(entry, after.time));
            let is_wrong = after && is_far_ahead_of(entry, *middle);
            if is_wrong { &mut judged.wrong } else { &mut judged.believed }.push(*entry);
        }
        let newest = judged.believed.iter().map(|entry| entry.time).max();
        self.newest = self.newest.max(newest.unwrap_or(0));
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of times in days, and which of them are found wrong, by their numbers from 1.
    fn wrong(days: &[u64]) -> Vec<u64> {
        let (mut doubts, mut wrong, mut heard) = (Doubts::default(), Vec::new(), 0);
        for (line, day) in (1..).zip(days) {
            let entry = Entry { time: day * FAR, line, block: 0, index: 0 };
            if doubts.believes(entry.time) {
                heard += 1;
                continue;
            }
            let judged = doubts.hear(entry);
            heard += judged.believed.len();
            wrong.extend(judged.wrong.iter().map(|entry| entry.line));
        }
        let judged = doubts.settle();
        wrong.extend(judged.wrong.iter().map(|entry| entry.line));
        assert_eq!(heard + judged.believed.len() + wrong.len(), days.len(), "each line once");
        wrong
    }

    #[test]
    fn a_time_far_ahead_of_all_around_it_is_wrong_wherever_it_stands() {
        assert_eq!(wrong(&[10, 10, 10, 10, 10, 90, 10, 10]), [6]);
        assert_eq!(wrong(&[90, 10, 10, 10, 10, 10, 10]), [1], "the first");
        assert_eq!(wrong(&[10, 90, 95, 10, 10, 10, 10]), [2, 3], "two of five");
        assert_eq!(wrong(&[10, 10, 10, 10, 10, 90, 95, 99, 10, 10]), [6, 7, 8]);
        assert_eq!(wrong(&[90, 10, 10]), [1], "of a short log");
    }

    #[test]
    fn a_log_may_be_silent_for_days() {
        assert!(wrong(&[10, 10, 10, 10, 10, 20, 20, 20, 20, 20, 21]).is_empty());
        assert!(wrong(&[10, 20, 30, 40, 50, 60, 70, 80]).is_empty(), "and do little else");
        assert!(wrong(&[10, 10, 10, 10, 10, 20]).is_empty(), "before its last line");
        assert!(wrong(&[20, 20, 20, 20, 20, 10, 10, 10]).is_empty(), "days in any order");
        assert!(wrong(&[]).is_empty() && wrong(&[7]).is_empty());
    }
}
