//! What a client is told, read back by a parser of structured fields.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

use std::time::Duration;

use proptest::prelude::*;
use sfv::{BareItem, Item, List, ListEntry, Parser};
use tollgate::{
    Dialect, Gate, HeaderFields, HeaderStyle, Limit, Limiter, ManualClock, MemoryStore, Policy,
    PolicyLocation, PolicyProblem, Request, Rule, Timestamp, Verbosity,
};
use tollgate_testkit::{any_limits, cases, manual, one_limit_of_each};

const MOST: i64 = 999_999_999_999_999;

fn items(text: &str) -> Vec<Item> {
    let list: List = Parser::new(text).parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let item = |entry| match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(list) => panic!("{text}: {list:?}"),
    };
    list.into_iter().map(item).collect()
}

fn name(item: &Item) -> String {
    match &item.bare_item {
        BareItem::String(name) => name.as_str().to_owned(),
        other => panic!("{other:?} is no string"),
    }
}

fn parameter(item: &Item, key: &str) -> Option<i64> {
    item.params.get(key).map(|value| match value {
        BareItem::Integer(number) => i64::from(*number),
        other => panic!("{other:?} is no integer"),
    })
}

fn told(limiter: &Limiter, style: HeaderStyle, cost: u64) -> HeaderFields {
    let decision = limiter.check_n("ana", cost);
    let named = (limiter.name(), limiter.limit());
    style.for_decision(named, &decision, limiter.store().clock())
}

fn seconds(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX).min(MOST)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn draft_11_reads_back_as_the_decision(limit in any_limits(Duration::from_nanos(1)), costs in prop::collection::vec(1..20_u64, 1..20)) {
        let (limiter, _) = manual(limit);
        for cost in costs {
            let decision = limiter.check_n("ana", cost);
            let named = (limiter.name(), limiter.limit());
            let fields = HeaderStyle::new().for_decision(named, &decision, limiter.store().clock());
            let of_limit = &items(fields.get("ratelimit").unwrap())[0];
            let of_policy = &items(fields.get("ratelimit-policy").unwrap())[0];
            prop_assert_eq!((name(of_limit), name(of_policy)), ("limit".into(), "limit".into()));
            let clamped = |number: u64| i64::try_from(number).unwrap_or(MOST).min(MOST);
            prop_assert_eq!(parameter(of_limit, "r"), Some(clamped(decision.remaining())));
            let next = seconds(decision.next_unit_after());
            prop_assert_eq!(parameter(of_limit, "t").unwrap_or(0), next);
            prop_assert!(parameter(of_policy, "w").unwrap() > 0);
            prop_assert!(parameter(of_policy, "q") >= parameter(of_limit, "r"));
            let retry = fields.get("retry-after").map(|text| text.parse::<i64>().unwrap());
            match decision.retry_after().filter(|_| !decision.is_allowed()) {
                None => prop_assert_eq!(retry, None, "allowed, or never to be"),
                Some(wait) => {
                    let retry = retry.unwrap();
                    prop_assert!(retry >= 1 && retry >= seconds(wait) && retry >= next);
                }
            }
        }
    }

    #[test]
    fn next_after_is_the_first_moment_at_which_more_remains(limit in any_limits(Duration::from_nanos(1)), steps in prop::collection::vec((0..3_000_000_000_u64, 1..12_u64), 1..25)) {
        let (limiter, clock) = manual(limit);
        for (wait, cost) in steps {
            clock.advance(Duration::from_nanos(wait));
            let decision = limiter.check_n("ana", cost);
            let (now, next) = (clock.now(), decision.next_unit_after());
            if next.is_zero() {
                prop_assert!(limiter.status("ana").is_fresh());
                continue;
            }
            let remaining = || limiter.status("ana").remaining();
            prop_assert_eq!(remaining(), decision.remaining());
            clock.set(now.saturating_add(next - Duration::from_nanos(1)));
            prop_assert_eq!(remaining(), decision.remaining(), "not before");
            clock.set(now.saturating_add(next));
            prop_assert!(remaining() > decision.remaining(), "then");
            clock.set(now);
        }
    }
}

#[test]
fn a_debt_is_paid_before_more_remains() {
    for limit in one_limit_of_each() {
        let (limiter, clock) = manual(limit);
        limiter.reserve("ana", 1).unwrap().settle(25);
        let denied = limiter.check("ana");
        assert_eq!(Some(denied.next_unit_after()), denied.retry_after(), "{:?}", limiter.limit());
        clock.advance(denied.next_unit_after() - Duration::from_nanos(1));
        assert_eq!(limiter.status("ana").remaining(), 0, "{:?}", limiter.limit());
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.status("ana").remaining() > 0, "{:?}", limiter.limit());
    }
}

#[test]
fn a_wait_of_a_nanosecond_is_told_as_a_second() {
    let (limiter, clock) = manual(Limit::per_second(1));
    assert!(limiter.check("ana").is_allowed());
    clock.advance(Duration::from_nanos(999_999_999));
    let fields = told(&limiter, HeaderStyle::new(), 1);
    assert_eq!(fields.get("retry-after"), Some("1"));
    assert_eq!(fields.get("ratelimit"), Some("\"limit\";r=0;t=1"));
}

#[test]
fn a_cost_that_can_never_pass_is_not_told_to_come_again() {
    let (limiter, _) = manual(Limit::per_second(5));
    let fields = told(&limiter, HeaderStyle::new(), 6);
    assert_eq!(fields.get("retry-after"), None);
}

#[test]
fn each_dialect_says_the_same_in_its_own_words() {
    let clock = ManualClock::at(Timestamp::from_nanos(946_684_800_500_000_000));
    let store = MemoryStore::builder().clock(clock).build().unwrap();
    let limiter = store.limiter("api", Limit::fixed_window(3, Duration::from_secs(60))).unwrap();
    assert!(limiter.check_n("ana", 3).is_allowed());
    let all = |dialect| {
        let fields = told(&limiter, HeaderStyle::new().with_dialect(dialect), 1);
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    let retry = "retry-after: 60";
    assert_eq!(
        all(Dialect::Draft11),
        ["ratelimit-policy: \"api\";q=3;w=60", "ratelimit: \"api\";r=0;t=60", retry]
    );
    assert_eq!(
        all(Dialect::Draft07),
        ["ratelimit-policy: 3;w=60", "ratelimit: limit=3, remaining=0, reset=60", retry]
    );
    assert_eq!(
        all(Dialect::Draft06),
        [
            "ratelimit-policy: 3;w=60",
            "ratelimit-limit: 3",
            "ratelimit-remaining: 0",
            "ratelimit-reset: 60",
            retry
        ]
    );
    let x = |reset| {
        let limit = ["x-ratelimit-limit: 3", "x-ratelimit-remaining: 0"].map(str::to_owned);
        [limit.to_vec(), vec![format!("x-ratelimit-reset: {reset}"), retry.into()]].concat()
    };
    assert_eq!(all(Dialect::XSeconds), x("60"));
    assert_eq!(all(Dialect::XTimestamp), x("946684860"), "the window's end, not a second before");
    assert_eq!(all(Dialect::Off), [retry]);
}

#[test]
fn verbosity_decides_how_much_is_told() {
    let (limiter, _) = manual(Limit::per_hour(1));
    let style = |verbosity| HeaderStyle::new().with_verbosity(verbosity);
    assert!(told(&limiter, style(Verbosity::Minimal), 1).is_empty(), "allowed");
    let minimal = told(&limiter, style(Verbosity::Minimal), 1);
    assert_eq!(minimal.iter().collect::<Vec<_>>(), [("retry-after", "3600")]);
    assert!(told(&limiter, style(Verbosity::None), 1).is_empty(), "denied");
}

#[test]
fn numbers_are_cut_to_what_a_structured_field_can_carry() {
    let (limiter, _) = manual(Limit::fixed_window(u64::MAX, Duration::from_secs(1)));
    for dialect in [Dialect::Draft11, Dialect::Draft07, Dialect::Draft06, Dialect::XSeconds] {
        let fields = told(&limiter, HeaderStyle::new().with_dialect(dialect), 1);
        let text = fields.iter().map(|(_, value)| value).collect::<Vec<_>>().join(" ");
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        let largest = numbers.map(|number| number.parse::<i64>().unwrap()).max();
        assert_eq!(largest, Some(MOST), "{text}");
    }
}

#[test]
fn a_quota_never_promises_more_than_the_rate_and_never_less_than_what_remains() {
    for (limit, policy) in [
        (Limit::per_minute(100).burst(20), "\"limit\";q=20;w=12"),
        (Limit::per_second(1000).burst(1), "\"limit\";q=1000;w=1"),
        (Limit::per_hour(100), "\"limit\";q=100;w=3600"),
        (Limit::leaky_queue(3, Duration::from_secs(1)).burst(9), "\"limit\";q=10;w=4"),
        (Limit::fixed_window(5, Duration::from_millis(100)), "\"limit\";q=50;w=1"),
        (Limit::sliding_log(10, Duration::from_millis(1500)), "\"limit\";q=10;w=2"),
    ] {
        let (limiter, _) = manual(limit);
        let fields = told(&limiter, HeaderStyle::new(), 1);
        assert_eq!(fields.get("ratelimit-policy"), Some(policy));
    }
}

#[test]
fn the_name_of_a_limiter_is_quoted_whatever_it_is() {
    for called in ["a \"quoted\" name", "back\\slash", "naïve\r\nset-cookie: x", ""] {
        let store = MemoryStore::builder().build().unwrap();
        let limiter = store.limiter(called, Limit::per_hour(1)).unwrap();
        let fields = told(&limiter, HeaderStyle::new(), 1);
        let text = fields.get("ratelimit").unwrap();
        let expected = called.replace(['ï', '\r', '\n'], "?");
        assert_eq!(name(&items(text)[0]), expected);
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text}");
    }
}

#[test]
fn a_policy_whose_names_cannot_be_quoted_is_refused() {
    for called in ["a\"b", "a\\b", "naïve", "a\nb"] {
        let rule = Rule::new(called).limit(Limit::per_hour(1));
        let error = Gate::new(Policy::new().rule(rule)).unwrap_err();
        let message = format!(
            "the name {called:?} has characters that headers cannot carry, use printable ASCII without \" and \\"
        );
        assert_eq!(
            error.problems,
            [PolicyProblem { place: PolicyLocation::Rule(0, "name"), message }]
        );
    }
}

fn gate() -> Gate {
    let policy = Policy::new()
        .rule(Rule::new("hourly").key(["user"]).limit(Limit::per_hour(100)))
        .rule(Rule::new("burst").key(["user"]).limit(Limit::per_second(2)))
        .rule(Rule::new("watched").key(["user"]).limit(Limit::per_second(1)).shadow());
    let store = MemoryStore::builder().clock(ManualClock::new()).build().unwrap();
    Gate::with_store(store, policy).unwrap()
}

#[test]
fn every_rule_that_decides_is_told_of_and_the_one_that_decided_comes_first() {
    let gate = gate();
    let request = Request::new().with("user", "ana");
    let told = || {
        let ruling = gate.check(&request);
        HeaderStyle::new().for_ruling(&ruling, gate.store().clock())
    };
    assert_eq!(told().get("ratelimit"), Some("\"burst\";r=1;t=1, \"hourly\";r=99;t=36"));
    let told = [told(), told()].map(|fields| fields.get("retry-after").map(str::to_owned));
    assert_eq!(told, [None, Some("1".to_owned())]);
}

#[test]
fn a_request_under_no_rule_is_told_nothing() {
    let gate = gate();
    let ruling = gate.check(&Request::new());
    assert!(HeaderStyle::new().for_ruling(&ruling, gate.store().clock()).is_empty());
}

#[test]
fn a_block_is_told_as_long_as_it_lasts() {
    let hour = Duration::from_secs(3600);
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_second(1)).block(hour);
    let store = MemoryStore::builder().clock(ManualClock::new()).build().unwrap();
    let gate = Gate::with_store(store, Policy::new().rule(rule)).unwrap();
    let request = Request::new().with("user", "ana");
    assert!(gate.check(&request).is_allowed());
    let ruling = gate.check(&request);
    let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
    assert_eq!(fields.get("ratelimit"), Some("\"login\";r=0;t=3600"));
    assert_eq!(fields.get("retry-after"), Some("3600"));
}

#[test]
fn a_hundred_rules_are_told_of_in_a_bounded_header() {
    let rules = (0..100).map(|number| {
        Rule::new(format!("rule-{number}-{}", "x".repeat(100))).limit(Limit::per_hour(1))
    });
    let policy = rules.fold(Policy::new(), Policy::rule);
    let gate = Gate::new(policy).unwrap();
    let ruling = gate.check(&Request::new());
    let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
    assert_eq!(items(fields.get("ratelimit").unwrap()).len(), 16);
}

#[test]
fn a_dialect_is_named_or_the_error_says_which_there_are() {
    assert_eq!("x-epoch".parse(), Ok(Dialect::XTimestamp));
    assert_eq!("minimal".parse(), Ok(Verbosity::Minimal));
    let error = "draft-12".parse::<Dialect>().unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown dialect \"draft-12\", must be one of draft-11, draft-07, draft-06, x-epoch, x-delta, off"
    );
}

#[test]
fn rules_without_a_public_name_have_numbers_that_stay_theirs_in_every_response() {
    let rule = |name: &str| Rule::new(name).matches(name, "yes").limit(Limit::per_minute(60));
    let policy = Policy::new()
        .rule(rule("secret-a").public_name(""))
        .rule(rule("open"))
        .rule(rule("secret-b").public_name(""))
        // Its name is taken, so that the number is not.
        .rule(rule("limit-1"))
        .rule(rule("other").public_name("shown"));
    let gate = Gate::new(policy).unwrap();
    let told = |attributes: &[(&str, &str)], field: &str| -> Vec<String> {
        let ruling = gate.check(&attributes.iter().copied().collect::<Request<'_>>());
        let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
        items(fields.get(field).unwrap()).iter().map(name).collect()
    };
    let all: Vec<_> =
        ["secret-a", "open", "secret-b", "limit-1", "other"].map(|name| (name, "yes")).into();
    for field in ["ratelimit", "ratelimit-policy"] {
        let mut names = told(&all, field);
        names.sort();
        assert_eq!(names, ["limit-1", "limit-2", "limit-3", "open", "shown"]);
        assert_eq!(told(&all[2..3], field), ["limit-3"]);
        assert_eq!(told(&all[..1], field), ["limit-2"]);
    }
}

#[test]
fn deciding_rule_comes_first_if_its_name_is_hidden() {
    let rule = |name: &str, count| Rule::new(name).public_name("").limit(Limit::per_minute(count));
    let gate = Gate::new(Policy::new().rule(rule("wide", 60)).rule(rule("narrow", 1))).unwrap();
    let ruling = gate.check(&Request::new());
    let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
    let names: Vec<_> = items(fields.get("ratelimit").unwrap()).iter().map(name).collect();
    assert_eq!(
        (ruling.decided_by_name(), names),
        (Some("narrow"), vec!["limit-2".into(), "limit-1".into()])
    );
}
