//! Nodes with leases over one store, and a network that does as it likes.
//!
//! The store is the algorithms themselves, under the only clock that counts. Every node has a clock
//! of its own, of no use to anybody else. Each message takes its time there and back, or is lost on
//! either way; a node that crashes forgets what it had in hand.

use std::collections::BTreeMap;

use tollgate_testkit::Admission;

use super::*;

/// What a message goes through. Waits in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) there: u64,
    pub(super) back: u64,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    LostThere,
    LostBack,
}

/// What a node does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Spends so many units out of what it has in hand.
    Spend(u64),
    /// Spends all of it, one by one.
    SpendAll,
    /// The same for a request that does not go ahead after all, which it knows so much later.
    Regret(u64, u64),
    /// Asks the store for a request.
    Ask(u64),
    /// Asks it for all it has.
    AskAll,
    /// Borrows so many units.
    Borrow(u64),
    /// Gives back what has ended.
    Sweep,
    /// Gives back everything.
    Stop,
    /// Loses everything, and goes on.
    Crash,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// How long after the step before, in microseconds.
    pub(super) wait: u64,
    pub(super) node: usize,
    pub(super) act: Act,
    pub(super) trip: Trip,
}

/// A mistake that somebody might make in driving the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,
    /// Gives back to the letter.
    RefundsToTheLetter,
    /// Counts a lease's time from the moment the answer came.
    CountsFromTheAnswer,
    /// Looks at the clock too early, and spends what has ended by then.
    SpendsLate,
    /// Gives back twice what it is not sure to have given back.
    ReturnsTwice,
}

struct Node {
    purse: Wallet,
    /// What its clock shows when the store's shows [`STORE`].
    clock: Timestamp,
    /// How often it has crashed: answers to its former self are nobody's.
    life: u64,
    /// When batches were charged, and in which window.
    charges: BTreeMap<u64, Charged>,
}

/// A charge of the store.
#[derive(Clone, Copy)]
struct Charged {
    at: u64,
    window_ends: u64,
}

/// What was admitted, in all.
#[derive(Default)]
pub(super) struct Admitted {
    /// When it was.
    pub(super) spent: Vec<Admission>,
    /// The same at the moments when the store was charged for it.
    pub(super) charged: Vec<Admission>,
}

enum Mail {
    Ask { cost: u64 },
    AskAll,
    Borrow { node: usize, life: u64, units: u64, sent: Timestamp, trip: Trip },
    Granted { node: usize, life: u64, grant: Grant },
    Back(LeaseRefund),
    Regret { node: usize, life: u64, spent: Payment },
}

pub(super) struct Fleet<'a> {
    terms: &'a LeaseTerms,
    mistake: Mistake,
    state: ScriptState,
    /// Microseconds since the beginning.
    now: u64,
    nodes: Vec<Node>,
    mail: BTreeMap<(u64, usize), Mail>,
    sent: usize,
    admitted: Admitted,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(terms: &'a LeaseTerms, nodes: usize, mistake: Mistake) -> Fleet<'a> {
        let node = |number: u64| Node {
            purse: Wallet::default(),
            // Days apart, and further than any lease is long.
            clock: NODE.saturating_add(Duration::from_secs(number * number * 100_003)),
            life: 0,
            charges: BTreeMap::new(),
        };
        Fleet {
            terms,
            mistake,
            state: ScriptState::New,
            now: 0,
            nodes: (0..nodes as u64).map(node).collect(),
            mail: BTreeMap::new(),
            sent: 0,
            admitted: Admitted::default(),
        }
    }

    /// Takes all steps, and waits for what is on its way.
    pub(super) fn run(mut self, steps: &[Step]) -> Admitted {
        for step in steps {
            let at = self.now + step.wait;
            self.deliver_until(at);
            self.now = at;
            self.act(step);
        }
        self.deliver_until(u64::MAX);
        self.admitted
    }

    fn deliver_until(&mut self, until: u64) {
        while let Some(first) = self.mail.first_entry()
            && first.key().0 <= until
        {
            let ((at, _), mail) = first.remove_entry();
            self.now = at;
            self.deliver(mail);
        }
    }

    fn act(&mut self, step: &Step) {
        let (number, trip) = (step.node % self.nodes.len(), step.trip);
        let now = self.node_now(number);
        match step.act {
            Act::Spend(cost) => {
                self.spend(number, cost);
            }
            Act::SpendAll => while self.spend(number, 1) {},
            Act::Regret(cost, later) => {
                let node = &mut self.nodes[number];
                if let Some(spent) = node.purse.spend(self.terms, cost, now) {
                    let life = node.life;
                    self.post(later, Mail::Regret { node: number, life, spent });
                }
            }
            Act::Ask(cost) => self.send(trip, Mail::Ask { cost }),
            Act::AskAll => self.send(trip, Mail::AskAll),
            Act::Borrow(units) => {
                let life = self.nodes[number].life;
                let mail = Mail::Borrow { node: number, life, units, sent: now, trip };
                self.send(trip, mail);
            }
            Act::Sweep => {
                let returns = self.nodes[number].purse.ended(self.terms, now);
                self.give_back(&returns, trip);
            }
            Act::Stop => {
                let returns = self.nodes[number].purse.empty(self.terms, now);
                self.give_back(&returns, trip);
            }
            Act::Crash => {
                let node = &mut self.nodes[number];
                (node.purse, node.life) = (Wallet::default(), node.life + 1);
            }
        }
    }

    fn deliver(&mut self, mail: Mail) {
        let store = STORE + self.now;
        match mail {
            Mail::Ask { cost } => {
                if let Some((_, charged)) = self.charge(cost) {
                    self.admit(cost, charged);
                }
            }
            Mail::AskAll => {
                let left = self.terms.limit().status(&self.state, store).remaining();
                self.deliver(Mail::Ask { cost: left });
            }
            Mail::Borrow { node, life, units, sent, trip } => {
                if let Some((met, _)) = self.charge(units)
                    && trip.fate != Fate::LostBack
                {
                    let grant = Grant { sent, at: store, met, units };
                    self.post(trip.back, Mail::Granted { node, life, grant });
                }
            }
            Mail::Granted { node, life, grant } => self.granted((node, life), grant),
            Mail::Back(back) => self.state = self.terms.limit().give_back(&self.state, store, back),
            Mail::Regret { node, life, spent } => {
                let now = self.node_now(node);
                if self.nodes[node].life == life {
                    self.nodes[node].purse.put_back(self.terms, &spent, now);
                }
            }
        }
    }

    /// Whether there was so much in hand.
    fn spend(&mut self, number: usize, cost: u64) -> bool {
        let moment = self.spending_moment(number);
        let spent = self.nodes[number].purse.spend(self.terms, cost, moment);
        if let Some(spent) = &spent {
            let charged = self.nodes[number].charges[&spent.batch()];
            self.admit(cost, charged);
        }
        spent.is_some()
    }

    fn granted(&mut self, (number, life): (usize, u64), grant: Grant) {
        let now = self.node_now(number);
        let (at, window_ends) = (grant.at, self.window_end(&grant.met, grant.at));
        let node = &mut self.nodes[number];
        if node.life != life {
            return;
        }
        let late = self.mistake == Mistake::CountsFromTheAnswer;
        let grant = if late { Grant { sent: now, ..grant } } else { grant };
        let returns = node.purse.add(self.terms, grant, now);
        node.charges.insert(node.purse.borrowed(), Charged { at, window_ends });
        self.give_back(&returns, Trip { there: 0, back: 0, fate: Fate::Arrives });
    }

    /// Charges the store, if it has so much: the state that was met, and the charge.
    fn charge(&mut self, units: u64) -> Option<(ScriptState, Charged)> {
        let (limit, at) = (self.terms.limit(), STORE + self.now);
        if !limit.decide(&self.state, at, units).is_allowed() {
            return None;
        }
        let met = self.state.clone();
        self.state = limit.take(&met, at, units);
        let window_ends = self.window_end(&met, at);
        Some((met, Charged { at, window_ends }))
    }

    fn window_end(&self, met: &ScriptState, at: u64) -> u64 {
        match self.terms.limit().take(met, at, 1) {
            ScriptState::FixedWindow { ends, .. } => ends,
            _ => u64::MAX,
        }
    }

    fn admit(&mut self, units: u64, Charged { at, window_ends }: Charged) {
        let spent = Admission { at: STORE + self.now, units, window_ends };
        self.admitted.spent.push(spent);
        self.admitted.charged.push(Admission { at, ..spent });
    }

    fn give_back(&mut self, returns: &[LeaseRefund], trip: Trip) {
        for back in returns {
            let mut back = *back;
            if self.mistake == Mistake::RefundsToTheLetter {
                back.moment = u64::MAX;
            }
            self.send(trip, Mail::Back(back));
            if self.mistake == Mistake::ReturnsTwice {
                self.send(trip, Mail::Back(back));
            }
        }
    }

    fn send(&mut self, trip: Trip, mail: Mail) {
        if trip.fate != Fate::LostThere {
            self.post(trip.there, mail);
        }
    }

    fn post(&mut self, after: u64, mail: Mail) {
        self.sent += 1;
        self.mail.insert((self.now + after, self.sent), mail);
    }

    fn node_now(&self, number: usize) -> Timestamp {
        self.nodes[number].clock.saturating_add(Duration::from_micros(self.now))
    }

    /// What a node takes for now when it spends.
    fn spending_moment(&self, number: usize) -> Timestamp {
        let now = self.node_now(number);
        if self.mistake != Mistake::SpendsLate {
            return now;
        }
        let late = 1000 * 4 * micros(self.terms.ttl());
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late))
    }
}
