//! Leases: units that this node has borrowed from the store, and spends without asking it.
//!
//! What is borrowed is charged at once, by the same call that takes any units, so that nothing is ever
//! spent that was not charged. When it may be spent, how much is borrowed and what may be given back
//! is in `tollgate::port`, which a simulator drives as well; here are the table, the calls and the
//! way of a request. A request takes what is in hand of every leased rule, and asks the store for the
//! others in one call; if those deny it, or there is no answer, it puts back what it took.

mod loan;
mod table;

use tollgate::port::{Payment, PlannedRule, RequestPlan, RuleReplies};
use tollgate::{Decision, Ruling};

use super::RedisGate;
use super::decide::GateMode;
use super::names::PolicyKeys;
use crate::error::StoreError;
pub(super) use table::Leases;
use table::{FollowUp, LeasedKey};

/// What a gate's leases have come to on this node, since it was built. The rest of what was borrowed has
/// ended unspent, or is on its way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Calls that borrowed, or tried to.
    pub borrows: u64,
    /// Units that were borrowed.
    pub borrowed: u64,
    /// Charges that were paid from what was in hand, without a call.
    pub charges: u64,
    /// Their units.
    pub spent: u64,
    /// Calls that gave back.
    pub returns: u64,
    /// Units that were to be given back.
    pub returned: u64,
    /// Units that could be spent now.
    pub available: u64,
}

/// A charge that was paid from what was in hand.
struct PaidCharge {
    /// Of the limit, among those of its rule.
    position: usize,
    lent: LeasedKey,
    spent: Payment,
    cost: u64,
}

/// What a request has from hand, by its rules; dropped before it is kept, all of it is put back.
struct LeasePayment<'g> {
    leases: &'g Leases,
    rules: Vec<Option<Vec<PaidCharge>>>,
    /// The keys of the other rules that are leased, with their rules' places and their own in them.
    asked: Vec<(usize, usize, LeasedKey)>,
    /// Whether it is spent for good, or put back.
    is_settled: bool,
}

impl LeasePayment<'_> {
    fn put_back(&mut self) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let all = self.rules.iter().flatten().flatten();
            all.for_each(|paid| self.leases.put_back(&paid.lent, &paid.spent, paid.cost));
        }
    }

    /// What each rule says that was paid from hand.
    fn answers(&self, decision: impl Fn(&PaidCharge) -> Decision) -> Vec<Option<RuleReplies>> {
        let answer = |paid: &Vec<PaidCharge>| RuleReplies {
            decisions: paid.iter().map(&decision).collect(),
            leased: true,
            ..RuleReplies::default()
        };
        self.rules.iter().map(|paid| paid.as_ref().map(answer)).collect()
    }
}

impl Drop for LeasePayment<'_> {
    fn drop(&mut self) {
        self.put_back();
    }
}

impl RedisGate {
    /// What was borrowed by this gate and what became of it.
    pub fn lease_counts(&self) -> LeaseStats {
        self.0.leases.get().map(Leases::counts).unwrap_or_default()
    }

    /// Of how many keys it knows what is in hand, some with nothing: for tests.
    #[doc(hidden)]
    pub fn leased_keys(&self) -> usize {
        self.0.leases.get().map_or(0, Leases::keys)
    }

    /// Gives back what this node has borrowed and not spent: for its end, when it is asked for
    /// nothing any more. Until then that happens by itself.
    pub async fn return_leases(&self) {
        if let Some(leases) = self.0.leases.get() {
            self.give_back(leases.empty()).await;
        }
    }

    /// The leases, if some rule has them.
    pub(super) fn leases(&self, names: &PolicyKeys) -> Result<Option<&Leases>, StoreError> {
        if names.shortest_lease().is_none() {
            return Ok(None);
        }
        if let Some(leases) = self.0.leases.get() {
            return Ok(Some(leases));
        }
        let made = Leases::new(&self.0.store)?;
        Ok(Some(self.0.leases.get_or_init(|| made)))
    }

    /// How many nodes share what is left: as many as were seen lately, or as was said.
    fn sharing(&self) -> u64 {
        match self.0.heartbeats.seen() {
            0 => self.nodes(),
            seen => seen,
        }
    }

    /// Decides a request, and takes what it costs, from hand where that has it.
    pub(super) async fn decide_and_take(
        &self,
        planned: &RequestPlan,
    ) -> Result<Ruling, StoreError> {
        let names = self.names(planned.policy());
        let Some(leases) = self.leases(&names)? else {
            return Ok(self.decide(planned, GateMode::Take, None).await?.0);
        };
        let mut hand = self.take_in_hand(leases, planned, &names)?;
        if hand.rules.iter().all(Option::is_some) {
            hand.is_settled = true;
            let answers = hand.answers(|paid| paid.spent.decision);
            return Ok(planned.ruling(&answers.into_iter().flatten().collect::<Vec<_>>()));
        }
        // Boxed, so that what is in hand does not carry its size.
        Box::pin(self.ask_for_the_rest(leases, planned, hand)).await
    }

    /// Takes from hand what it has for each rule whole.
    fn take_in_hand<'g>(
        &self,
        leases: &'g Leases,
        planned: &RequestPlan,
        names: &PolicyKeys,
    ) -> Result<LeasePayment<'g>, StoreError> {
        let rules = Vec::with_capacity(planned.rules().len());
        let mut hand = LeasePayment { leases, rules, asked: Vec::new(), is_settled: false };
        for rule in planned.rules() {
            // The store denies a key with a manual block, and decides a cost of 0.
            let paid = match rule.cost == 0 || self.may_be_blocked(names, rule) {
                true => None,
                false => self.pay(&mut hand, names, rule)?,
            };
            hand.rules.push(paid);
        }
        Ok(hand)
    }

    fn may_be_blocked(&self, names: &PolicyKeys, rule: &PlannedRule) -> bool {
        let shared = &self.0.shared;
        shared.any_by_hand() && shared.by_hand(&names.rule(rule.number()).blocks.written(&rule.key))
    }

    /// Pays all charges of a rule from hand, or none of them. Each is asked for, so that all are known to
    /// be hot.
    fn pay(
        &self,
        hand: &mut LeasePayment<'_>,
        names: &PolicyKeys,
        rule: &PlannedRule,
    ) -> Result<Option<Vec<PaidCharge>>, StoreError> {
        let (leases, place) = (hand.leases, hand.rules.len());
        let (cost, nodes) = (rule.cost, self.sharing());
        let mut all = Vec::with_capacity(rule.limits().len());
        for (position, lent) in self.lent(leases, names, rule).enumerate() {
            let Some(lent) = lent? else { continue };
            let (spent, then) = leases.spend(&lent, cost, nodes);
            self.follow_up(&lent, then);
            match spent {
                Some(spent) => all.push(PaidCharge { position, lent, spent, cost }),
                None => hand.asked.push((place, position, lent)),
            }
        }
        if all.len() == rule.limits().len() && !all.is_empty() {
            return Ok(Some(all));
        }
        for paid in all {
            leases.put_back(&paid.lent, &paid.spent, cost);
            hand.asked.push((place, paid.position, paid.lent));
        }
        Ok(None)
    }

    /// The keys of a rule's limits in the table; `None` for those that are not leased.
    fn lent<'a>(
        &'a self,
        leases: &'a Leases,
        names: &'a PolicyKeys,
        rule: &'a PlannedRule,
    ) -> impl Iterator<Item = Result<Option<LeasedKey>, StoreError>> + 'a {
        let is_leased = names.rule(rule.number()).leases(rule);
        let limits = rule.limits().enumerate();
        limits.map(move |(position, limit)| {
            if !is_leased {
                return Ok(None);
            }
            let counter = names.counter(&self.0.store, rule, position, limit)?;
            Ok(leases.lent(counter, &rule.key))
        })
    }

    /// Borrows and gives back in the background.
    fn follow_up(&self, lent: &LeasedKey, then: FollowUp) {
        if let Some(units) = then.borrow {
            self.spawn_borrow(lent.clone(), units);
        }
        self.spawn_give_back(then.back);
    }

    /// Asks the store for the rules that were not paid from hand, in one call.
    async fn ask_for_the_rest(
        &self,
        leases: &Leases,
        planned: &RequestPlan,
        mut hand: LeasePayment<'_>,
    ) -> Result<Ruling, StoreError> {
        // All of it, where nothing is in hand, as of keys that are cold.
        let is_some = hand.rules.iter().any(Option::is_some);
        let rest = is_some.then(|| planned.only(|place| hand.rules[place].is_none()));
        let rest = rest.as_ref().unwrap_or(planned);
        let (answers, _) = self.answers(rest, GateMode::Take, None).await?;
        let mut rules = rest.rules().iter().zip(&answers);
        let is_allowed = rules.all(|(rule, answer)| rule.shadow || passes(answer));
        hand.is_settled = is_allowed;
        self.learn_what_is_left(&mut hand, &answers);
        let of_hand = if is_allowed {
            hand.answers(|paid| paid.spent.decision)
        } else {
            // What its own rule allows and another kept from being taken is shown as it stands.
            hand.put_back();
            hand.answers(|paid| leases.look(&paid.lent, paid.cost).unwrap_or(paid.spent.decision))
        };
        Ok(planned.ruling(&together(of_hand, answers)))
    }

    /// What [`decide_and_take`](Self::decide_and_take) would say.
    pub(super) async fn decide_and_leave(
        &self,
        planned: &RequestPlan,
    ) -> Result<Ruling, StoreError> {
        let names = self.names(planned.policy());
        let Some(leases) = self.leases(&names)? else {
            return Ok(self.decide(planned, GateMode::Look, None).await?.0);
        };
        let mut of_hand = Vec::with_capacity(planned.rules().len());
        for rule in planned.rules() {
            of_hand.push(self.look_in_hand(leases, &names, rule)?);
        }
        let rest = planned.only(|place| of_hand[place].is_none());
        let answers = match rest.rules().is_empty() {
            true => Vec::new(),
            false => Box::pin(self.answers(&rest, GateMode::Look, None)).await?.0,
        };
        Ok(planned.ruling(&together(of_hand, answers)))
    }

    /// What a rule says that could be paid from hand.
    fn look_in_hand(
        &self,
        leases: &Leases,
        names: &PolicyKeys,
        rule: &PlannedRule,
    ) -> Result<Option<RuleReplies>, StoreError> {
        if rule.cost == 0 || self.may_be_blocked(names, rule) {
            return Ok(None);
        }
        let mut decisions = Vec::with_capacity(rule.limits().len());
        for lent in self.lent(leases, names, rule) {
            let Some(lent) = lent? else { return Ok(None) };
            let Some(decision) = leases.look(&lent, rule.cost) else { return Ok(None) };
            decisions.push(decision);
        }
        let leased = RuleReplies { decisions, leased: true, ..RuleReplies::default() };
        Ok((!leased.decisions.is_empty()).then_some(leased))
    }

    /// What the store says of a leased rule tells how much is left to borrow.
    fn learn_what_is_left(&self, hand: &mut LeasePayment<'_>, answers: &[RuleReplies]) {
        for (place, position, lent) in hand.asked.drain(..) {
            let before = hand.rules[..place].iter().filter(|rule| rule.is_none()).count();
            let decision = answers.get(before).and_then(|answer| answer.decisions.get(position));
            let Some(decision) = decision else { continue };
            if let Some(units) = hand.leases.met(&lent, decision, self.sharing()) {
                self.spawn_borrow(lent, units);
            }
        }
    }
}

/// What all rules say: those that were paid from hand, and the others in their order.
fn together(of_hand: Vec<Option<RuleReplies>>, asked: Vec<RuleReplies>) -> Vec<RuleReplies> {
    let mut asked = asked.into_iter();
    of_hand.into_iter().map(|own| own.or_else(|| asked.next()).unwrap_or_default()).collect()
}

fn passes(answer: &RuleReplies) -> bool {
    !answer.was_blocked && answer.decisions.iter().all(Decision::is_allowed)
}

#[cfg(test)]
mod tests;
