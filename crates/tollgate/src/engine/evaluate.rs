//! The meaning of blocks, shadow rules and modes: from what a store observed to what follows.
//!
//! A store observes every rule that applies to a request: is its key blocked, and what does each of its
//! limits say. [`evaluate`] decides from that alone. Lists are decided before, because they need no store.
//!
//! - A request is allowed if no enforced rule is blocked, has an invalid cost, or denies.
//! - An enforced rule takes if the request is allowed. A shadow rule takes if the request is allowed and
//!   it would allow the request itself.
//! - A rule with `block_for` starts a block if it denies, also in shadow, unless the request was stopped by
//!   an earlier block, or the cost of an enforced rule is invalid.
//! - For the reason, an invalid cost is stronger than a block, and a block is stronger than a limit.

use crate::decision::Decision;
use crate::gate::Reason;

/// What follows if the request is allowed or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvaluationMode {
    /// Takes if allowed. A denial starts blocks.
    Charge,
    /// Takes if allowed. A denial starts no block: of a request that takes fewer units if there are fewer.
    ChargeWithoutBlocking,
    /// Takes nothing and starts no block.
    Peek,
}

/// What the limits of one rule say of the request by themselves. A limit of another kind, such as one with
/// a reserve for more important requests, says the same with another comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitOutcomes {
    pub(crate) has_limits: bool,
    /// `true` if a limit denies.
    pub(crate) is_denied: bool,
    /// `true` if no state of a limit can fit the cost.
    pub(crate) is_invalid: bool,
}

impl<'d> FromIterator<&'d Decision> for LimitOutcomes {
    fn from_iter<I: IntoIterator<Item = &'d Decision>>(decisions: I) -> LimitOutcomes {
        decisions.into_iter().fold(LimitOutcomes::default(), |all, decision| LimitOutcomes {
            has_limits: true,
            is_denied: all.is_denied || !decision.is_allowed() && !decision.is_invalid(),
            is_invalid: all.is_invalid || decision.is_invalid(),
        })
    }
}

/// What a store observed of one rule, before anything was charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleObservation {
    pub(crate) is_shadow: bool,
    /// `true` if the key is blocked, manually or automatically.
    pub(crate) is_blocked: bool,
    /// `true` if the rule blocks keys that it denies.
    pub(crate) has_block_for: bool,
    pub(crate) limits: LimitOutcomes,
}

/// What follows for one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleVerdict {
    pub(crate) takes: bool,
    pub(crate) starts_block: bool,
}

/// What follows for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    pub(crate) is_allowed: bool,
    pub(crate) reason: Reason,
    /// `true` if rules take.
    takes: bool,
    /// `true` if denials start blocks.
    starts_blocks: bool,
}

/// Decides a request from what was observed of the rules that apply to it.
pub(crate) fn evaluate(
    mode: EvaluationMode,
    rules: impl IntoIterator<Item = RuleObservation>,
) -> Evaluation {
    let (mut is_blocked, mut limits) = (false, LimitOutcomes::default());
    for rule in rules.into_iter().filter(|rule| !rule.is_shadow) {
        is_blocked |= rule.is_blocked;
        limits.has_limits |= rule.limits.has_limits;
        limits.is_denied |= rule.limits.is_denied;
        limits.is_invalid |= rule.limits.is_invalid;
    }
    let is_allowed = !is_blocked && !limits.is_denied && !limits.is_invalid;
    let reason = match () {
        () if limits.is_invalid => Reason::InvalidRequest,
        () if is_blocked => Reason::Blocked,
        () if limits.has_limits => Reason::Limits,
        () => Reason::NoRule,
    };
    let starts_blocks = mode == EvaluationMode::Charge && !is_blocked && !limits.is_invalid;
    let takes = is_allowed && mode != EvaluationMode::Peek;
    Evaluation { is_allowed, reason, takes, starts_blocks }
}

impl Evaluation {
    /// Returns what follows for one of the rules.
    pub(crate) fn verdict(&self, rule: &RuleObservation) -> RuleVerdict {
        let starts_block = rule.has_block_for && !rule.is_blocked && rule.limits.is_denied;
        RuleVerdict {
            takes: self.takes && rule.is_allowed(),
            starts_block: self.starts_blocks && starts_block,
        }
    }
}

impl RuleObservation {
    /// `true` if the rule by itself allows the request.
    fn is_allowed(&self) -> bool {
        !self.is_blocked && !self.limits.is_denied && !self.limits.is_invalid
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const UNLIMITED: LimitOutcomes =
        LimitOutcomes { has_limits: false, is_denied: false, is_invalid: false };
    const ALLOWED: LimitOutcomes = LimitOutcomes { has_limits: true, ..UNLIMITED };
    const DENIED: LimitOutcomes = LimitOutcomes { is_denied: true, ..ALLOWED };
    const INVALID: LimitOutcomes = LimitOutcomes { is_invalid: true, ..DENIED };

    fn rule(limits: LimitOutcomes) -> RuleObservation {
        RuleObservation { is_shadow: false, is_blocked: false, has_block_for: true, limits }
    }

    fn shadow(limits: LimitOutcomes) -> RuleObservation {
        RuleObservation { is_shadow: true, ..rule(limits) }
    }

    fn blocked(rule: RuleObservation) -> RuleObservation {
        RuleObservation { is_blocked: true, ..rule }
    }

    /// The evaluation in short: allowed, why, and the numbers of the rules that take and start a block.
    fn short(
        mode: EvaluationMode,
        rules: &[RuleObservation],
    ) -> (bool, Reason, Vec<usize>, Vec<usize>) {
        let evaluation = evaluate(mode, rules.iter().copied());
        let numbers = |is_meant: fn(RuleVerdict) -> bool| {
            let is_meant = |number: &usize| is_meant(evaluation.verdict(&rules[*number]));
            (0..rules.len()).filter(is_meant).collect()
        };
        let (taking, blocking) = (numbers(|of| of.takes), numbers(|of| of.starts_block));
        (evaluation.is_allowed, evaluation.reason, taking, blocking)
    }

    #[test]
    fn request_without_limits_is_allowed_for_no_rule() {
        let charge = EvaluationMode::Charge;
        assert_eq!(short(charge, &[]), (true, Reason::NoRule, vec![], vec![]));
        let rules = [rule(UNLIMITED), shadow(DENIED)];
        assert_eq!(short(charge, &rules), (true, Reason::NoRule, vec![0], vec![1]));
        assert_eq!(
            short(charge, &[blocked(rule(UNLIMITED))]),
            (false, Reason::Blocked, vec![], vec![])
        );
    }

    #[test]
    fn shadow_rule_takes_only_what_it_allows_and_never_denies() {
        let rules = [rule(ALLOWED), shadow(ALLOWED), shadow(DENIED), blocked(shadow(ALLOWED))];
        let expected = (true, Reason::Limits, vec![0, 1], vec![2]);
        assert_eq!(short(EvaluationMode::Charge, &rules), expected);
    }

    #[test]
    fn denial_takes_nothing_and_blocks_where_it_was_denied() {
        let rules = [rule(ALLOWED), rule(DENIED), shadow(ALLOWED), shadow(DENIED)];
        let modes = [
            (EvaluationMode::Charge, vec![1, 3]),
            (EvaluationMode::ChargeWithoutBlocking, vec![]),
            (EvaluationMode::Peek, vec![]),
        ];
        for (mode, blocking) in modes {
            assert_eq!(short(mode, &rules), (false, Reason::Limits, vec![], blocking));
        }
    }

    #[test]
    fn blocked_request_and_request_with_an_invalid_cost_start_no_block() {
        let charge = EvaluationMode::Charge;
        let rules = [blocked(rule(ALLOWED)), rule(DENIED)];
        assert_eq!(short(charge, &rules), (false, Reason::Blocked, vec![], vec![]));
        let rules = [blocked(rule(INVALID)), rule(DENIED)];
        assert_eq!(short(charge, &rules), (false, Reason::InvalidRequest, vec![], vec![]));
        let rules = [rule(DENIED), shadow(INVALID)];
        assert_eq!(short(charge, &rules), (false, Reason::Limits, vec![], vec![0, 1]));
    }

    #[test]
    fn peek_says_what_a_charge_would_say_and_changes_nothing() {
        let rules = [rule(ALLOWED), shadow(DENIED)];
        assert_eq!(short(EvaluationMode::Peek, &rules), (true, Reason::Limits, vec![], vec![]));
    }
}
