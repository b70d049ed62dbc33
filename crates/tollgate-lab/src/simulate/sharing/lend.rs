//! Nodes that borrow units, and spend them by themselves.

use tollgate::port::{Grant, ScriptState};
use tollgate::{Decision, Timestamp};

use super::hands::{Hands, Place};
use super::world::{Asked, Mail, World};
use crate::simulate::nanos;

impl World<'_> {
    pub(super) fn ask_lease(&mut self, asked: Asked) {
        let (now, key) = (self.node_now(asked.place.0), asked.place.1);
        let (Hands::Leases(leases), Some(terms)) = (&mut self.hands, &self.setting.terms) else {
            return;
        };
        match leases.entry(asked.place).or_default().lessee.spend(terms, asked.cost, now) {
            Some(spent) => {
                self.log.admissions.push((key, self.store_now(), asked.cost));
                self.count(asked, &spent.decision);
            }
            None => self.ask(asked),
        }
        self.borrow(asked.place);
    }

    pub(super) fn borrow(&mut self, place: Place) {
        let sent = self.node_now(place.0);
        let (Hands::Leases(leases), Some(terms)) = (&mut self.hands, &self.setting.terms) else {
            return;
        };
        let lessee = &mut leases.entry(place).or_default().lessee;
        if let Some(units) = lessee.borrow(terms, self.setting.fleet.nodes, sent) {
            let life = self.lives[place.0 as usize];
            self.send(Mail::Borrow { place, life, units, sent });
        }
    }

    pub(super) fn lend(&mut self, (place, life): (Place, u64), units: u64, sent: Timestamp) {
        let (at, state) = (self.store_now(), self.store.entry(place.1).or_insert(ScriptState::New));
        let decision = self.setting.whole.decide(state, at, units);
        let lent = if decision.is_allowed() {
            let met = state.clone();
            *state = self.setting.whole.take(state, at, units);
            Ok(Grant { sent, at, met, units })
        } else {
            Err(decision)
        };
        self.send_back(Mail::Lent { place, life, lent });
    }

    pub(super) fn lent(&mut self, (place, life): (Place, u64), lent: Result<Grant, Decision>) {
        let now = self.node_now(place.0);
        let (Hands::Leases(leases), Some(terms)) = (&mut self.hands, &self.setting.terms) else {
            return;
        };
        if self.lives[place.0 as usize] != life {
            // What was lent to a node that crashed meanwhile is lost like what it had in hand.
            self.log.lost += lent.map_or(0, |grant| grant.units);
            return;
        }
        let lease = leases.entry(place).or_default();
        let returns = match lent {
            Ok(grant) => lease.lessee.lease_granted(terms, grant, now),
            Err(decision) => {
                lease.lessee.lease_denied(&decision);
                return;
            }
        };
        let watched = std::mem::replace(&mut lease.watched, true);
        returns.into_iter().for_each(|back| self.send(Mail::Back(place.1, back)));
        if !watched {
            self.look_after(place, life);
        }
    }

    /// Gives back what has ended, and looks again when the next does.
    pub(super) fn look_after(&mut self, place: Place, life: u64) {
        let now = self.node_now(place.0);
        let (Hands::Leases(leases), Some(terms)) = (&mut self.hands, &self.setting.terms) else {
            return;
        };
        let lease = match leases.get_mut(&place) {
            Some(lease) if self.lives[place.0 as usize] == life => lease,
            _ => return,
        };
        let returns = lease.lessee.ended(terms, now);
        let next = lease.lessee.purse().ends(terms);
        lease.watched = next.is_some();
        returns.into_iter().for_each(|back| self.send(Mail::Back(place.1, back)));
        if let Some(ends) = next {
            let wait = nanos(ends.saturating_since(now)).max(1);
            self.post(self.now.saturating_add(wait), Mail::Look(place, life));
        }
    }
}
