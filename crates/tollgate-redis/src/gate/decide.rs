//! From a planned request to one call of the script, and from its answer to a ruling.

use std::time::Duration;

use tollgate::port::{Planned, RuleAnswer};
use tollgate::{Decision, Ruling};

use super::RedisGate;
use super::hold::Scaled;
use super::names::Names;
use crate::bounds::{MAX_RESERVATION, MAX_RULE_CHARGES};
use crate::error::StoreError;
use crate::limiter::RedisLimiter;
use crate::request::{Asked, Hold, How, Met, Mode, Rules};
use crate::reservation::{Claim, RedisReservation};
use crate::script::{Packed, Unpacked};

/// Whether charges are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Take,
    /// Takes, and a denial blocks nobody.
    Try,
    Look,
}

/// What a call asks for: the charges of each rule, one after the other.
struct Call<'p> {
    planned: &'p Planned,
    limiters: Vec<RedisLimiter>,
    keys: Vec<Vec<u8>>,
    costs: Vec<u64>,
    blocks: Vec<Vec<u8>>,
    /// For each rule the number of its block's key, from 1; 0 for none.
    block_of: Vec<u8>,
}

/// What the script says of a rule.
struct Told {
    taken: bool,
    was_blocked: bool,
    blocked: Duration,
}

impl RedisGate {
    /// Decides a planned request; with a time-out, what it takes is reserved.
    pub(super) async fn decide(
        &self,
        planned: &Planned,
        way: Way,
        timeout: Option<Duration>,
    ) -> Result<(Ruling, Vec<Scaled>), StoreError> {
        let names = self.names(planned.policy());
        let call = self.call(planned, &names)?;
        if call.keys.is_empty() && call.blocks.is_empty() {
            let nothing = planned.rules().iter().map(|_| RuleAnswer::default());
            return Ok((planned.ruling(&nothing.collect::<Vec<_>>()), Vec::new()));
        }
        let reports = planned.rules().iter().any(|rule| rule.shadow) && way != Way::Look;
        let is_plain = call.blocks.is_empty() && !reports && timeout.is_none();
        let (met, told, tickets) = if is_plain {
            self.ask_plainly(&call, way).await?
        } else {
            self.ask_rules(&call, &names, way, timeout).await?
        };
        let answers = call.answers(&met, &told);
        call.agree(&met, &told, &answers, way)?;
        let ruling = planned.ruling(&answers);
        Ok((ruling, call.claims(&told, &answers, &tickets)))
    }

    fn call<'p>(&self, planned: &'p Planned, names: &Names) -> Result<Call<'p>, StoreError> {
        let mut call = Call {
            planned,
            limiters: Vec::with_capacity(planned.rules().len()),
            keys: Vec::with_capacity(planned.rules().len()),
            costs: Vec::with_capacity(planned.rules().len()),
            blocks: Vec::new(),
            block_of: Vec::with_capacity(planned.rules().len()),
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
            call.blocks.extend(block.clone());
            call.block_of.push(if block.is_some() { low(call.blocks.len()) } else { 0 });
        }
        if call.keys.len().max(planned.rules().len()) > MAX_RULE_CHARGES {
            return Err(StoreError::Request(format!(
                "a request has {} rules and {} charges, must be at most {MAX_RULE_CHARGES}",
                planned.rules().len(),
                call.keys.len()
            )));
        }
        Ok(call)
    }

    /// The call of most requests: charges that are taken together, and nothing else.
    async fn ask_plainly(
        &self,
        call: &Call<'_>,
        way: Way,
    ) -> Result<(Met, Vec<Told>, Vec<[u8; 8]>), StoreError> {
        let possible = (0..call.keys.len()).all(|charge| call.is_possible(charge));
        let mode = if possible && way != Way::Look { Mode::Take } else { Mode::Look };
        let mut met = self.0.store.ask(&call.asked(), mode).await?;
        met.fits &= mode == Mode::Take;
        let told = || Told { taken: met.fits, was_blocked: false, blocked: Duration::ZERO };
        let told = call.planned.rules().iter().map(|_| told()).collect();
        Ok((met, told, Vec::new()))
    }

    async fn ask_rules(
        &self,
        call: &Call<'_>,
        names: &Names,
        way: Way,
        timeout: Option<Duration>,
    ) -> Result<(Met, Vec<Told>, Vec<[u8; 8]>), StoreError> {
        let packed = call.packed(names, way, timeout.is_some());
        let rules = Rules { packed, blocks: call.blocks.clone() };
        let tickets: Vec<[u8; 8]> = timeout.map_or(Vec::new(), |_| {
            call.keys.iter().map(|_| self.0.store.next_ticket().to_be_bytes()).collect()
        });
        let hold = timeout.map(|timeout| call.hold(&tickets, timeout));
        let mode = if way == Way::Look { Mode::Look } else { Mode::Take };
        let how = How { mode, hold: hold.as_ref(), rules: Some(&rules) };
        let met = self.0.store.ask(&call.asked(), how).await?;
        let told = Told::read(&met.rules, call.planned.rules().len());
        let told = told.ok_or_else(|| StoreError::Script("its answer lacks a rule".to_owned()))?;
        Ok((met, told, tickets))
    }
}

impl Call<'_> {
    fn asked(&self) -> Vec<Asked<'_>> {
        let keys = self.keys.iter().zip(&self.costs);
        let charges = self.limiters.iter().zip(keys);
        let asked = charges.map(|(limiter, (key, cost))| Asked {
            limiter: &limiter.inner,
            key: key.clone(),
            cost: *cost,
        });
        asked.collect()
    }

    fn is_possible(&self, charge: usize) -> bool {
        self.limiters[charge].is_possible(self.costs[charge])
    }

    /// Which charges are whose, as the script reads it.
    fn packed(&self, names: &Names, way: Way, holds: bool) -> Vec<u8> {
        let rules = self.planned.rules();
        let way = match way {
            Way::Take => b't',
            Way::Try => b'r',
            Way::Look => b'l',
        };
        let mut packed = vec![way, low(self.keys.len()), u8::from(holds), low(rules.len())];
        let mut charge = 0;
        for (rule, block) in rules.iter().zip(&self.block_of) {
            let charges = rule.limits().len();
            packed.extend([low(charges), u8::from(rule.shadow), *block]);
            packed.extend_from_slice(&names.rule(rule.number()).punishment);
            let never = (charge..charge + charges).map(|of| u8::from(!self.is_possible(of)));
            packed.extend(never);
            charge += charges;
        }
        packed
    }

    fn hold(&self, tickets: &[[u8; 8]], timeout: Duration) -> Hold {
        let charges = self.limiters.iter().zip(&self.costs).zip(tickets);
        let tickets = charges.map(|((limiter, cost), ticket)| {
            let packed = Packed::default().bytes(ticket).bytes(&cost.to_be_bytes());
            packed.bytes(&limiter.inner.terms.amount(*cost).0).0
        });
        let timeout = timeout.min(MAX_RESERVATION).as_micros().to_string();
        Hold { timeout, tickets: tickets.collect() }
    }

    /// Each rule's answer: the figures are worked out from the states that the script met.
    fn answers(&self, met: &Met, told: &[Told]) -> Vec<RuleAnswer> {
        let mut charge = 0;
        let rules = self.planned.rules().iter().zip(told);
        let answers = rules.map(|(rule, told)| {
            let charges = charge..charge + rule.limits().len();
            charge = charges.end;
            let decide = |of: usize| -> Decision {
                let ported = &self.limiters[of].inner.terms.ported;
                match told.taken {
                    true => ported.decide(&met.states[of], met.now, self.costs[of]),
                    false => ported.peek(&met.states[of], met.now, self.costs[of]),
                }
            };
            RuleAnswer {
                blocked: told.blocked,
                was_blocked: told.was_blocked,
                decisions: charges.map(decide).collect(),
            }
        });
        answers.collect()
    }

    /// The script decides and the library tells: should they ever differ, neither is to be trusted.
    fn agree(
        &self,
        met: &Met,
        told: &[Told],
        answers: &[RuleAnswer],
        way: Way,
    ) -> Result<(), StoreError> {
        let passes = |answer: &RuleAnswer| {
            !answer.was_blocked && answer.decisions.iter().all(Decision::is_allowed)
        };
        let rules = || self.planned.rules().iter().zip(answers);
        let enforced = rules().filter(|(rule, _)| !rule.shadow).all(|(_, answer)| passes(answer));
        let allowed = enforced && way != Way::Look;
        let mut reported = rules().zip(told).filter(|((rule, _), _)| rule.shadow);
        let agrees = |((_, answer), told): ((_, &RuleAnswer), &Told)| {
            told.taken == (allowed && passes(answer))
        };
        if met.fits == allowed && reported.all(agrees) {
            return Ok(());
        }
        Err(StoreError::Script("it decided otherwise than its state says".to_owned()))
    }

    /// What was reserved.
    fn claims(self, told: &[Told], answers: &[RuleAnswer], tickets: &[[u8; 8]]) -> Vec<Scaled> {
        let rules = self.planned.rules().iter().zip(told).zip(answers);
        let taken = rules.flat_map(|((rule, told), answer)| {
            answer.decisions.iter().map(move |decision| (rule.per_unit, told.taken, *decision))
        });
        let charges = self.limiters.into_iter().zip(self.keys).zip(self.costs);
        let claims = charges.zip(tickets).zip(taken).filter(|(_, (_, taken, _))| *taken);
        let claims = claims.map(|((((limiter, key), cost), ticket), (per_unit, _, decision))| {
            let claim = Claim { limiter, key, ticket: *ticket, cost };
            Scaled { reservation: RedisReservation::new(decision, claim), per_unit }
        });
        claims.collect()
    }
}

impl Told {
    fn read(bytes: &[u8], rules: usize) -> Option<Vec<Told>> {
        let mut told = Vec::with_capacity(rules);
        for chunk in bytes.chunks(9) {
            let [taken, was_blocked, blocked @ ..] = chunk else { return None };
            let blocked = Duration::from_micros(Unpacked(blocked).number()?);
            told.push(Told { taken: *taken == 1, was_blocked: *was_blocked == 1, blocked });
        }
        (told.len() == rules).then_some(told)
    }
}

/// A number that was checked to be small, as a byte.
fn low(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
