//! Who was denied lately, and why: one entry for each rule and key, so that a flood of one does
//! not push out the others.
//!
//! Only denials come here. They are kept in sets of a few entries, found by hash; in a full set the
//! one that was denied longest ago makes room.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use std::time::Duration;
use tollgate::Timestamp;

use crate::bounds::{DENIAL_SETS, DENIALS_PER_SET};
use crate::metrics::Transport;
use crate::top::{ShownKey, shown};

/// The last denials.
#[derive(Debug)]
pub(crate) struct Denials {
    sets: Box<[Mutex<Vec<Denial>>]>,
    hasher: RandomState,
}

/// The last denial of a key, and how many there were.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    hash: u64,
    /// The rule or list; empty where no rule decided.
    pub(crate) rule: Box<str>,
    /// Attributes and values.
    pub(crate) key: ShownKey,
    /// Whether that is all of it.
    pub(crate) whole: bool,
    pub(crate) first: Timestamp,
    /// Since then; some are missed where threads meet.
    pub(crate) times: u64,
    pub(crate) last: Timestamp,
    pub(crate) why: Why,
}

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) reason: &'static str,
    pub(crate) transport: Transport,
    pub(crate) cost: u64,
    pub(crate) limit: u64,
    /// `None` where it never will be allowed.
    pub(crate) retry_after: Option<Duration>,
}

impl Default for Denials {
    fn default() -> Denials {
        let sets = (0..DENIAL_SETS).map(|_| Mutex::new(Vec::new())).collect();
        Denials { sets, hasher: RandomState::new() }
    }
}

impl Denials {
    /// Remembers that a key was denied, so many times.
    pub(crate) fn add(
        &self,
        (rule, key): (&str, &[(&str, &str)]),
        why: Why,
        (now, times): (Timestamp, u64),
    ) {
        let hash = self.hasher.hash_one((rule, key, why.reason));
        let Some(mut set) = self.set(hash).try_lock() else { return };
        if let Some(known) = set.iter_mut().find(|known| known.hash == hash) {
            (known.times, known.last, known.why) = (known.times.saturating_add(times), now, why);
            return;
        }
        let (rule, (key, whole)) = (rule.into(), shown(key));
        let denial = Denial { hash, rule, key, whole, first: now, times, last: now, why };
        if set.len() < DENIALS_PER_SET {
            set.push(denial);
        } else if let Some(oldest) = set.iter_mut().min_by_key(|known| known.last) {
            *oldest = denial;
        }
    }

    fn set(&self, hash: u64) -> &Mutex<Vec<Denial>> {
        let place = usize::try_from(hash % DENIAL_SETS).unwrap_or(0);
        &self.sets[place]
    }

    /// The last `most` that are `wanted`, the latest first.
    pub(crate) fn list(&self, most: usize, wanted: impl Fn(&Denial) -> bool) -> Vec<Denial> {
        let mut all = Vec::new();
        for set in &self.sets {
            all.extend(set.lock().iter().filter(|denial| wanted(denial)).cloned());
        }
        let order = |a: &Denial, b: &Denial| {
            b.last.cmp(&a.last).then_with(|| (&a.rule, &a.key).cmp(&(&b.rule, &b.key)))
        };
        all.sort_unstable_by(order);
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: Why = Why {
        reason: "limits",
        transport: Transport::Http,
        cost: 1,
        limit: 10,
        retry_after: Some(Duration::from_secs(6)),
    };

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    #[test]
    fn a_flood_of_one_key_leaves_the_others_known() {
        let denials = Denials::default();
        denials.add(("per-user", &[("user", "ben")]), WHY, (at(1), 1));
        (0..100_000).for_each(|_| denials.add(("per-user", &[("user", "ana")]), WHY, (at(2), 1)));
        let listed = denials.list(10, |_| true);
        let told: Vec<_> = listed.iter().map(|of| (&*of.key[0].1, of.times)).collect();
        assert_eq!(told, [("ana", 100_000), ("ben", 1)]);
        assert_eq!((listed[0].first, listed[0].last), (at(2), at(2)));
    }

    #[test]
    fn there_is_a_bound_and_the_latest_are_kept() {
        let denials = Denials::default();
        for number in 0..100_000 {
            let name = number.to_string();
            denials.add(("per-user", &[("user", &name)]), WHY, (at(number), 1));
        }
        let listed = denials.list(usize::MAX, |_| true);
        assert!(listed.len() <= 1024, "{}", listed.len());
        let newest: Vec<_> = listed.iter().take(100).map(|of| of.last).collect();
        let expected: Vec<_> = (0..100).map(|back| at(99_999 - back)).collect();
        assert_eq!(newest, expected, "of the latest hundred none has made room");
    }

    #[test]
    fn a_key_that_is_denied_for_two_reasons_is_told_twice() {
        let denials = Denials::default();
        denials.add(("login", &[("ip", "::1")]), WHY, (at(1), 1));
        denials.add(("login", &[("ip", "::1")]), Why { reason: "block", ..WHY }, (at(2), 1));
        let reasons: Vec<_> = denials.list(9, |_| true).iter().map(|of| of.why.reason).collect();
        assert_eq!(reasons, ["block", "limits"]);
        assert_eq!(denials.list(9, |of| of.why.reason == "block").len(), 1);
    }
}
