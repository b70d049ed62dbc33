//! Nodes that decide by themselves, and tell the store now and then what they admitted.

use tollgate::port::ScriptState;

use super::hands::{Copy, Hands, Place};
use super::world::{Asked, Mail, World};
use crate::simulate::nanos;

impl World<'_> {
    pub(super) fn ask_copy(&mut self, asked: Asked) {
        let (at, every) = (self.store_now(), nanos(self.setting.options.every));
        let (node, key) = asked.place;
        let Hands::Copies(copies) = &mut self.hands else { return };
        let copy = copies.entry(asked.place).or_default();
        let decision = self.setting.whole.decide(&copy.state, at, asked.cost);
        if decision.is_allowed() {
            copy.state = self.setting.whole.take(&copy.state, at, asked.cost);
            copy.untold += asked.cost;
            self.log.admissions.push((key, at, asked.cost));
        }
        if !std::mem::replace(&mut copy.telling, true) {
            // Each node at moments of its own.
            let phase = every / self.setting.fleet.nodes * u64::from(node);
            let since = self.now.wrapping_sub(phase) % every;
            self.post(self.now + every - since, Mail::Tell(asked.place, asked.life));
        }
        self.count(asked, &decision);
    }

    pub(super) fn tell(&mut self, place: Place, life: u64) {
        let Hands::Copies(copies) = &mut self.hands else { return };
        let Some(copy) = copies.get_mut(&place) else { return };
        if self.lives[place.0 as usize] == life {
            let units = std::mem::take(&mut copy.untold);
            self.send(Mail::Told { place, life, units });
        }
    }

    /// The store takes what was admitted, whether it is there or not.
    pub(super) fn charge(&mut self, key: u32, units: u64) -> ScriptState {
        let (at, state) = (self.store_now(), self.store.entry(key).or_insert(ScriptState::New));
        if units > 0 {
            *state = self.setting.whole.take(state, at, units);
        }
        state.clone()
    }

    pub(super) fn hear(&mut self, place: Place, life: u64, state: ScriptState) {
        let at = self.store_now();
        let Hands::Copies(copies) = &mut self.hands else { return };
        let Some(copy) = copies.get_mut(&place) else { return };
        if self.lives[place.0 as usize] == life {
            let untold = copy.untold;
            let state = match untold {
                0 => state,
                _ => self.setting.whole.take(&state, at, untold),
            };
            *copy = Copy { state, untold, telling: untold > 0 };
            if untold > 0 {
                let every = nanos(self.setting.options.every);
                self.post(self.now.saturating_add(every), Mail::Tell(place, life));
            }
        }
    }
}
