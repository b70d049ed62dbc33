//! Random policies, and what happens under them.

use std::time::Duration;

use super::model::Asked;
use proptest::prelude::*;
use tollgate::{
    BlockPolicy, Condition, Cost, KeyAttribute, Limit, Override, Policy, Request, Rule, RuleLimits,
};
use tollgate_testkit::{NANO, any_limits, one_limit_of_each};

pub(super) const USERS: [&str; 4] = ["ana", "ben", "eve", "kim"];
pub(super) const ROUTES: [&str; 3] = ["/a", "/a/b", "/c"];
const TIERS: [&str; 3] = ["free", "pro", "internal"];

/// A move of the clock, and what is done with which request.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) idle: Duration,
    pub(super) act: Act,
    user: Option<&'static str>,
    route: Option<&'static str>,
    tokens: Option<&'static str>,
    tier: Option<&'static str>,
    cost: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Check,
    Peek,
    Refund,
    Reset,
}

impl Step {
    pub(super) fn request(&self) -> Request<'_> {
        self.asked().request
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        let attributes = [
            ("user", self.user),
            ("route", self.route),
            ("tokens", self.tokens),
            ("tier", self.tier),
        ];
        let known = attributes.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let request = known.collect::<Request<'_>>();
        let request = match self.cost {
            Some(cost) => request.cost(cost),
            None => request,
        };
        Asked { request, said: self.cost }
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    let minute = Duration::from_secs(60);
    let tiers = vec![
        Limit::per_second(3),
        Limit::fixed_window(4, minute),
        Limit::sliding_log(3, minute),
        Limit::sliding_counter(25, minute),
    ];
    prop_oneof![
        4 => prop::sample::select(one_limit_of_each()),
        2 => prop::sample::select(tiers),
        1 => any_limits(NANO),
    ]
}

fn several() -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        3 => limits().prop_map(|limit| vec![limit]),
        1 => prop::collection::vec(limits(), 2..4),
    ]
}

fn numbers() -> impl Strategy<Value = RuleLimits> {
    prop_oneof![5 => several().prop_map(RuleLimits::All), 1 => Just(RuleLimits::Unlimited)]
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        4 => Just(Cost::Request),
        1 => (1..4_u64).prop_map(Cost::Units),
        2 => (1..4_u64, 1..3_u64).prop_map(|(multiplier, default)| {
            Cost::Attribute { name: "tokens".to_owned(), multiplier, default }
        }),
    ]
}

fn blocks() -> impl Strategy<Value = Option<BlockPolicy>> {
    let seconds = (1..90_u64, 1..4_u32, 1..900_u64);
    let block = seconds.prop_map(|(first, factor, more)| {
        let first = Duration::from_secs(first);
        BlockPolicy::fixed(first).escalating(factor, first + Duration::from_secs(more))
    });
    prop::option::weighted(0.25, block)
}

fn rules() -> impl Strategy<Value = Rule> {
    let matches = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Condition::Prefix(vec!["/a".to_owned()]))),
        1 => Just(Some(Condition::Equals("/c".to_owned()))),
    ];
    let keys = prop::sample::select(vec![
        vec![KeyAttribute::from("user")],
        vec![KeyAttribute::from("user"), KeyAttribute::with_default("route", "none")],
        vec![KeyAttribute::from("route")],
        vec![],
    ]);
    let tiers = prop::collection::btree_map(prop::sample::select(&TIERS[..]), numbers(), 0..3);
    let rest = (costs(), prop::bool::weighted(0.2), blocks());
    (matches, keys, numbers(), tiers, rest).prop_map(|(matches, key, numbers, tiers, rest)| {
        let mut rule = Rule::new("to be named").key(key);
        rule.limits = numbers;
        rule.matches.extend(matches.map(|condition| ("route".to_owned(), condition)));
        rule.tiers = tiers.into_iter().map(|(tier, of)| (tier.to_owned(), of)).collect();
        (rule.cost, rule.shadow, rule.block) = rest;
        rule
    })
}

fn is_per_user(rule: &Rule) -> bool {
    rule.key.iter().any(|part| part.attribute == "user")
}

/// Policies of some rules, tiers of the policy, a default tier and an override.
pub(super) fn policies() -> impl Strategy<Value = Policy> {
    let rules = prop::collection::vec(rules(), 1..6);
    let shared = prop::collection::vec((prop::sample::select(&TIERS[..]), numbers()), 0..3);
    let default = prop::option::of(Just("free".to_owned()));
    let own = (prop::sample::select(&USERS[..]), prop::option::of(Just("pro")), numbers());
    (rules, shared, default, prop::option::of(own)).prop_map(|(rules, shared, default, own)| {
        let mut policy = Policy::new();
        policy.default_tier = default;
        for (number, mut rule) in rules.into_iter().enumerate() {
            rule.name = format!("rule-{number}");
            policy.rules.push(rule);
        }
        let per_user = policy.rules.iter().find(|rule| is_per_user(rule));
        if let Some(rule) = per_user.map(|rule| rule.name.clone()) {
            for (tier, numbers) in shared {
                policy = policy.tier(tier, &rule, numbers);
            }
            if let Some((user, tier, numbers)) = own {
                let mut own = Override::new("user", user).limits(rule, numbers);
                own.tier = tier.map(str::to_owned);
                policy = policy.override_client(own);
            }
        }
        without_unlimited_blocks(policy)
    })
}

/// A key that is blocked under one tier and unlimited under another has no figures for the model.
fn without_unlimited_blocks(mut policy: Policy) -> Policy {
    let is_limited = |numbers: &RuleLimits| *numbers != RuleLimits::Unlimited;
    for rule in policy.rules.iter_mut().filter(|rule| rule.block.is_some()) {
        let shared = policy.tiers.values().filter_map(|rules| rules.get(&rule.name));
        let own = policy.overrides.iter().filter_map(|own| own.limits.get(&rule.name));
        if ![&rule.limits]
            .into_iter()
            .chain(rule.tiers.values())
            .chain(shared)
            .chain(own)
            .all(is_limited)
        {
            rule.block = None;
        }
    }
    policy
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let idle = prop_oneof![
        5 => Just(0),
        4 => (0..13_u32, 1..10_u64).prop_map(|(zeros, digit)| digit * 10_u64.pow(zeros)),
    ];
    let act = prop_oneof![
        16 => Just(Act::Check),
        3 => Just(Act::Peek),
        1 => Just(Act::Refund),
        1 => Just(Act::Reset),
    ];
    let known =
        |values: &'static [&'static str]| prop::option::weighted(0.9, prop::sample::select(values));
    let tokens = prop_oneof![
        8 => Just(None),
        4 => Just(Some("1")),
        3 => Just(Some("3")),
        1 => Just(Some("0")),
        1 => Just(Some("abc")),
        1 => Just(Some("18446744073709551615")),
    ];
    let tier =
        prop::option::weighted(0.5, prop::sample::select(&["pro", "internal", "unknown"][..]));
    let said = prop_oneof![4 => 1..6_u64, 1 => Just(11), 1 => Just(0)];
    let cost = prop::option::weighted(0.4, said);
    let step = (idle, act, (known(&USERS), known(&ROUTES), tokens, tier), cost).prop_map(
        |(idle, act, (user, route, tokens, tier), cost)| {
            let idle = Duration::from_nanos(idle);
            Step { idle, act, user, route, tokens, tier, cost }
        },
    );
    prop::collection::vec(step, 1..50)
}
