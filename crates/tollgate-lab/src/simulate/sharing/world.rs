//! Nodes, a store, and what is on its way between them.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::port::{Grant, LeaseRefund, ScriptState};
use tollgate::{Decision, Timestamp};

use super::hands::{Hands, Place};
use super::{Setting, Sharing};
use crate::simulate::tries::Try;
use crate::simulate::{nanos, tally};

/// What happened.
#[derive(Default)]
pub(super) struct Log {
    pub(super) offered: u64,
    pub(super) tries: u64,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    /// How often the store was asked or told something.
    pub(super) calls: u64,
    /// Whose key, at which microsecond of the store's clock, and how many units.
    pub(super) admissions: Vec<(u32, u64, u64)>,
    /// How often each node was asked, and what it admitted.
    pub(super) nodes: Vec<[u64; 2]>,
    /// The most units that other nodes had in hand when somebody was refused.
    pub(super) stranded: u64,
    /// Units that nodes had in hand when they crashed.
    pub(super) lost: u64,
}

/// How long a node remembers at most that the store has refused: as a gate on Redis does.
const REMEMBER_NANOS: u64 = 1_000_000_000;

/// A request on its way to an answer.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    asked: Try,
    pub(super) cost: u64,
    pub(super) place: Place,
    pub(super) life: u64,
}

/// What is on its way, or is to happen.
pub(super) enum Mail {
    Ask(Asked),
    Answer(Asked, Decision),
    Borrow {
        place: Place,
        life: u64,
        units: u64,
        sent: Timestamp,
    },
    Lent {
        place: Place,
        life: u64,
        lent: Result<Grant, Decision>,
    },
    Back(u32, LeaseRefund),
    /// A lease may have ended.
    Look(Place, u64),
    /// It is time to tell the store.
    Tell(Place, u64),
    Told {
        place: Place,
        life: u64,
        units: u64,
    },
    Heard {
        place: Place,
        life: u64,
        state: ScriptState,
    },
    Crash(u32),
}

pub(super) struct World<'a> {
    pub(super) setting: &'a Setting<'a>,
    latency: u64,
    pub(super) hands: Hands,
    /// What the store has of each key.
    pub(super) store: BTreeMap<u32, ScriptState>,
    /// Nanoseconds since the start.
    pub(super) now: u64,
    mail: BTreeMap<(u64, u64), Mail>,
    posted: u64,
    /// How often each node has crashed: what was meant for its former self is nobody's.
    pub(super) lives: Vec<u64>,
    refused: Vec<(Try, (u64, Option<u64>))>,
    /// From which cost on, and until when, nodes know that the store refuses.
    denials: BTreeMap<Place, (u64, u64)>,
    remember_for: u64,
    /// How long the parts of the time are in which stranded units are counted once, and the next.
    slot: u64,
    count_from: u64,
    pub(super) log: Log,
}

impl<'a> World<'a> {
    pub(super) fn new(setting: &'a Setting<'a>, way: Sharing, length: u64) -> World<'a> {
        let nodes = usize::try_from(setting.fleet.nodes).unwrap_or(1);
        World {
            setting,
            latency: nanos(setting.fleet.latency),
            hands: Hands::of(way),
            store: BTreeMap::new(),
            now: 0,
            mail: BTreeMap::new(),
            posted: 0,
            lives: vec![0; nodes],
            refused: Vec::new(),
            denials: BTreeMap::new(),
            remember_for: REMEMBER_NANOS,
            slot: tally::slot_length(length),
            count_from: 0,
            log: Log { nodes: vec![[0; 2]; nodes], ..Log::default() },
        }
    }

    /// One gate that knows all at once.
    pub(super) fn exact(setting: &'a Setting<'a>) -> World<'a> {
        World { latency: 0, remember_for: 0, ..World::new(setting, Sharing::Strict, u64::MAX) }
    }

    /// When something arrives.
    pub(super) fn due(&self) -> Option<u64> {
        self.mail.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn crash_at(&mut self, at: u64, node: u64) {
        let node = u32::try_from(node % self.setting.fleet.nodes).unwrap_or(0);
        self.post(at, Mail::Crash(node));
    }

    /// Who was refused since this was last asked, when they heard of it, and what.
    pub(super) fn refused(&mut self) -> Vec<(Try, (u64, Option<u64>))> {
        std::mem::take(&mut self.refused)
    }

    pub(super) fn end(self) -> Log {
        self.log
    }

    /// A request comes to a node.
    pub(super) fn arrive(&mut self, asked: Try, cost: u64, node: u32) {
        self.now = asked.at;
        self.log.tries += 1;
        self.log.offered += u64::from(asked.number == 1);
        self.log.nodes[node as usize][0] += 1;
        let key = if self.setting.together { 0 } else { asked.client };
        let place = (node, key);
        let asked = Asked { asked, cost, place, life: self.lives[node as usize] };
        match &mut self.hands {
            Hands::None => self.ask(asked),
            Hands::Leases(_) => self.ask_lease(asked),
            Hands::Copies(_) => self.ask_copy(asked),
            Hands::Parts(_) => self.ask_part(asked),
        }
    }

    /// The next thing that is on its way arrives.
    pub(super) fn deliver(&mut self) {
        let Some(((at, _), mail)) = self.mail.pop_first() else { return };
        self.now = at;
        match mail {
            Mail::Ask(asked) => {
                let decision = self.decide(asked.place.1, asked.cost);
                self.send_back(Mail::Answer(asked, decision));
            }
            Mail::Answer(asked, decision) => self.answer(asked, &decision),
            Mail::Borrow { place, life, units, sent } => self.lend((place, life), units, sent),
            Mail::Lent { place, life, lent } => self.lent((place, life), lent),
            Mail::Back(key, back) => {
                let (at, state) =
                    (self.store_now(), self.store.entry(key).or_insert(ScriptState::New));
                *state = self.setting.whole.give_back(state, at, back);
            }
            Mail::Look(place, life) => self.look_after(place, life),
            Mail::Tell(place, life) => self.tell(place, life),
            Mail::Told { place, life, units } => {
                let state = self.charge(place.1, units);
                self.send_back(Mail::Heard { place, life, state });
            }
            Mail::Heard { place, life, state } => self.hear(place, life, state),
            Mail::Crash(node) => self.crash(node),
        }
    }

    // Every decision asks the store, unless it is known to refuse.

    pub(super) fn ask(&mut self, asked: Asked) {
        match self.denials.get(&asked.place) {
            Some((cost, until)) if asked.cost >= *cost && self.now < *until => {
                let wait = *until - self.now;
                self.refuse(asked, Some(wait));
            }
            _ => self.send(Mail::Ask(asked)),
        }
    }

    /// The store decides, and takes.
    fn decide(&mut self, key: u32, cost: u64) -> Decision {
        let (at, state) = (self.store_now(), self.store.entry(key).or_insert(ScriptState::New));
        let decision = self.setting.whole.decide(state, at, cost);
        if decision.is_allowed() {
            *state = self.setting.whole.take(state, at, cost);
            self.log.admissions.push((key, at, cost));
        }
        decision
    }

    fn answer(&mut self, asked: Asked, decision: &Decision) {
        if let Hands::Leases(leases) = &mut self.hands
            && self.lives[asked.place.0 as usize] == asked.life
        {
            leases.entry(asked.place).or_default().lessee.met(decision);
            self.borrow(asked.place);
        }
        if let Some(wait) = decision.retry_after()
            && !decision.is_allowed()
        {
            // It was true when the store answered, which is a while ago.
            let wait = nanos(wait).min(self.remember_for);
            let until = (self.now + wait).saturating_sub(self.latency - self.latency / 2);
            self.denials.insert(asked.place, (asked.cost, until));
        }
        self.count(asked, decision);
    }

    /// Counts what a request was told; of what was admitted the moment is in the list already.
    pub(super) fn count(&mut self, asked: Asked, decision: &Decision) {
        if decision.is_allowed() {
            self.log.admitted += 1;
            self.log.nodes[asked.place.0 as usize][1] += 1;
        } else {
            self.refuse(asked, decision.retry_after().map(nanos));
        }
    }

    fn refuse(&mut self, asked: Asked, retry_after: Option<u64>) {
        self.log.refused += 1;
        if self.now >= self.count_from {
            self.count_from = self.now - self.now % self.slot + self.slot;
            self.log.stranded = self.log.stranded.max(self.held(asked.place));
        }
        self.refused.push((asked.asked, (self.now, retry_after)));
    }

    /// What other nodes than the one that refuses hold of a key and could give out.
    fn held(&self, (node, key): Place) -> u64 {
        let others = || (0..self.lives.len() as u64).filter(move |other| *other != u64::from(node));
        let place = |node: u64| (u32::try_from(node).unwrap_or(0), key);
        match &self.hands {
            Hands::None | Hands::Copies(_) => 0,
            Hands::Leases(leases) => others()
                .filter_map(|other| {
                    let lease = leases.get(&place(other))?;
                    Some(lease.lessee.purse().left(self.node_now(place(other).0)))
                })
                .sum(),
            Hands::Parts(parts) => others()
                .map(|other| {
                    let at = self.node_now(place(other).0).as_nanos() / 1000;
                    let state = parts.get(&place(other)).unwrap_or(&ScriptState::New);
                    self.setting.part.status(state, at).remaining()
                })
                .sum(),
        }
    }

    // Each node has its part.

    fn ask_part(&mut self, asked: Asked) {
        let at = self.node_now(asked.place.0).as_nanos() / 1000;
        let Hands::Parts(parts) = &mut self.hands else { return };
        let state = parts.entry(asked.place).or_insert(ScriptState::New);
        let decision = self.setting.part.decide(state, at, asked.cost);
        if decision.is_allowed() {
            *state = self.setting.part.take(state, at, asked.cost);
            self.log.admissions.push((asked.place.1, self.store_now(), asked.cost));
        }
        self.count(asked, &decision);
    }

    fn crash(&mut self, node: u32) {
        if let Hands::Leases(leases) = &self.hands {
            let now = self.node_now(node);
            let of_node = leases.range((node, 0)..=(node, u32::MAX));
            self.log.lost += of_node.map(|(_, lease)| lease.lessee.purse().left(now)).sum::<u64>();
        }
        self.hands.crash(node);
        self.denials.retain(|place, _| place.0 != node);
        self.lives[node as usize] += 1;
    }

    // Time, and what takes some.

    pub(super) fn send(&mut self, mail: Mail) {
        self.log.calls += 1;
        self.post(self.now.saturating_add(self.latency / 2), mail);
    }

    pub(super) fn send_back(&mut self, mail: Mail) {
        self.post(self.now.saturating_add(self.latency - self.latency / 2), mail);
    }

    pub(super) fn post(&mut self, at: u64, mail: Mail) {
        self.posted += 1;
        self.mail.insert((at, self.posted), mail);
    }

    /// What the store's clock shows, in microseconds.
    pub(super) fn store_now(&self) -> u64 {
        self.setting.start.saturating_add(Duration::from_nanos(self.now)).as_nanos() / 1000
    }

    pub(super) fn node_now(&self, node: u32) -> Timestamp {
        let start = self.setting.fleet.clock_of(node.into(), self.setting.start);
        start.saturating_add(Duration::from_nanos(self.now))
    }
}
