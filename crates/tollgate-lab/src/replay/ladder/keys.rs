//! The keys of a ladder. Most ask so seldom that they are as good as new each time: of those only
//! the last requests are kept, in one line of the processor's cache, and what all rungs say of them
//! is worked out when it is needed.

use hashbrown::HashTable;

use super::lanes::{Kind, Lanes, NEW, State};

/// How many requests of a key are kept before it gets a state.
const PUT_OFF: usize = 2;

/// Keys and what they have used.
pub(super) struct Keys {
    kind: Kind,
    keys: HashTable<Key>,
    states: Vec<State>,
    /// Where states are free.
    free: Vec<u32>,
    /// A request of no more units is never refused to a new key.
    harmless: u64,
}

#[derive(Clone, Copy)]
struct Key {
    hash: u64,
    /// From when on it is as good as new.
    fresh_at: u64,
    /// What it has asked for since it was new, and when, until it has a state.
    put_off: [(u64, u64); PUT_OFF],
    asked: u32,
    /// Where its state is.
    state: Option<u32>,
}

impl Keys {
    /// Keys of a ladder whose smallest rung admits so much at once.
    pub(super) fn new(kind: Kind, harmless: u64) -> Keys {
        Keys { kind, keys: HashTable::new(), states: Vec::new(), free: Vec::new(), harmless }
    }

    /// Charges a request to all rungs; what they refuse is added now or later.
    #[inline]
    pub(super) fn charge(&mut self, hash: u64, now: u64, cost: u64, refused: &mut Lanes) {
        let fresh_at = self.kind.fresh_at(now);
        let first = [(now, cost), (0, 0)];
        let new = Key { hash, fresh_at, put_off: first, asked: 1, state: None };
        let Some(key) = self.keys.find_mut(hash, |key| key.hash == hash) else {
            self.keys.insert_unique(hash, new, |key| key.hash);
            return;
        };
        if now >= key.fresh_at {
            settle(&mut self.kind, key, self.harmless, refused);
            self.free.extend(key.state);
            *key = new;
            return;
        }
        key.fresh_at = key.fresh_at.max(fresh_at);
        let sets = self.kind.sets();
        if let Some(state) = key.state {
            let state = &mut self.states[state as usize * sets..][..sets];
            return self.kind.charge(state, now, cost, refused);
        }
        if let Some(place) = key.put_off.get_mut(key.asked as usize) {
            *place = (now, cost);
            key.asked += 1;
            return;
        }
        let mut state = NEW;
        for (then, cost) in key.put_off.iter().chain([&(now, cost)]) {
            self.kind.charge(&mut state[..sets], *then, *cost, refused);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            let number = u32::try_from(self.states.len() / sets).unwrap_or(u32::MAX);
            self.states.extend_from_slice(&state[..sets]);
            number
        });
        self.states[number as usize * sets..][..sets].copy_from_slice(&state[..sets]);
        key.state = Some(number);
    }

    /// Looks at keys that will be charged, so that they are in the processor's cache then.
    pub(super) fn bring_near(&self, hashes: impl Iterator<Item = u64>) {
        let sets = self.kind.sets();
        let looked = hashes.map(|hash| {
            let Some(key) = self.keys.find(hash, |key| key.hash == hash) else { return 0 };
            let Some(number) = key.state else { return key.fresh_at };
            let states = &self.states[number as usize * sets..][..sets];
            states.iter().map(State::look).fold(0, u64::wrapping_add)
        });
        std::hint::black_box(looked.fold(0, u64::wrapping_add));
    }

    /// How much memory it holds.
    pub(super) fn size(&self) -> usize {
        let states = self.states.len() - self.free.len() * self.kind.sets();
        self.keys.len() * size_of::<Key>() + states * size_of::<State>()
    }

    /// Drops the keys that `is_seen` does not hold for, and those that are as good as new, adding
    /// what was put off of these to where `refused` says.
    pub(super) fn forget(
        &mut self,
        now: u64,
        is_seen: impl Fn(u64) -> bool,
        mut refused: impl FnMut(u64, &mut dyn FnMut(&mut Lanes)),
    ) {
        let sets = self.kind.sets();
        let (kind, harmless) = (&mut self.kind, self.harmless);
        let old = std::mem::take(&mut self.states);
        let states = &mut self.states;
        self.free.clear();
        self.keys.retain(|key| {
            if !is_seen(key.hash) {
                return false;
            }
            if now >= key.fresh_at {
                refused(key.hash, &mut |lanes| settle(kind, key, harmless, lanes));
                return false;
            }
            if let Some(number) = &mut key.state {
                let state = &old[*number as usize * sets..][..sets];
                *number = u32::try_from(states.len() / sets).unwrap_or(u32::MAX);
                states.extend_from_slice(state);
            }
            true
        });
        self.keys.shrink_to_fit(|key| key.hash);
    }
}

fn settle(kind: &mut Kind, key: &Key, harmless: u64, refused: &mut Lanes) {
    let asked = &key.put_off[..(key.asked as usize).min(PUT_OFF)];
    if key.state.is_some() || matches!(asked, [(_, cost)] if *cost <= harmless) {
        return;
    }
    let mut state = NEW;
    for (then, cost) in asked {
        kind.charge(&mut state[..kind.sets()], *then, *cost, refused);
    }
}
