//! What a request comes to under a policy, for a store elsewhere that keeps the state and decides.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::compiled::{LimitSet, ListMatch};
use super::decide::GateAnswer;
use super::resolve::{AppliedRule, ResolvedRequest};
use super::ruling::RequestError;
use super::told::{ChargeResult, RuledCharge};
use super::{ActivePolicy, Gate, Ruling};
use crate::bounds::SHOWN_VALUE;
use crate::decision::Decision;
use crate::engine::{Evaluation, EvaluationMode, RuleObservation, evaluate};
use crate::limit::Limit;
use crate::policy::{Policy, Request, Rule};
use crate::port::key_bytes;

/// A request with the rules that apply to it, to be decided by another store.
pub struct RequestPlan {
    in_force: Arc<ActivePolicy>,
    /// What it comes to whatever the limits say.
    settled: Option<EarlyOutcome>,
    rules: Vec<PlannedRule>,
}

enum EarlyOutcome {
    Listed(ListMatch),
    Wrong(RequestError),
}

/// A rule that applies to a request.
#[derive(Clone)]
pub struct PlannedRule {
    number: u32,
    terms: LimitSet,
    /// Its key, written so that no two are alike.
    pub key: Vec<u8>,
    /// How many units the request takes.
    pub cost: u64,
    /// How much more each unit is that the request settles later; 0 where it makes no difference.
    pub per_unit: u64,
    /// Whether it only reports.
    pub shadow: bool,
}

/// What another store says of a planned rule.
#[derive(Debug, Default)]
pub struct RuleReplies {
    /// For how long its key is blocked from now on; zero if it is not.
    pub blocked: Duration,
    /// Whether it was blocked before the request.
    pub was_blocked: bool,
    /// What became of each of its limits.
    pub decisions: Vec<Decision>,
    /// Whether its units were borrowed before.
    pub leased: bool,
}

impl Gate {
    /// What `request` comes to, for a store elsewhere.
    #[doc(hidden)]
    pub fn plan(&self, request: &Request<'_>) -> RequestPlan {
        RequestPlan::new(self.0.in_force.load_full(), request)
    }
}

impl RequestPlan {
    fn new(in_force: Arc<ActivePolicy>, request: &Request<'_>) -> RequestPlan {
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(&in_force, request, &mut texts, &mut room);
        let mut rules = Vec::new();
        let settled = match (resolved.list(), resolved.rules()) {
            (Some(list), _) => Some(EarlyOutcome::Listed(list)),
            (None, Err((attribute, value))) => {
                let attribute = in_force.compiled.attributes.name(attribute).to_owned();
                let value = value.chars().take(SHOWN_VALUE).collect();
                Some(EarlyOutcome::Wrong(RequestError::CostNotANumber { attribute, value }))
            }
            (None, Ok(applied)) => {
                // What only reports comes last, as in a ruling.
                for shadow in [false, true] {
                    let some = applied.iter().filter(|applied| applied.rule.shadow == shadow);
                    rules.extend(some.map(PlannedRule::new));
                }
                None
            }
        };
        RequestPlan { in_force, settled, rules }
    }

    /// The policy it was planned under.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.in_force.compiled.policy
    }

    /// The rules that apply, those that only report last; none where the limits do not matter.
    pub fn rules(&self) -> &[PlannedRule] {
        &self.rules
    }

    /// The same request under some of its rules: what is left to ask where the others are known.
    #[must_use]
    pub fn only(&self, is_meant: impl Fn(usize) -> bool) -> RequestPlan {
        let meant = self.rules.iter().enumerate().filter(|(place, _)| is_meant(*place));
        let rules = meant.map(|(_, rule)| rule.clone()).collect();
        // What the limits do not decide has no rules.
        RequestPlan { in_force: self.in_force.clone(), settled: None, rules }
    }

    /// The ruling that follows from what the store says of each rule, in the order of
    /// [`rules`](Self::rules).
    pub fn ruling(&self, answers: &[RuleReplies]) -> Ruling {
        let mut told: Vec<ChargeResult> = Vec::new();
        for (rule, answer) in self.rules.iter().zip(answers) {
            let ruled = |limit| {
                let ruled = RuledCharge::new(rule.number, limit, rule.shadow, answer.blocked);
                if answer.leased { ruled.leased() } else { ruled }
            };
            if rule.terms.is_empty() && !answer.blocked.is_zero() {
                told.push(ChargeResult { ruled: ruled(0), decision: Decision::UNLIMITED });
            }
            told.extend(rule.terms.iter().zip(&answer.decisions).map(|(named, decision)| {
                ChargeResult { ruled: ruled(named.number), decision: *decision }
            }));
        }
        let answer = match &self.settled {
            Some(EarlyOutcome::Listed(kind)) => GateAnswer::Listed(*kind),
            Some(EarlyOutcome::Wrong(error)) => GateAnswer::Wrong(Box::new(error.clone())),
            None => self.evaluate(answers).into(),
        };
        let mut ruling = Ruling::open(Guard::from_inner(Arc::clone(&self.in_force)));
        ruling.charges.set_decided(&told);
        ruling.answer(answer);
        ruling
    }

    /// Evaluates what the store says of each rule. It has charged and blocked already, so that only the
    /// answer to the request matters.
    fn evaluate(&self, answers: &[RuleReplies]) -> Evaluation {
        let observe = |(rule, answer): (&PlannedRule, &RuleReplies)| RuleObservation {
            is_shadow: rule.shadow,
            is_blocked: answer.was_blocked,
            has_block_for: false,
            limits: answer.decisions.iter().collect(),
        };
        evaluate(EvaluationMode::Charge, self.rules.iter().zip(answers).map(observe))
    }

    /// How many units of the request every rule that applies has, by a ruling on one unit.
    pub fn units_left(&self, ruling: &Ruling) -> u64 {
        let units = |rule: u32, remaining: u64| {
            let planned = self.rules.iter().find(|planned| planned.number == rule)?;
            // A rule with a cost of its own has room for any number of units, or for none.
            let any = if planned.cost <= remaining { u64::MAX } else { 0 };
            Some(remaining.checked_div(planned.per_unit).unwrap_or(any))
        };
        let enforced = ruling.told().filter(|charge| !charge.ruled.shadow);
        let most = enforced.filter_map(|charge| units(charge.ruled.rule, charge.remaining())).min();
        most.unwrap_or(if ruling.is_allowed() { u64::MAX } else { 0 })
    }
}

impl PlannedRule {
    fn new(applied: &AppliedRule<'_>) -> PlannedRule {
        let mut key = Vec::new();
        key_bytes(&applied.key, &mut key);
        PlannedRule {
            number: applied.number,
            terms: applied.terms.clone(),
            key,
            cost: applied.price.cost,
            per_unit: applied.price.per_unit,
            shadow: applied.rule.shadow,
        }
    }

    /// Where the policy has it.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// The rule itself.
    pub fn rule<'p>(&self, planned: &'p RequestPlan) -> &'p Rule {
        &planned.policy().rules[self.number()]
    }

    /// Its limits for this request, each with a number of its own among all limits of the gate.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = (u32, &Limit)> {
        self.terms.iter().map(|named| (named.number, &named.limit))
    }
}

impl std::fmt::Debug for RequestPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planned").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}
