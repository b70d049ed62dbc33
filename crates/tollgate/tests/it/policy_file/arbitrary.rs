//! Any policy that a file can express.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use tollgate::{
    AddressPrefix, BlockPolicy, CalendarUnit, Condition, Cost, Glob, KeyAttribute, Limit,
    ListEntry, OnStoreError, Override, Policy, Rule, RuleLimits, SyncMode, Timestamp,
};

/// Text of any kind: attributes' values are the caller's.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[ -~]{0,12}", any::<String>()]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), "[a-z]{1,4}", any::<String>()]
        .prop_filter("an attribute has a name", |name| !name.is_empty())
}

fn limit() -> impl Strategy<Value = Limit> {
    let period = (1_u64..5, 0_usize..7).prop_map(|(count, unit)| {
        let units = [1, 7, 1000, 1500, 60_000, 3_600_000, 86_400_000];
        Duration::from_millis(count * units[unit])
    });
    (1..5000_u64, period, 0..9_u8, option::of(1..100_u64)).prop_map(
        |(count, period, kind, burst)| {
            let limit = match kind {
                0..=2 => Limit::token_bucket(count, period),
                3 => Limit::leaky_bucket(count, period),
                4 => Limit::leaky_queue(count, period),
                5 => return Limit::fixed_window(count, period).starting_at_first_request(),
                6 => return Limit::sliding_log(count, period),
                7 => return Limit::sliding_counter(count, period),
                _ => return Limit::calendar(count, CalendarUnit::Month).zone("Europe/Paris"),
            };
            burst.map_or(limit.clone(), |units| limit.burst(units))
        },
    )
}

fn numbers() -> impl Strategy<Value = RuleLimits> {
    prop_oneof![
        1 => Just(RuleLimits::Unlimited),
        4 => vec(limit(), 1..4).prop_map(RuleLimits::All),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let network = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|([a, b, c, d], length)| {
        format!("{a}.{b}.{c}.{d}/{length}").parse().expect("a network")
    });
    let wide = (any::<u128>(), 0..=128_u8).prop_map(|(bits, length)| {
        format!("{}/{length}", std::net::Ipv6Addr::from(bits)).parse().expect("a network")
    });
    let plain = prop_oneof![
        text().prop_map(Condition::Equals),
        vec(text(), 1..4).prop_map(Condition::AnyOf),
        vec(text(), 1..4).prop_map(Condition::Prefix),
        vec(text().prop_map(Glob::new), 1..4).prop_map(Condition::Glob),
        vec(prop_oneof![network, wide], 1..4).prop_map(Condition::Cidr),
        Just(Condition::Present),
        Just(Condition::Absent),
    ];
    (plain, any::<bool>()).prop_map(|(plain, negated)| if negated { !plain } else { plain })
}

/// Conditions, those of one attribute side by side, as the file has them.
fn matches(most: usize) -> impl Strategy<Value = Vec<(String, Condition)>> {
    btree_map(name(), vec(condition(), 1..4), 1..=most).prop_map(|attributes| {
        let pairs = attributes.into_iter().flat_map(|(name, conditions)| {
            conditions.into_iter().map(move |condition| (name.clone(), condition))
        });
        pairs.collect()
    })
}

fn store_error() -> impl Strategy<Value = OnStoreError> {
    prop_oneof![Just(OnStoreError::Local), Just(OnStoreError::Allow), Just(OnStoreError::Deny)]
}

fn lease_ttl() -> impl Strategy<Value = Duration> {
    (10_000_000..60_000_000_000_u64).prop_map(Duration::from_nanos)
}

fn cost() -> impl Strategy<Value = Cost> {
    let number = || prop_oneof![Just(1), 1..10_u64, 1..=u64::MAX];
    prop_oneof![
        Just(Cost::Request),
        number().prop_map(Cost::Units),
        (name(), number(), number()).prop_map(|(name, multiplier, default)| Cost::Attribute {
            name,
            multiplier,
            default
        }),
    ]
}

fn block() -> impl Strategy<Value = BlockPolicy> {
    (1..u64::MAX / 8, 1..5_u32, 0..1000_u64).prop_map(|(first, factor, more)| {
        let first = Duration::from_nanos(first);
        BlockPolicy::fixed(first).escalating(factor, first + Duration::from_secs(more))
    })
}

fn public_name() -> impl Strategy<Value = Option<String>> {
    option::of("[ -!#-Z]{0,4}")
}

fn rule() -> impl Strategy<Value = Rule> {
    let address = (0..=32_u8, 0..=128_u8).prop_map(|(v4, v6)| AddressPrefix::new(v4, v6));
    let key = btree_map(name(), (option::of(text()), option::of(address)), 0..3);
    let counted = (prop_oneof![Just(Vec::new()), matches(3)], key, numbers());
    let counted = (counted, public_name());
    let tiers = btree_map(text(), numbers(), 0..3);
    let rest = (tiers, cost(), any::<bool>(), option::of(block()), option::of(store_error()));
    // Not every limit may be leased, so no rule of these is.
    let lease = (any::<bool>(), option::of(lease_ttl()), option::of(1..=100_u8));
    (counted, rest, lease).prop_map(
        |(((matches, key, numbers), public_name), rest, (strict, ttl, share))| {
            let mut rule = Rule::new("");
            rule.public_name = public_name;
            rule.matches = matches;
            let parts = key.into_iter();
            let parts = parts.map(|(attribute, (default, address))| KeyAttribute {
                attribute,
                default,
                address,
            });
            rule.key = parts.collect();
            rule.limits = numbers;
            (rule.tiers, rule.cost, rule.shadow, rule.block, rule.on_store_error) = rest;
            (rule.sync, rule.lease_ttl) = (strict.then_some(SyncMode::Strict), ttl);
            rule.lease_share = share;
            rule
        },
    )
}

fn client() -> impl Strategy<Value = Override> {
    let moment = option::of(any::<u64>().prop_map(Timestamp::from_nanos));
    (btree_map(name(), text(), 1..3), text(), any::<bool>(), numbers(), moment).prop_map(
        |(client, tier, has_numbers, numbers, until)| {
            let mut change = Override::of(client).tier(tier);
            if has_numbers {
                change = change.limits("rule-0", numbers);
            }
            change.until = until;
            change
        },
    )
}

/// A valid policy.
pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let list = || (matches(2), public_name());
    let lists = (vec(list(), 0..3), vec(list(), 0..3));
    let tiers = btree_map(text(), option::of(numbers()), 0..3);
    let whole = (name(), option::of(text()), store_error(), option::of(name()));
    let whole = (whole, lease_ttl(), 1..=100_u8);
    (vec(rule(), 1..4), lists, tiers, vec(client(), 0..3), whole).prop_map(
        |(rules, (allow, deny), tiers, clients, (whole, ttl, share))| {
            let mut policy = Policy::new();
            for (number, mut rule) in rules.into_iter().enumerate() {
                rule.name = format!("rule-{number}");
                policy.rules.push(rule);
            }
            let named = |what: &str, lists: Vec<(Vec<(String, Condition)>, _)>| -> Vec<ListEntry> {
                let numbered = lists.into_iter().enumerate();
                let list = |(number, (matches, public_name))| {
                    let mut list = ListEntry::new(format!("{what} {number}"));
                    (list.matches, list.public_name) = (matches, public_name);
                    list
                };
                numbered.map(list).collect()
            };
            (policy.allow, policy.deny) = (named("pass", allow), named("stop", deny));
            for (tier, numbers) in tiers {
                let limits = numbers.map(|numbers| ("rule-0".to_owned(), numbers));
                policy.tiers.insert(tier, limits.into_iter().collect());
            }
            for change in clients {
                if policy.overrides.iter().all(|other| other.client != change.client) {
                    policy.overrides.push(change);
                }
            }
            (policy.tier_from, policy.default_tier, policy.on_store_error, policy.partition) =
                whole;
            (policy.lease_ttl, policy.lease_share) = (ttl, share);
            policy
        },
    )
}
