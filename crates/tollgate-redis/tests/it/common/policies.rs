//! Policies and requests out of a seed.

use std::time::Duration;

use tollgate::{
    BlockPolicy, Cost, KeyAttribute, Limit, ListEntry, Override, Policy, Request, Rule, RuleLimits,
};

/// Numbers that are the same for the same seed.
#[derive(Debug)]
pub(crate) struct Dice {
    seed: u64,
    /// Whether the limits of a key may change. Then there are no reservations, which give back under
    /// the active limits here and under their own in memory.
    changes_numbers: bool,
}

const LIMITS: [&str; 17] = [
    "10/s burst 5",
    "4/s",
    "2/s burst 12",
    "60/min burst 3",
    "5/s leaky_bucket burst 4",
    "4/s leaky_bucket queue burst 3",
    "6/s fixed_window",
    "9/2s fixed_window align first",
    "20/min calendar",
    "7/s sliding_log",
    "12/2s sliding_log",
    "8/s sliding_counter",
    "5/500ms sliding_counter",
    "1/s",
    "2/s fixed_window",
    "3/s sliding_log",
    "3/s sliding_counter",
];

/// A request as it was made up.
#[derive(Debug)]
pub(crate) struct Asked {
    attributes: Vec<(&'static str, &'static str)>,
    cost: Option<u64>,
}

impl Asked {
    pub(crate) fn request(&self) -> Request<'_> {
        let request: Request<'_> = self.attributes.iter().copied().collect();
        self.cost.map_or(request.clone(), |cost| request.cost(cost))
    }

    pub(crate) fn user(&self) -> &'static str {
        self.attributes.iter().find(|(name, _)| *name == "user").map_or("ana", |(_, user)| user)
    }
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice { seed, changes_numbers: seed.is_multiple_of(2) }
    }

    /// Whether the limits of a key may change.
    pub(crate) fn changes_numbers(&self) -> bool {
        self.changes_numbers
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = usize::try_from(self.below(of.len() as u64)).expect("fewer than there are");
        of[at]
    }

    fn limit(&mut self) -> Limit {
        let text = self.pick(&LIMITS);
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub(crate) fn numbers(&mut self) -> RuleLimits {
        match self.below(8) {
            0 => RuleLimits::Unlimited,
            1 | 2 => RuleLimits::All(vec![self.limit(), self.limit()]),
            _ => self.limit().into(),
        }
    }

    fn rule(&mut self, number: usize) -> Rule {
        let mut rule = Rule::new(format!("rule-{number}"));
        rule.key = match self.below(5) {
            0 => Vec::new(),
            1 => vec!["tenant".into(), KeyAttribute::with_default("user", "nobody")],
            2 => vec!["tenant".into()],
            _ => vec!["user".into()],
        };
        rule.limits = self.numbers();
        if self.one_in(4) {
            rule = rule.matches("route", "/search");
        }
        if self.one_in(3) && self.changes_numbers() {
            let numbers = self.numbers();
            rule = rule.tier("pro", numbers);
        }
        rule.cost = match self.below(6) {
            0 => Cost::Units(1 + self.below(3)),
            1 => Cost::Attribute {
                name: "size".to_owned(),
                multiplier: 1 + self.below(2),
                default: 1,
            },
            _ => Cost::Request,
        };
        rule.shadow = self.one_in(4);
        if self.one_in(3) {
            let first = Duration::from_millis(1 + self.below(900));
            let factor = u32::try_from(1 + self.below(3)).unwrap_or(1);
            let most = if factor > 1 { first * 7 } else { first };
            rule.block = Some(BlockPolicy::fixed(first).escalating(factor, most));
        }
        rule
    }

    pub(crate) fn policy(&mut self) -> Policy {
        let count = usize::try_from(1 + self.below(4)).unwrap_or(1);
        let mut policy = Policy::new();
        for number in 0..count {
            let rule = self.rule(number);
            policy = policy.rule(rule);
        }
        if self.one_in(2) && self.changes_numbers() {
            let numbers = self.numbers();
            policy = policy.tier("free", "rule-0", numbers);
        }
        if self.one_in(3) && self.changes_numbers() {
            let numbers = self.numbers();
            policy = policy.override_client(Override::new("user", "eve").limits("rule-0", numbers));
        }
        if self.one_in(4) {
            policy = policy.allow(ListEntry::new("friends").matches("user", "kim"));
        }
        if self.one_in(4) {
            policy = policy.deny(ListEntry::new("foes").matches("tenant", "evil"));
        }
        if self.one_in(4) {
            policy.default_tier = Some("free".to_owned());
        }
        policy
    }

    /// The policy with one rule made anew.
    pub(crate) fn changed(&mut self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        let at = usize::try_from(self.below(policy.rules.len() as u64)).unwrap_or(0);
        policy.rules[at] = self.rule(at);
        policy
    }

    pub(crate) fn asked(&mut self) -> Asked {
        let mut attributes = vec![("user", self.pick(&["ana", "ben", "eve", "kim"]))];
        attributes.push(("tenant", self.pick(&["acme", "acme", "acme", "initech", "evil"])));
        attributes.push(("route", self.pick(&["/search", "/"])));
        if self.one_in(10) {
            attributes.remove(0);
        }
        if self.one_in(3) {
            attributes.push(("tier", self.pick(&["pro", "free", "gold"])));
        }
        if self.one_in(3) {
            attributes.push(("size", self.pick(&["1", "2", "3", "2", "0", "x", "1000"])));
        }
        let cost = match self.below(10) {
            0..6 => None,
            6..9 => Some(1 + self.below(4)),
            _ => Some(self.pick(&[0, 7, 13, 100, u64::MAX])),
        };
        Asked { attributes, cost }
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let micros = match self.below(10) {
            0..4 => 0,
            4..7 => self.below(5_000),
            7..9 => self.below(400_000),
            _ => self.below(4_000_000),
        };
        Duration::from_micros(micros)
    }
}
