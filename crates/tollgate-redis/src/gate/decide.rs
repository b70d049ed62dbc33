//! From a planned request to one call of the script, and from its answer to a ruling.

use std::ops::Range;
use std::time::Duration;

use tollgate::port::{PlannedRule, RequestPlan, RuleReplies, ScriptState};
use tollgate::{Decision, Ruling};

use super::RedisGate;
use super::hold::ScaledRedisReservation;
use super::names::PolicyKeys;
use super::refused::CachedCharges;
use crate::across::SlotReplies;
use crate::bounds::MAX_RULE_CHARGES;
use crate::error::StoreError;
use crate::limiter::RedisLimiter;
use crate::request::{CallOptions, ScriptCharge, ScriptMode, ScriptReservation, ScriptRules};
use crate::reservation::{OpenRedisReservation, RedisReservation};
use crate::script::PackedReader;

/// Whether charges are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateMode {
    Take,
    /// Takes, and a denial blocks nobody.
    Try,
    /// Takes nothing, and blocks whoever is denied.
    Punish,
    Look,
}

/// What a request asks for: the charges of each rule, one after the other.
pub(super) struct GateCall<'p> {
    pub(super) planned: &'p RequestPlan,
    pub(super) names: &'p PolicyKeys,
    pub(super) way: GateMode,
    /// Until when what is taken is reserved, if it is.
    pub(super) timeout: Option<Duration>,
    limiters: Vec<RedisLimiter>,
    pub(super) keys: Vec<Vec<u8>>,
    costs: Vec<u64>,
    /// The key of each rule's block, if it is to be read.
    pub(super) blocks: Vec<Option<Vec<u8>>>,
}

/// What came of it.
pub(super) struct StoreReply {
    /// Of every charge.
    pub(super) across: SlotReplies,
    /// Of every rule.
    pub(super) told: Vec<RuleReply>,
    /// What is reserved, maybe with charges that were not taken.
    pub(super) claims: Vec<OpenRedisReservation>,
}

/// What the script says of a rule.
#[derive(Clone, Copy, Default)]
pub(super) struct RuleReply {
    pub(super) taken: bool,
    pub(super) was_blocked: bool,
    pub(super) blocked: Duration,
}

impl RedisGate {
    /// Decides a planned request; with a time-out, what it takes is reserved.
    pub(super) async fn decide(
        &self,
        planned: &RequestPlan,
        way: GateMode,
        timeout: Option<Duration>,
    ) -> Result<(Ruling, Vec<ScaledRedisReservation>), StoreError> {
        let (answers, claims) = self.answers(planned, way, timeout).await?;
        Ok((planned.ruling(&answers), claims))
    }

    /// What the store says of each rule of a planned request, and what is reserved.
    pub(super) async fn answers(
        &self,
        planned: &RequestPlan,
        way: GateMode,
        timeout: Option<Duration>,
    ) -> Result<(Vec<RuleReplies>, Vec<ScaledRedisReservation>), StoreError> {
        let names = self.names(planned.policy());
        let mut call = self.call(planned, &names)?;
        (call.way, call.timeout) = (way, timeout);
        let blocks = call.blocks.iter().flatten();
        if call.keys.is_empty() && blocks.clone().next().is_none() {
            let nothing = planned.rules().iter().map(|_| RuleReplies::default());
            return Ok((nothing.collect(), Vec::new()));
        }
        let reports = planned.rules().iter().any(|rule| rule.shadow) && way != GateMode::Look;
        let is_plain = blocks.clone().next().is_none() && !reports && timeout.is_none();
        let answer = if is_plain {
            self.ask_plainly(&call).await?
        } else {
            self.ask_unless_refused(&call).await?
        };
        call.told(answer)
    }

    /// The ruling on a planned request, if it is known here that it is refused.
    pub(super) fn refuse(&self, planned: &RequestPlan) -> Result<Option<Ruling>, StoreError> {
        let names = self.names(planned.policy());
        let mut call = self.call(planned, &names)?;
        call.way = GateMode::Take;
        let refused = self.refused(&call).ok().map(|answer| call.told(answer)).transpose()?;
        Ok(refused.map(|(answers, _)| planned.ruling(&answers)))
    }

    /// Asks for all rules with their blocks, wherever they lie.
    pub(super) async fn ask_all(
        &self,
        call: &GateCall<'_>,
        places: &CachedCharges,
    ) -> Result<StoreReply, StoreError> {
        let blocks = call.blocks.iter().flatten();
        if self.0.store.is_one_place(call.keys.iter().chain(blocks).map(Vec::as_slice)) {
            let rules = 0..call.planned.rules().len();
            match self.ask_rules(call, rules, call.way).await {
                // While a slot is moved, its keys cannot be asked for together.
                Err(StoreError::SlotMigrating(_)) => {}
                answer => return answer,
            }
        }
        // The charges by themselves are not refused by what is known here: it was not enough.
        self.0.store.denials().ask_anew(&places.charges);
        // Boxed, since it is large and rare: every check would carry it otherwise.
        Box::pin(self.ask_each(call)).await
    }

    fn call<'p>(
        &self,
        planned: &'p RequestPlan,
        names: &'p PolicyKeys,
    ) -> Result<GateCall<'p>, StoreError> {
        let mut call = GateCall {
            planned,
            names,
            way: GateMode::Look,
            timeout: None,
            limiters: Vec::with_capacity(planned.rules().len()),
            keys: Vec::with_capacity(planned.rules().len()),
            costs: Vec::with_capacity(planned.rules().len()),
            blocks: Vec::with_capacity(planned.rules().len()),
        };
        for rule in planned.rules() {
            let from = call.limiters.len();
            names.limiters(&self.0.store, rule, &mut call.limiters)?;
            for limiter in &call.limiters[from..] {
                call.keys.push(limiter.inner.prefix.written(&rule.key));
                call.costs.push(rule.cost);
            }
            let of_rule = names.rule(rule.number());
            let block = (rule.rule(planned).block.is_some() || self.0.shared.any_by_hand())
                .then(|| of_rule.blocks.written(&rule.key))
                .filter(|key| rule.rule(planned).block.is_some() || self.0.shared.by_hand(key));
            call.blocks.push(block);
        }
        if call.keys.len().max(planned.rules().len()) > MAX_RULE_CHARGES {
            return Err(StoreError::InvalidRequest(format!(
                "a request has {} rules and {} charges, must be at most {MAX_RULE_CHARGES}",
                planned.rules().len(),
                call.keys.len()
            )));
        }
        Ok(call)
    }

    /// The call of most requests: charges that are taken together, and nothing else.
    async fn ask_plainly(&self, call: &GateCall<'_>) -> Result<StoreReply, StoreError> {
        let charges = 0..call.keys.len();
        let possible = charges.clone().all(|charge| call.is_possible(charge));
        let mode = if possible && call.way != GateMode::Look {
            ScriptMode::Take
        } else {
            ScriptMode::Look
        };
        let mut across = self.0.store.ask_across(&call.asked(charges), mode).await?;
        across.fits &= mode == ScriptMode::Take;
        let told = RuleReply { taken: across.fits, ..RuleReply::default() };
        let told = vec![told; call.planned.rules().len()];
        Ok(StoreReply { across, told, claims: Vec::new() })
    }

    /// Asks for some of the rules, with one call of the script.
    pub(super) async fn ask_rules(
        &self,
        call: &GateCall<'_>,
        rules: Range<usize>,
        way: GateMode,
    ) -> Result<StoreReply, StoreError> {
        let store = &self.0.store;
        let asked = call.asked(call.charges_of(&rules));
        let timeout = call.timeout.filter(|_| matches!(way, GateMode::Take | GateMode::Try));
        let claims: Vec<OpenRedisReservation> = match timeout {
            Some(_) => {
                asked.iter().map(|charge| OpenRedisReservation::new(store, charge)).collect()
            }
            None => Vec::new(),
        };
        let hold = timeout.map(|timeout| ScriptReservation::of(&claims, timeout));
        let packed = call.packed(rules.clone(), way, hold.is_some());
        let blocks = call.blocks[rules.clone()].iter().flatten().cloned().collect();
        let mode = if way == GateMode::Look { ScriptMode::Look } else { ScriptMode::Take };
        let rules_of = ScriptRules { packed, blocks };
        let how = CallOptions { hold: hold.as_ref(), rules: Some(&rules_of), ..mode.into() };
        let met = store.ask(&asked, how).await?;
        let told = RuleReply::read(&met.rules, rules.len());
        let told = told.ok_or_else(|| StoreError::Script("its answer lacks a rule".to_owned()))?;
        let mut across = SlotReplies::of(met);
        // A caller's reservation cannot tell what requests on their way hold from what other callers
        // hold for as long as itself.
        across.may_be_learned |= hold.is_some();
        Ok(StoreReply { across, told, claims })
    }
}

impl GateCall<'_> {
    /// The numbers of the rules' charges.
    pub(super) fn charges_of(&self, rules: &Range<usize>) -> Range<usize> {
        let count = |rules: &[PlannedRule]| rules.iter().map(|rule| rule.limits().len()).sum();
        let from: usize = count(&self.planned.rules()[..rules.start]);
        let own: usize = count(&self.planned.rules()[rules.clone()]);
        from..from + own
    }

    pub(super) fn asked(&self, charges: impl Iterator<Item = usize>) -> Vec<ScriptCharge<'_>> {
        let asked = charges.map(|charge| ScriptCharge {
            limiter: &self.limiters[charge].inner,
            key: self.keys[charge].clone(),
            cost: self.costs[charge],
        });
        asked.collect()
    }

    pub(super) fn is_possible(&self, charge: usize) -> bool {
        self.limiters[charge].inner.is_possible(self.costs[charge])
    }

    /// Whether every rule that is not in shadow can ever have room for its costs.
    pub(super) fn is_valid(&self) -> bool {
        let rules = self.planned.rules().iter().enumerate().filter(|(_, rule)| !rule.shadow);
        let charges = rules.flat_map(|(number, _)| self.charges_of(&(number..number + 1)));
        charges.into_iter().all(|charge| self.is_possible(charge))
    }

    /// What a charge comes to by itself, taking nothing.
    pub(super) fn peek(&self, charge: usize, (now, state): &(u64, ScriptState)) -> Decision {
        self.limiters[charge].inner.terms.ported.peek(state, *now, self.costs[charge])
    }

    /// What each rule says, and what is reserved.
    fn told(
        &self,
        answer: StoreReply,
    ) -> Result<(Vec<RuleReplies>, Vec<ScaledRedisReservation>), StoreError> {
        let answers = self.answers(&answer);
        self.agree(&answer, &answers)?;
        let claims = self.claims(answer, &answers);
        Ok((answers, claims))
    }

    /// Which charges are whose, as the script reads it.
    fn packed(&self, rules: Range<usize>, way: GateMode, holds: bool) -> Vec<u8> {
        let way = match way {
            GateMode::Take => b't',
            GateMode::Try => b'r',
            GateMode::Punish => b'p',
            GateMode::Look => b'l',
        };
        let mut charges = self.charges_of(&rules);
        let mut packed = vec![way, low(charges.len()), u8::from(holds), low(rules.len())];
        let mut blocks = 0;
        for number in rules {
            let rule = &self.planned.rules()[number];
            let has_block = self.blocks[number].is_some();
            blocks += usize::from(has_block);
            let block = if has_block { low(blocks) } else { 0 };
            packed.extend([low(rule.limits().len()), u8::from(rule.shadow), block]);
            packed.extend_from_slice(&self.names.rule(rule.number()).punishment);
            let own = charges.by_ref().take(rule.limits().len());
            packed.extend(own.map(|charge| u8::from(!self.is_possible(charge))));
        }
        packed
    }

    /// Each rule's answer: the figures are worked out from the states that the script met.
    fn answers(&self, answer: &StoreReply) -> Vec<RuleReplies> {
        let mut charge = 0;
        let rules = self.planned.rules().iter().zip(&answer.told);
        let answers = rules.map(|(rule, told)| {
            let charges = charge..charge + rule.limits().len();
            charge = charges.end;
            let decide = |of: usize| -> Decision {
                let (now, state) = &answer.across.states[of];
                match told.taken {
                    true => {
                        let ported = &self.limiters[of].inner.terms.ported;
                        ported.decide(state, *now, self.costs[of])
                    }
                    false => self.peek(of, &answer.across.states[of]),
                }
            };
            RuleReplies {
                blocked: told.blocked,
                was_blocked: told.was_blocked,
                decisions: charges.map(decide).collect(),
                leased: false,
            }
        });
        answers.collect()
    }

    /// The script decides and the library tells: should they ever differ, neither is to be trusted.
    fn agree(&self, answer: &StoreReply, answers: &[RuleReplies]) -> Result<(), StoreError> {
        let passes = |answer: &RuleReplies| {
            !answer.was_blocked && answer.decisions.iter().all(Decision::is_allowed)
        };
        let rules = || self.planned.rules().iter().zip(answers);
        let enforced = rules().filter(|(rule, _)| !rule.shadow).all(|(_, answer)| passes(answer));
        let allowed = enforced && self.way != GateMode::Look;
        let mut reported = rules().zip(&answer.told).filter(|((rule, _), _)| rule.shadow);
        let agrees = |((_, answer), told): ((_, &RuleReplies), &RuleReply)| {
            told.taken == (allowed && passes(answer))
        };
        if answer.across.fits == allowed && reported.all(agrees) {
            return Ok(());
        }
        Err(StoreError::Script("it decided otherwise than its state says".to_owned()))
    }

    /// What was reserved.
    fn claims(&self, answer: StoreReply, answers: &[RuleReplies]) -> Vec<ScaledRedisReservation> {
        let StoreReply { told, claims, .. } = answer;
        let rules = self.planned.rules().iter().zip(told).zip(answers);
        let charges = rules.flat_map(|((rule, told), answer)| {
            answer.decisions.iter().map(move |decision| (rule.per_unit, told.taken, *decision))
        });
        let taken = self.keys.iter().zip(charges).filter(|(_, (_, taken, _))| *taken);
        let own = |key: &Vec<u8>| claims.iter().find(|claim| claim.key == *key).cloned();
        let reserved = taken.filter_map(|(key, (per_unit, _, decision))| {
            Some(ScaledRedisReservation {
                reservation: RedisReservation::new(decision, own(key)?),
                per_unit,
            })
        });
        reserved.collect()
    }
}

impl RuleReply {
    fn read(bytes: &[u8], rules: usize) -> Option<Vec<RuleReply>> {
        let mut told = Vec::with_capacity(rules);
        for chunk in bytes.chunks(9) {
            let [taken, was_blocked, blocked @ ..] = chunk else { return None };
            let blocked = Duration::from_micros(PackedReader(blocked).number()?);
            told.push(RuleReply { taken: *taken == 1, was_blocked: *was_blocked == 1, blocked });
        }
        (told.len() == rules).then_some(told)
    }
}

/// A number that was checked to be small, as a byte.
fn low(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
