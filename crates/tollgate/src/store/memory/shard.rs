//! A shard: the part of the store behind one lock.

use super::names::KeyNames;
use super::observed::ObservedState;
use super::registry::{RegisteredLimit, Registry};
use super::table::{Shrink, Table, TableRow};
use crate::algorithm::{PackedState, State, StateConversion, StateMut, StateRef};
use crate::decision::{Decision, Figures};
use crate::key::KeyName;
use crate::limit::Plan;

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) table: Table,
}

/// What every operation on a key needs to know: the limit that asks, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargeContext<'a> {
    pub(super) named: &'a RegisteredLimit,
    pub(super) registry: &'a Registry,
    pub(super) now: u64,
}

/// A key to be added.
#[derive(Debug)]
pub(super) struct NewEntry {
    pub(super) id: u64,
    pub(super) name: Option<KeyName>,
    pub(super) state: State,
}

/// Whether a table that is laid out anew drops the states that are as good as new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReclaimPolicy {
    /// Those, and the memory they took.
    DropAndShrink,
    /// Those; most of their memory stays, since keys that were idle tend to come back.
    DropFresh,
    KeepAll,
}

impl Shard {
    /// Decides for the key at `index` and takes if it is allowed.
    #[inline(never)]
    pub(super) fn charge(&mut self, index: usize, call: &ChargeContext<'_>, cost: u64) -> Decision {
        // A cost that can never fit is an error, and changes nothing.
        if call.named.plan.can_fit(cost) {
            self.store_conversion(index, call);
        }
        let figures = self.decide(index, call, cost);
        if figures.allowed() {
            self.take(index, call, cost);
        }
        Decision::new(figures, cost)
    }

    /// Stores the conversion of the state at `index` if a denial does: the state then recovers under
    /// the limit of the call from now on.
    pub(super) fn store_conversion(&mut self, index: usize, call: &ChargeContext<'_>) {
        if let Some(conversion) = self.conversion(index, call)
            && conversion.is_stored_by_denial
        {
            self.replace(index, call, conversion);
        }
    }

    /// Decides for the key at `index`.
    pub(super) fn decide(&self, index: usize, call: &ChargeContext<'_>, cost: u64) -> Figures {
        let plan = &call.named.plan;
        match self.conversion(index, call) {
            Some(conversion) => plan.decide(conversion.state.as_ref(), call.now, cost),
            None => plan.decide(self.state(index, call.named), call.now, cost),
        }
    }

    /// Observes the state at `index` with a charge of `cost`.
    pub(super) fn observe(
        &self,
        index: usize,
        call: &ChargeContext<'_>,
        cost: u64,
    ) -> ObservedState {
        match self.conversion(index, call) {
            Some(conversion) => ObservedState::of_state(conversion.state.as_ref(), call, cost),
            None => ObservedState::of_state(self.state(index, call.named), call, cost),
        }
    }

    /// Decides for the key at `index`, or for a fresh one.
    pub(super) fn decide_at(
        &self,
        index: Option<usize>,
        call: &ChargeContext<'_>,
        cost: u64,
    ) -> Figures {
        match index {
            Some(index) => self.decide(index, call, cost),
            None => call.named.plan.decide_fresh(call.now, cost),
        }
    }

    /// Takes for the key at `index`.
    pub(super) fn take(&mut self, index: usize, call: &ChargeContext<'_>, cost: u64) {
        self.change(index, call, |plan, state| plan.take(state, call.now, cost));
    }

    /// A copy of the state of the key at `index`.
    pub(super) fn copy(&self, index: usize, call: &ChargeContext<'_>) -> State {
        match self.conversion(index, call) {
            Some(conversion) => conversion.state,
            None => self.state(index, call.named).to_owned(),
        }
    }

    /// Changes the state of the key at `index`.
    pub(super) fn change(
        &mut self,
        index: usize,
        call: &ChargeContext<'_>,
        change: impl FnOnce(&Plan, StateMut<'_>),
    ) {
        let RegisteredLimit { plan, packs, .. } = call.named;
        if let Some(conversion) = self.conversion(index, call) {
            self.replace(index, call, conversion);
        }
        let packed = self.table.words_mut(index);
        if *packs {
            let mut words = plan.unpack(*packed);
            change(plan, StateMut::Words(&mut words));
            *packed = plan.pack(words);
            return;
        }
        let place = packed[0];
        let aside = self.table.aside.as_mut();
        if let Some(state) = aside.and_then(|aside| aside.states.get_mut(place)) {
            change(plan, state.as_mut());
        }
    }

    /// The state at `index`, which was made under `named`.
    pub(super) fn state(&self, index: usize, named: &RegisteredLimit) -> StateRef<'_> {
        let packed = self.table.words(index);
        if named.packs {
            return StateRef::Words(named.plan.unpack(packed));
        }
        let aside = self.table.aside.as_ref();
        let state = aside.and_then(|aside| aside.states.get(packed[0]));
        state.map_or(StateRef::Words([0; 3]), State::as_ref)
    }

    /// The state at `index` under the limit of the call, if it was made under another one or the
    /// clock moved back by more than the horizon.
    #[inline]
    fn conversion(&self, index: usize, call: &ChargeContext<'_>) -> Option<StateConversion> {
        let plan = &call.named.plan;
        if self.table.limit(index) == call.named.number {
            let state = self.state(index, call.named);
            return plan.is_stepped(state, call.now).then(|| plan.convert(plan, state, call.now));
        }
        Some(match call.registry.get(self.table.limit(index)) {
            Some(old) => plan.convert(&old.plan, self.state(index, &old), call.now),
            None => StateConversion {
                state: plan.fresh(),
                is_stored_by_denial: false,
                is_redated: false,
            },
        })
    }

    /// Replaces the state at `index` with its conversion to the limit of the call.
    fn replace(&mut self, index: usize, call: &ChargeContext<'_>, conversion: StateConversion) {
        if conversion.is_redated {
            call.registry.count_redated();
        }
        self.forget_beside(&self.table.row(index), call.registry);
        let words = self.keep(call.named, conversion.state);
        self.table.replace(index, call.named.number, words);
    }

    /// Adds a key that `find` has not found, and whose place the caller has claimed. Returns how
    /// many worthless states were reclaimed on the way.
    pub(super) fn insert(
        &mut self,
        key: NewEntry,
        call: &ChargeContext<'_>,
        reclaim: ReclaimPolicy,
    ) -> usize {
        let NewEntry { id, name, state } = key;
        let mut reclaimed = 0;
        let aside = self.table.aside.as_ref();
        if self.table.is_full() || aside.is_some_and(|aside| aside.names.wants_compacting()) {
            reclaimed = self.rebuild(call.registry, call.now, reclaim);
        }
        let words = self.keep(call.named, state);
        loop {
            let (Ok(at) | Err(at)) = self.table.find(id);
            // Each time, since a table laid out anew keeps only the names of its rows.
            let place = name.as_ref().map_or(0, |name| {
                self.table.aside.get_or_insert_default().names.add(name.as_bytes())
            });
            if self.table.insert(at, TableRow { id, words, limit: call.named.number, place }) {
                return reclaimed;
            }
            // A run has reached the end of the table, which is then laid out with more room.
            reclaimed += self.rebuild(call.registry, call.now, reclaim);
        }
    }

    /// Takes the key `id` out, if it is there.
    pub(super) fn remove(&mut self, id: u64, registry: &Registry) -> bool {
        let Ok(index) = self.table.find(id) else {
            return false;
        };
        let row = self.table.remove(index);
        if let Some(aside) = &mut self.table.aside {
            aside.names.remove(row.place);
        }
        self.forget_beside(&row, registry);
        true
    }

    /// Lays the table out anew without the states that are as good as new, and says how many.
    pub(super) fn rebuild(
        &mut self,
        registry: &Registry,
        now: u64,
        reclaim: ReclaimPolicy,
    ) -> usize {
        let before = self.table.len();
        let aside = self.table.aside.as_mut();
        let old_names = aside.map(|aside| std::mem::take(&mut aside.names)).unwrap_or_default();
        let mut names = KeyNames::with_room_for(old_names.live_bytes());
        let mut kept = Vec::with_capacity(before);
        let mut worthless = Vec::new();
        registry.with(|limits| {
            for index in self.table.taken() {
                let row = self.table.row(index);
                let named = limits.get(row.limit);
                let keeps =
                    |named| reclaim == ReclaimPolicy::KeepAll || !self.is_fresh(index, named, now);
                if named.is_some_and(|named| keeps(named)) {
                    let place = match row.place {
                        0 => 0,
                        place => names.add(old_names.get(place)),
                    };
                    kept.push(TableRow { place, ..row });
                } else if named.is_some_and(|named| !named.packs) {
                    worthless.push(row.words[0]);
                }
            }
        });
        if let Some(aside) = &mut self.table.aside {
            worthless.into_iter().for_each(|index| drop(aside.states.remove(index)));
            names.trim();
            aside.names = names;
        }
        let shrinks =
            if reclaim == ReclaimPolicy::DropAndShrink { Shrink::ToFit } else { Shrink::Gradual };
        self.table = std::mem::take(&mut self.table).laid_out(&kept, shrinks);
        before - kept.len()
    }

    /// Whether the state at `index` equals a new key's.
    pub(super) fn is_fresh(&self, index: usize, named: &RegisteredLimit, now: u64) -> bool {
        named.plan.fresh_at(self.state(index, named)) <= now
    }

    pub(super) fn name(&self, index: usize) -> Option<KeyName> {
        self.table.aside.as_ref()?.names.name(self.table.row(index).place)
    }

    /// The bytes of the name of the key at `index`; none if it has no name.
    pub(super) fn name_bytes(&self, index: usize) -> &[u8] {
        match (&self.table.aside, self.table.row(index).place) {
            (Some(aside), place @ 1..) => aside.names.get(place),
            _ => &[],
        }
    }

    /// The words that stand for `state` in a slot.
    fn keep(&mut self, named: &RegisteredLimit, state: State) -> PackedState {
        match state {
            State::Words(words) if named.packs => named.plan.pack(words),
            state => [self.table.aside.get_or_insert_default().states.add(state), 0],
        }
    }

    /// Frees what the row keeps beside the table.
    fn forget_beside(&mut self, row: &TableRow, registry: &Registry) {
        if let Some(aside) = &mut self.table.aside
            && registry.get(row.limit).is_some_and(|named| !named.packs)
        {
            aside.states.remove(row.words[0]);
        }
    }
}
