//! A request of rules that block or only report, refused again without asking.
//!
//! What the script says of such a request while it is refused follows from the states that the request
//! met and from the blocks of its keys. Once these are known here, the answer is worked out here: also
//! what rules in shadow report. Where the script would change something, by blocking a key that is
//! not blocked yet, it is asked.

use std::time::Duration;

use tollgate::port::ScriptState;

use super::RedisGate;
use super::decide::{GateCall, GateMode, RuleReply, StoreReply};
use crate::across::SlotReplies;
use crate::denied::{CacheSlot, CachedState};
use crate::error::StoreError;

/// Where what is met is kept.
pub(super) struct CachedCharges {
    pub(super) charges: Vec<CacheSlot>,
    /// Of each rule whose block is read.
    blocks: Vec<Option<CacheSlot>>,
}

/// How a rule stands by what is known.
struct CachedRule {
    shadow: bool,
    /// For how long its key is blocked.
    left: Duration,
    /// Whether it has no room for the request, or never has.
    refuses: bool,
    /// Whether a cost can never be taken.
    is_invalid: bool,
    /// Whether it may have none and blocks for it.
    may_punish: bool,
}

impl RedisGate {
    /// Asks for all rules, unless it is known that they refuse.
    pub(super) async fn ask_unless_refused(
        &self,
        call: &GateCall<'_>,
    ) -> Result<StoreReply, StoreError> {
        let is_look = call.way == GateMode::Look;
        let places = match (!is_look).then(|| self.refused(call)) {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(places)) => places,
            None => CachedCharges { charges: Vec::new(), blocks: Vec::new() },
        };
        let answer = self.ask_all(call, &places).await;
        if is_look {
            // The next check agrees with it.
            let all = call.keys.iter().chain(call.blocks.iter().flatten());
            all.for_each(|key| self.0.store.denials().forget(key));
        } else if let Ok(answer) = &answer {
            self.learn(call, &places, answer);
        }
        answer
    }

    /// The refusal, if what is known here is enough for it.
    pub(super) fn refused(&self, call: &GateCall<'_>) -> Result<StoreReply, CachedCharges> {
        let denials = self.0.store.denials();
        let asked = call.asked(0..call.keys.len());
        let (known, charges) = denials.known(&asked);
        let mut is_known = known.len() == asked.len();
        let (mut blocks, mut lefts) = (Vec::new(), Vec::new());
        for (rule, key) in call.planned.rules().iter().zip(&call.blocks) {
            let punishment = &call.names.rule(rule.number()).punishment;
            let found = key.as_ref().map(|key| denials.block(key, punishment));
            let (left, place) =
                found.map_or((Some(Duration::ZERO), None), |(left, place)| (left, Some(place)));
            is_known &= left.is_some();
            lefts.push(left.unwrap_or_default());
            blocks.push(place);
        }
        if !is_known || !call.is_refused(&known, &lefts) {
            return Err(CachedCharges { charges, blocks });
        }
        denials.count_answered();
        let states: Vec<(u64, ScriptState)> =
            known.into_iter().map(|known| (known.now, known.state)).collect();
        let told = |left: &Duration| RuleReply {
            taken: false,
            was_blocked: !left.is_zero(),
            blocked: *left,
        };
        Ok(StoreReply {
            across: SlotReplies { fits: false, may_be_learned: false, states },
            told: lefts.iter().map(told).collect(),
            claims: Vec::new(),
        })
    }

    /// Keeps what a refused request met, and of any request who is blocked now.
    fn learn(&self, call: &GateCall<'_>, places: &CachedCharges, answer: &StoreReply) {
        let (denials, across) = (self.0.store.denials(), &answer.across);
        self.keep_blocks(call, &answer.told);
        if across.fits {
            denials.outdate(&places.charges);
        }
        if !across.may_be_learned {
            // Some of them may be blocked now that were not.
            call.blocks.iter().flatten().for_each(|key| denials.forget(key));
            return;
        }
        if !across.fits {
            denials.learn_across(&call.asked(0..call.keys.len()), &places.charges, across);
        }
        for (place, told) in places.blocks.iter().zip(&answer.told) {
            if let Some(place) = place {
                denials.learn_block(place, told.blocked);
            }
        }
    }
}

impl GateCall<'_> {
    /// Whether the request is refused, and asking would change nothing.
    fn is_refused(&self, known: &[CachedState], lefts: &[Duration]) -> bool {
        let stands: Vec<CachedRule> =
            lefts.iter().enumerate().map(|(rule, left)| self.stand(rule, known, *left)).collect();
        let enforced = || stands.iter().filter(|stand| !stand.shadow);
        // Who is blocked already is denied for that, and for nothing else.
        if enforced().any(|stand| !stand.left.is_zero()) {
            return true;
        }
        // A request with an invalid cost blocks no key.
        let may_punish = self.way == GateMode::Take && !enforced().any(|stand| stand.is_invalid);
        let punishes = may_punish && stands.iter().any(|stand| stand.may_punish);
        !punishes && enforced().any(|stand| stand.refuses)
    }

    fn stand(&self, rule: usize, known: &[CachedState], left: Duration) -> CachedRule {
        let planned = &self.planned.rules()[rule];
        let punishes = planned.rule(self.planned).block.is_some();
        let (refuses, is_invalid, may_punish) = (false, false, false);
        let mut stand =
            CachedRule { shadow: planned.shadow, left, refuses, is_invalid, may_punish };
        for charge in self.charges_of(&(rule..rule + 1)) {
            let CachedState { now, state, may_refuse } = &known[charge];
            let is_possible = self.is_possible(charge);
            let fits = is_possible && self.peek(charge, &(*now, state.clone())).is_allowed();
            stand.is_invalid |= !is_possible;
            stand.refuses |= !is_possible || (!fits && *may_refuse);
            // It may have been emptied since where its figures are old.
            let may_deny = is_possible && (!fits || !may_refuse);
            stand.may_punish |= may_deny && punishes && left.is_zero();
        }
        stand
    }
}
