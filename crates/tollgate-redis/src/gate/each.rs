//! A request whose rules lie in several slots of a Cluster, where no call can decide it as a whole.
//!
//! The keys of a rule lie together, with its block. So blocks are looked at first, rule by rule; then
//! the rules that deny take all or none of their charges, as any request over several slots does; and
//! then who is denied is blocked, and each rule in shadow takes its own.

use futures_util::future::{join_all, try_join_all};
use tollgate::port::ScriptState;

use super::RedisGate;
use super::decide::{GateCall, GateMode, RuleReply, StoreReply};
use crate::across::{SlotClaims, SlotReplies};
use crate::error::StoreError;
use crate::request::ScriptMode;
use crate::reservation::OpenRedisReservation;

/// What one rule came to: of each charge the time and the state, and what the script said.
struct SlotPart {
    states: Vec<(u64, ScriptState)>,
    may_be_learned: bool,
    told: RuleReply,
    claims: Vec<OpenRedisReservation>,
}

impl From<StoreReply> for SlotPart {
    fn from(answer: StoreReply) -> SlotPart {
        let StoreReply { across: SlotReplies { states, may_be_learned, .. }, told, claims } =
            answer;
        SlotPart { states, may_be_learned, told: told.first().copied().unwrap_or_default(), claims }
    }
}

impl RedisGate {
    /// Decides a request rule by rule.
    pub(super) async fn ask_each(&self, call: &GateCall<'_>) -> Result<StoreReply, StoreError> {
        let rules = call.planned.rules();
        let is_enforced = |number: &usize| !rules[*number].shadow;
        let enforced: Vec<usize> = (0..rules.len()).filter(is_enforced).collect();
        let has_block = enforced.iter().any(|rule| call.blocks[*rule].is_some());
        if call.way == GateMode::Look || has_block {
            let looks =
                (0..rules.len()).map(|rule| self.ask_rules(call, rule..rule + 1, GateMode::Look));
            let parts: Vec<SlotPart> =
                try_join_all(looks).await?.into_iter().map(SlotPart::from).collect();
            let is_barred = enforced.iter().any(|rule| parts[*rule].told.was_blocked);
            if call.way == GateMode::Look || is_barred {
                return Ok(together(false, parts));
            }
        }
        let charges: Vec<usize> =
            enforced.iter().flat_map(|rule| call.charges_of(&(*rule..*rule + 1))).collect();
        let (taken, held) = self.take_enforced(call, &charges).await?;
        let mut states: Vec<Option<(u64, ScriptState)>> =
            (0..call.charges_of(&(0..rules.len())).end).map(|_| None).collect();
        for (charge, state) in charges.iter().zip(taken.states) {
            states[*charge] = Some(state);
        }
        let ends = (0..rules.len()).map(|rule| {
            let own = states[call.charges_of(&(rule..rule + 1))].iter().flatten().cloned();
            self.end_rule(call, rule, own.collect(), taken.fits)
        });
        let parts: Vec<SlotPart> = join_all(ends).await;
        let mut answer = together(taken.fits, parts);
        answer.across.may_be_learned &= taken.may_be_learned;
        answer.claims.extend(held.into_claims());
        Ok(answer)
    }

    /// Takes the charges of the rules that deny, all or none.
    async fn take_enforced(
        &self,
        call: &GateCall<'_>,
        charges: &[usize],
    ) -> Result<(SlotReplies, SlotClaims), StoreError> {
        let (store, asked) = (&self.0.store, call.asked(charges.iter().copied()));
        let possible = charges.iter().all(|charge| call.is_possible(*charge));
        match call.timeout {
            _ if asked.is_empty() => {
                let nothing = SlotReplies { fits: true, may_be_learned: true, states: Vec::new() };
                Ok((nothing, SlotClaims::default()))
            }
            Some(timeout) if possible => store.reserve_across(&asked, timeout).await,
            _ => {
                let mode = if possible { ScriptMode::Take } else { ScriptMode::Look };
                let mut across = store.ask_across(&asked, mode).await?;
                across.fits &= possible;
                Ok((across, SlotClaims::default()))
            }
        }
    }

    /// What is left to do of a rule once it is known whether the request passes, which nothing here
    /// changes any more: what the store does not answer now is left undone.
    async fn end_rule(
        &self,
        call: &GateCall<'_>,
        rule: usize,
        states: Vec<(u64, ScriptState)>,
        passes: bool,
    ) -> SlotPart {
        let may_block =
            call.way == GateMode::Take && call.blocks[rule].is_some() && call.is_valid();
        if call.planned.rules()[rule].shadow {
            let way = match (passes, may_block) {
                (true, _) => call.way,
                (false, true) => GateMode::Punish,
                (false, false) => GateMode::Look,
            };
            return match self.ask_rules(call, rule..rule + 1, way).await {
                Ok(answer) => answer.into(),
                Err(_) => self.unknown(call, rule, passes),
            };
        }
        let mut told = RuleReply { taken: passes, ..RuleReply::default() };
        let charges = call.charges_of(&(rule..rule + 1));
        let is_denied = charges.zip(&states).any(|(charge, state)| {
            call.is_possible(charge) && !call.peek(charge, state).is_allowed()
        });
        if may_block
            && is_denied
            && let Ok(answer) = self.ask_rules(call, rule..rule + 1, GateMode::Punish).await
        {
            told.blocked = SlotPart::from(answer).told.blocked;
        }
        SlotPart { states, may_be_learned: true, told, claims: Vec::new() }
    }

    /// A rule in shadow that nothing is known of reports what it would of a new key.
    fn unknown(&self, call: &GateCall<'_>, rule: usize, passes: bool) -> SlotPart {
        let new = (self.0.store.now_micros(), ScriptState::New);
        let mut charges = call.charges_of(&(rule..rule + 1));
        let states = vec![new.clone(); charges.len()];
        let fits = charges.all(|charge| call.peek(charge, &new).is_allowed());
        let told = RuleReply { taken: passes && fits, ..RuleReply::default() };
        SlotPart { states, may_be_learned: false, told, claims: Vec::new() }
    }
}

/// What the rules came to, in their order.
fn together(fits: bool, parts: Vec<SlotPart>) -> StoreReply {
    let mut answer = StoreReply {
        across: SlotReplies { fits, may_be_learned: true, states: Vec::new() },
        told: Vec::with_capacity(parts.len()),
        claims: Vec::new(),
    };
    for part in parts {
        answer.across.states.extend(part.states);
        answer.across.may_be_learned &= part.may_be_learned;
        answer.told.push(part.told);
        answer.claims.extend(part.claims);
    }
    answer
}
