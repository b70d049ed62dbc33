//! A replay decides what a gate decides.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    CalendarUnit, Condition, Gate, KeyAttribute, Limit, ListEntry, ManualClock, MemoryStore,
    Override, Policy, Reason, Request, Rule, Timestamp,
};
use tollgate_lab::replay::Settings;

use super::{run, settings};
use crate::shown::elements;

#[derive(Clone, Copy, Debug)]
struct Line {
    micros: u64,
    ip: u8,
    user: Option<u8>,
    path: &'static str,
    tier: Option<&'static str>,
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let tier = prop::option::of(prop::sample::select(&["pro", "free"][..]));
    let path = prop::sample::select(&["/login", "/search", "/"][..]);
    let line = (0_u64..3_000_000, 0_u8..4, prop::option::of(0_u8..3), path, tier);
    prop::collection::vec(line, 1..300).prop_map(|lines| {
        let mut micros = 1_794_824_030_000_000;
        let mut next = |(step, ip, user, path, tier)| {
            micros += step;
            Line { micros, ip, user, path, tier }
        };
        lines.into_iter().map(&mut next).collect()
    })
}

fn policy() -> Policy {
    let login = Limit::sliding_log(3, Duration::from_secs(60));
    Policy::new()
        .allow(ListEntry::new("friends").matches("ip", "3").matches("path", "/"))
        .deny(
            ListEntry::new("enemies")
                .matches("user", "2")
                .matches("path", Condition::Equals("/".into())),
        )
        .rule(
            Rule::new("per-ip")
                .key(["ip"])
                .limit(Limit::per_minute(20).burst(5))
                .limit(Limit::per_hour(100)),
        )
        .rule(
            Rule::new("login")
                .matches("path", "/login")
                .key(["ip"])
                .limit(login)
                .block(Duration::from_secs(20)),
        )
        .rule(
            Rule::new("user")
                .key([KeyAttribute::with_default("user", "nobody")])
                .limit(Limit::per_minute(10))
                .tier("pro", Limit::per_minute(30)),
        )
        .rule(Rule::new("day").limit(Limit::calendar(150, CalendarUnit::Minute)))
        .rule(
            Rule::new("quiet")
                .key(["path"])
                .limit(Limit::sliding_counter(5, Duration::from_secs(30)))
                .shadow(),
        )
        .override_client(Override::new("user", "1").limits("user", Limit::per_minute(2)))
}

type Counts = (u64, u64, BTreeMap<String, u64>, BTreeMap<(String, Vec<(String, String)>), u64>);

/// What a gate says of each line in turn.
fn gate_says(lines: &[Line]) -> Counts {
    let clock = ManualClock::at(Timestamp::from_nanos(0));
    let store =
        MemoryStore::builder().clock(clock.clone()).build().expect("the test's values are valid");
    let gate = Gate::with_store(store, policy()).expect("the test's values are valid");
    let (mut allowed, mut refused, mut rules, mut keys) = (0, 0, BTreeMap::new(), BTreeMap::new());
    for line in lines {
        clock.set(Timestamp::from_nanos(line.micros * 1000));
        let (ip, user) = (line.ip.to_string(), line.user.map(|user| user.to_string()));
        let mut request = Request::new().with("ip", &ip).with("path", line.path);
        user.iter().for_each(|user| request.set("user", user));
        line.tier.iter().for_each(|tier| request.set("tier", tier));
        let ruling = gate.check(&request);
        if ruling.is_allowed() {
            allowed += 1;
            continue;
        }
        assert_ne!(ruling.reason(), Reason::InvalidRequest);
        refused += 1;
        let rule = ruling.decided_by_name().expect("the test's values are valid").to_owned();
        let key = ruling.key(&request).map(|(name, value)| (name.to_owned(), value.into_owned()));
        *keys.entry((rule.clone(), key.collect())).or_default() += 1;
        *rules.entry(rule).or_default() += 1;
    }
    (allowed, refused, rules, keys)
}

fn replay_says(log: &str) -> Counts {
    let settings = Settings { clients: usize::MAX, ..Settings::default() };
    let report = run(log, &policy(), &settings).expect("the test's values are valid");
    assert_eq!(report.malformed.lines, 0, "{:?}", report.malformed);
    let rules = report.rules.iter().map(|rule| (rule.rule.clone(), rule.refused));
    let lists = report.lists.iter().filter(|list| !list.passes);
    let rules = rules.chain(lists.map(|list| (list.list.clone(), list.requests)));
    let keys = report.clients.top.into_iter().map(|of| ((of.rule, of.key), of.refused));
    let rules = rules.filter(|(_, refused)| *refused > 0).collect();
    let steps = report.over_time.steps.iter();
    let told: u64 = steps.map(|step| step.allowed + step.refused.iter().sum::<u64>()).sum();
    assert_eq!(told, report.requests, "every request is in the picture");
    let of_tiers: u64 = report.tiers.iter().map(|tier| tier.refused).sum();
    assert_eq!(of_tiers, report.refused, "every refusal is of a tier or of none");
    (report.allowed, report.refused, rules, keys.collect())
}

fn json(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let time = jiff::Timestamp::from_microsecond(
            line.micros.try_into().expect("the test's values are valid"),
        )
        .expect("the test's values are valid");
        let mut fields =
            format!("{{\"time\":\"{time}\",\"ip\":\"{}\",\"path\":\"{}\"", line.ip, line.path);
        line.user.iter().for_each(|user| fields += &format!(",\"user\":{user}"));
        line.tier.iter().for_each(|tier| fields += &format!(",\"tier\":\"{tier}\""));
        fields + "}\n"
    };
    lines.iter().map(line).collect()
}

fn csv(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let user = line.user.map(|user| user.to_string()).unwrap_or_default();
        let (ip, path, tier) = (line.ip, line.path, line.tier.unwrap_or_default());
        format!("{},{ip},{path}?q,\"{user}\",{tier}\n", line.micros)
    };
    "ts,ip,url,user,tier\n".to_owned() + &lines.iter().map(line).collect::<String>()
}

fn common(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let time = jiff::Timestamp::from_second(
            (line.micros / 1_000_000).try_into().expect("the test's values are valid"),
        )
        .expect("the test's values are valid");
        let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
        let user = line.user.map_or("-".to_owned(), |user| user.to_string());
        format!("{} - {user} [{time}] \"GET {} HTTP/1.1\" 200 1\n", line.ip, line.path)
    };
    lines.iter().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_replay_decides_what_a_gate_decides(lines in lines()) {
        prop_assert_eq!(replay_says(&json(&lines)), gate_says(&lines));
        prop_assert_eq!(replay_says(&csv(&lines)), gate_says(&lines));
        // A common log tells whole seconds, and no tier.
        let coarse: Vec<Line> = lines.iter().map(|line| Line {
            micros: line.micros / 1_000_000 * 1_000_000, tier: None, ..*line
        }).collect();
        prop_assert_eq!(replay_says(&common(&coarse)), gate_says(&coarse));
    }
}

#[test]
fn what_can_never_pass_is_refused_by_no_tier_and_no_rule() {
    let rule = Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(10));
    let policy = Policy::new().rule(rule.tier("pro", Limit::per_minute(20)));
    let log = "{\"time\":1794824030,\"ip\":\"1\",\"cost\":50,\"tier\":\"pro\"}\n".repeat(3);
    let report = run(log, &policy, &settings(&[("cost", "cost")])).expect("the log is readable");
    assert_eq!((report.requests, report.refused, report.wrong), (3, 0, 3));
    assert_eq!((report.tiers[0].requests, report.tiers[0].refused), (3, 0));
    assert_eq!((report.rules[0].refused, report.rules[0].says_no), (0, 0));
    // The last cell of the rule's row would name denials by another rule.
    let cells = elements(&report.html(), "td");
    assert_eq!(cells[..5], ["per-ip", "3", "0", "0.00%", ""]);
}
