//! Sliding logs against all rungs at once: what was admitted and when, and by which rungs.

use std::collections::{HashMap, VecDeque};

use tollgate::Limit;

use super::lanes::{Lanes, ZERO};

/// The numbers of all rungs.
pub(super) struct Logs {
    limits: Lanes,
    rungs: usize,
    window: u64,
    keys: HashMap<u64, KeyLog>,
    /// How many entries all keys have together.
    entries: usize,
}

/// What a key has used.
#[derive(Default)]
struct KeyLog {
    entries: VecDeque<Admitted>,
    used: Vec<u64>,
}

struct Admitted {
    at: u64,
    cost: u64,
    /// A bit for each rung.
    by: u64,
}

impl Logs {
    pub(super) fn new(rungs: &[Limit]) -> Option<Logs> {
        let period = rungs.first()?.period();
        if !period.subsec_nanos().is_multiple_of(1000) {
            return None;
        }
        let mut limits = ZERO;
        for (lane, rung) in limits.iter_mut().zip(rungs) {
            *lane = rung.count();
        }
        let window = u64::try_from(period.as_micros()).ok()?;
        Some(Logs { limits, rungs: rungs.len(), window, keys: HashMap::new(), entries: 0 })
    }

    pub(super) fn charge(&mut self, hash: u64, now: u64, cost: u64, refused: &mut Lanes) {
        let key = self.keys.entry(hash).or_default();
        key.used.resize(self.rungs, 0);
        self.entries -= key.forget(now, self.window);
        let mut by = 0;
        for (lane, used) in key.used.iter_mut().enumerate() {
            let after = used.saturating_add(cost);
            if after <= self.limits[lane] {
                *used = after;
                by |= 1 << lane;
            } else {
                refused[lane] += 1;
            }
        }
        match key.entries.back_mut() {
            _ if by == 0 => {}
            Some(last) if last.at == now && last.by == by => last.cost += cost,
            _ => {
                key.entries.push_back(Admitted { at: now, cost, by });
                self.entries += 1;
            }
        }
    }

    /// How much memory it holds, about.
    pub(super) fn size(&self) -> usize {
        let of_key = size_of::<KeyLog>() + self.rungs * size_of::<u64>();
        self.entries * size_of::<Admitted>() + self.keys.len() * of_key
    }

    /// Drops the keys that `is_seen` does not hold for, and those that are as good as new.
    pub(super) fn forget_keys(&mut self, now: u64, is_seen: impl Fn(u64) -> bool) {
        let (window, entries) = (self.window, &mut self.entries);
        self.keys.retain(|hash, key| {
            let is_new =
                key.entries.back().is_none_or(|last| last.at.saturating_add(window) <= now);
            let stays = is_seen(*hash) && !is_new;
            if !stays {
                *entries -= key.entries.len();
            }
            stays
        });
    }
}

impl KeyLog {
    /// Drops what no longer counts; how many entries that was.
    fn forget(&mut self, now: u64, window: u64) -> usize {
        let before = self.entries.len();
        while let Some(first) = self.entries.front()
            && first.at.saturating_add(window) <= now
        {
            for (lane, used) in self.used.iter_mut().enumerate() {
                *used -= first.cost * (first.by >> lane & 1);
            }
            self.entries.pop_front();
        }
        before - self.entries.len()
    }
}
