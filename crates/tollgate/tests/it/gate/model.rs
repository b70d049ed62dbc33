//! A gate as the specification has it: a model for each limit of each rule and key, asked one
//! after the other.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{
    BlockPolicy, Cost, ManualClock, Outcome, Policy, Request, Rule, RuleLimits, Ruling, Timestamp,
};
use tollgate_testkit::{Answer, KeyModel};

type KeyOf = (String, Vec<String>);

pub(super) struct GateModel {
    policy: Policy,
    clock: ManualClock,
    limits: HashMap<(KeyOf, usize), KeyModel>,
    blocks: HashMap<KeyOf, Blocked>,
}

struct Blocked {
    until: Timestamp,
    times: u32,
    forgotten: Timestamp,
}

/// What one rule says, or the request as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) rule: String,
    pub(super) allowed: bool,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) retry_after: Option<Duration>,
    pub(super) reset_after: Duration,
    pub(super) delay: Duration,
    pub(super) shadow: bool,
}

/// What one limit says: the figures that are compared, and those of the limit without a block.
#[derive(Clone, Debug)]
struct LimitSaid {
    said: Said,
    own_wait: Option<Duration>,
    own_remaining: u64,
}

/// What a gate answers, all of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) allowed: bool,
    pub(super) decided: Option<Said>,
    pub(super) rules: Vec<Said>,
    pub(super) delay: Duration,
    pub(super) is_error: bool,
}

/// A request, and the cost it says, if it says one.
pub(super) struct Asked<'a> {
    pub(super) request: Request<'a>,
    pub(super) said: Option<u64>,
}

struct Applied {
    rule: Rule,
    key: KeyOf,
    numbers: RuleLimits,
    cost: u64,
    blocked: Duration,
}

impl GateModel {
    pub(super) fn new(policy: Policy, clock: ManualClock) -> GateModel {
        GateModel { policy, clock, limits: HashMap::new(), blocks: HashMap::new() }
    }

    pub(super) fn check(&mut self, asked: &Asked<'_>) -> Answered {
        self.decide(asked, true)
    }

    pub(super) fn peek(&mut self, asked: &Asked<'_>) -> Answered {
        self.decide(asked, false)
    }

    pub(super) fn refund(&mut self, asked: &Asked<'_>) {
        let now = self.clock.now().as_nanos();
        for applied in self.applied(asked).unwrap_or_default() {
            for (position, limit) in applied.numbers.limits().iter().enumerate() {
                let model = self.limits.entry((applied.key.clone(), position));
                let model = model.or_insert_with(|| KeyModel::new(limit));
                model.refund_under(limit, now, applied.cost);
            }
        }
    }

    pub(super) fn reset(&mut self, asked: &Asked<'_>) {
        for applied in self.applied(asked).unwrap_or_default() {
            self.limits.retain(|(key, _), _| *key != applied.key);
            self.blocks.remove(&applied.key);
        }
    }

    fn decide(&mut self, asked: &Asked<'_>, take: bool) -> Answered {
        let Some(applied) = self.applied(asked) else {
            let (rules, delay) = (Vec::new(), Duration::ZERO);
            return Answered { allowed: false, decided: None, rules, delay, is_error: true };
        };
        let (enforced, shadow): (Vec<_>, Vec<_>) =
            applied.into_iter().partition(|applied| !applied.rule.shadow);
        let blocked = enforced.iter().any(|applied| !applied.blocked.is_zero());
        let (take, punish) = (take && !blocked, take && !blocked);
        let mut all = self.decide_together(&enforced, take);
        let allowed = all.iter().all(|of| of.said.allowed);
        for applied in shadow {
            let takes = take && allowed && applied.blocked.is_zero();
            all.extend(self.decide_together(&[applied], takes));
        }
        let is_enforced = |of: &&LimitSaid| !of.said.shadow;
        let is_error = all.iter().filter(is_enforced).any(|of| of.said.retry_after.is_none());
        if punish && !is_error {
            self.punish(asked, &mut all);
        }
        let enforced: Vec<LimitSaid> = all.iter().filter(is_enforced).cloned().collect();
        let delay = enforced.iter().filter(|_| allowed).map(|of| of.said.delay).max();
        let names = all.iter().map(|of| of.said.rule.clone());
        let mut names: Vec<String> = names.collect();
        names.dedup();
        let of = |name: &String| all.iter().filter(|of| of.said.rule == *name).cloned().collect();
        let rules = names.iter().filter_map(|name| deciding(of(name))).collect();
        let delay = delay.unwrap_or_default();
        Answered { allowed, decided: deciding(enforced), rules, delay, is_error }
    }

    /// Looks at every limit; takes if all allow it, and then each says how it stands.
    fn decide_together(&mut self, rules: &[Applied], take: bool) -> Vec<LimitSaid> {
        let now = self.clock.now().as_nanos();
        let mut charges = Vec::new();
        for applied in rules {
            for (position, limit) in applied.numbers.limits().iter().enumerate() {
                let model = self.limits.entry((applied.key.clone(), position));
                let model = model.or_insert_with(|| KeyModel::new(limit));
                let answer = model.peek_under(limit, now, applied.cost);
                charges.push(((applied, position, limit), answer));
            }
        }
        let all = charges.iter().all(|(_, answer)| answer.is_allowed());
        let is_valid = charges.iter().all(|(_, answer)| answer.retry_after.is_some());
        let said = charges.into_iter().map(|((applied, position, limit), answer)| {
            let model = self.limits.get_mut(&(applied.key.clone(), position));
            let model = model.expect("looked at above");
            let mut answer = answer;
            if take && all {
                answer = model.check_under(limit, now, applied.cost);
            } else if take && is_valid && applied.cost > 0 {
                model.deny_under(limit, now);
            }
            said(applied, answer)
        });
        said.collect()
    }

    /// Blocks the keys of rules that have just denied and say so.
    fn punish(&mut self, asked: &Asked<'_>, all: &mut [LimitSaid]) {
        let now = self.clock.now();
        for applied in self.applied(asked).unwrap_or_default() {
            let own = |of: &LimitSaid| of.said.rule == applied.rule.name;
            let is_denied = |said: &Said| !said.allowed && said.retry_after.is_some();
            let denied = all.iter().any(|of| own(of) && is_denied(&of.said));
            let Some(block) = applied.rule.block.filter(|_| denied && applied.blocked.is_zero())
            else {
                continue;
            };
            let known = self.blocks.get(&applied.key).filter(|known| now < known.forgotten);
            let times = known.map_or(0, |known| known.times + 1);
            let length = length(&block, times);
            let until = now.saturating_add(length);
            let forgotten = if block.factor > 1 { until.saturating_add(block.max) } else { until };
            self.blocks.insert(applied.key.clone(), Blocked { until, times, forgotten });
            let own = all.iter_mut().filter(|of| own(of));
            own.for_each(|of| block_out(&mut of.said, length));
        }
    }

    /// The rules that apply; `None` where a cost that counts is no number.
    fn applied(&self, asked: &Asked<'_>) -> Option<Vec<Applied>> {
        let mut all = Vec::new();
        for rule in &self.policy.rules {
            let holds = rule.matches.iter().all(|(name, of)| of.matches(asked.request.get(name)));
            let values = rule.key.iter().map(|part| {
                asked
                    .request
                    .get(&part.attribute)
                    .map(str::to_owned)
                    .or_else(|| part.default.clone())
            });
            let (true, Some(key)) = (holds, values.collect::<Option<Vec<_>>>()) else { continue };
            let Some(cost) = cost(&rule.cost, asked) else {
                if rule.shadow { continue } else { return None }
            };
            let key = (rule.name.clone(), key);
            let until = self.blocks.get(&key).map(|blocked| blocked.until);
            let blocked =
                until.map_or(Duration::ZERO, |until| until.saturating_since(self.clock.now()));
            let (numbers, rule) = (self.numbers(rule, &asked.request), rule.clone());
            all.push(Applied { rule, key, numbers, cost, blocked });
        }
        Some(all)
    }

    fn numbers(&self, rule: &Rule, request: &Request<'_>) -> RuleLimits {
        let fits = |name: &String, value: &String| request.get(name) == Some(value);
        let own = self.policy.overrides.iter().find(|of| of.client.iter().all(|(n, v)| fits(n, v)));
        if let Some(numbers) = own.and_then(|own| own.limits.get(&rule.name)) {
            return numbers.clone();
        }
        let tier = own.and_then(|own| own.tier.as_deref());
        let tier = tier.or(request.get(&self.policy.tier_from));
        let Some(tier) = tier.or(self.policy.default_tier.as_deref()) else {
            return rule.limits.clone();
        };
        let shared = self.policy.tiers.get(tier).and_then(|rules| rules.get(&rule.name));
        rule.tiers.get(tier).or(shared).unwrap_or(&rule.limits).clone()
    }
}

/// A request's cost of 0 takes nothing of any rule; what the request says stands in for an
/// attribute; `None` is no number.
fn cost(cost: &Cost, asked: &Asked<'_>) -> Option<u64> {
    match (cost, asked.said) {
        (_, Some(0)) => Some(0),
        (Cost::Request, said) => Some(said.unwrap_or(1)),
        (Cost::Units(units), _) => Some(*units),
        (Cost::Attribute { multiplier, .. }, Some(said)) => Some(said.saturating_mul(*multiplier)),
        (Cost::Attribute { name, multiplier, default }, None) => {
            let text = asked.request.get(name);
            let value = text.map_or(Some(*default), |text| text.parse().ok())?;
            Some(value.saturating_mul(*multiplier))
        }
        (cost, _) => unreachable!("the model does not know {cost:?}"),
    }
}

fn length(block: &BlockPolicy, times: u32) -> Duration {
    let factor = u128::from(block.factor).saturating_pow(times);
    let nanos = block.first.as_nanos().saturating_mul(factor).min(block.max.as_nanos());
    Duration::from_nanos(u64::try_from(nanos).expect("no longer than the longest"))
}

fn said(applied: &Applied, answer: Answer) -> LimitSaid {
    let mut said = Said {
        rule: applied.rule.name.clone(),
        allowed: answer.outcome == Outcome::Allowed,
        limit: answer.limit,
        remaining: answer.remaining,
        retry_after: answer.retry_after,
        reset_after: answer.reset_after,
        delay: answer.delay,
        shadow: applied.rule.shadow,
    };
    block_out(&mut said, applied.blocked);
    LimitSaid { said, own_wait: answer.retry_after, own_remaining: answer.remaining }
}

fn block_out(said: &mut Said, blocked: Duration) {
    if !blocked.is_zero() {
        said.allowed = false;
        said.remaining = 0;
        said.retry_after = said.retry_after.map(|wait| wait.max(blocked));
        said.reset_after = said.reset_after.max(blocked);
        said.delay = Duration::ZERO;
    }
}

/// One that can never be, then the longest wait, then the smallest share left; the first of equals.
/// Of a blocked rule's limits that have equal waits for the block, the one that denies by itself.
/// The delay is the longest of the deciding rule's limits.
fn deciding(all: Vec<LimitSaid>) -> Option<Said> {
    let (limits, mut all) = (all.clone(), all);
    let share = |remaining: u64, of: &LimitSaid| u128::from(remaining) * u128::from(of.said.limit);
    if all.iter().any(|of| of.said.retry_after.is_none()) {
        all.retain(|of| of.said.retry_after.is_none());
    } else if all.iter().any(|of| !of.said.allowed) {
        all.retain(|of| !of.said.allowed);
        let longest = all.iter().map(|of| of.said.retry_after).max();
        all.retain(|of| Some(of.said.retry_after) == longest);
        let first = all.first()?.said.rule.clone();
        all.retain(|of| of.said.rule == first);
        all.sort_by(|a, b| {
            let by_wait = b.own_wait.cmp(&a.own_wait);
            by_wait.then(share(a.own_remaining, b).cmp(&share(b.own_remaining, a)))
        });
    } else {
        all.sort_by(|a, b| share(a.said.remaining, b).cmp(&share(b.said.remaining, a)));
    }
    let mut decided = all.into_iter().next()?.said;
    let own = limits.iter().filter(|of| of.said.rule == decided.rule);
    let delay = own.filter(|_| decided.allowed).map(|of| of.said.delay).max();
    decided.delay = delay.unwrap_or_default();
    Some(decided)
}

/// What a gate answered, in the same terms.
pub(super) fn answered(ruling: &Ruling) -> Answered {
    let rules = ruling.rules().map(|of| Said {
        rule: of.rule().to_owned(),
        allowed: of.is_allowed(),
        limit: of.limit(),
        remaining: of.remaining(),
        retry_after: of.retry_after(),
        reset_after: of.reset_after(),
        delay: of.delay(),
        shadow: of.is_shadow(),
    });
    let rules: Vec<Said> = rules.collect();
    let decided = ruling.decided_by_name().map(|rule| Said {
        rule: rule.to_owned(),
        allowed: rules.iter().any(|said| said.rule == rule && said.allowed),
        limit: ruling.limit(),
        remaining: ruling.remaining(),
        retry_after: match ruling.is_allowed() {
            true => Some(Duration::ZERO),
            false => ruling.retry_after(),
        },
        reset_after: ruling.reset_after(),
        delay: rules.iter().find(|said| said.rule == rule).map_or(Duration::ZERO, |of| of.delay),
        shadow: false,
    });
    Answered {
        allowed: ruling.is_allowed(),
        decided,
        rules,
        delay: ruling.delay(),
        is_error: ruling.error().is_some(),
    }
}
