//! `tollgate explain`.

use crate::support::{Folder, Said, assert_golden, assert_transcript};

const POLICY: &str = r#"
default_tier = "free"

[[deny]]
name = "abusers"
match = { ip = "203.0.113.9" }

[[rule]]
name = "search"
match = { route = "/search" }
key = ["tenant", "user"]
limit = "100/min burst 20"
tiers = { pro = "1000/min" }
cost = { attribute = "results", multiplier = 2 }

[[rule]]
name = "login"
match = { route = "/login" }
key = ["ip"]
limit = "10/h sliding_log"

[[rule]]
name = "api"
key = ["user"]
limit = "500/h"
shadow = true

[tiers.free]
search = "60/min"

[[override]]
client = { user = "vip" }
limits = { search = "7/min" }
until = 2027-01-01T00:00:00Z
"#;

fn explain(arguments: &[&str]) -> Said {
    let folder = Folder::with(&[("p.toml", POLICY)]);
    folder.tollgate(&[&["explain", "p.toml"], arguments].concat())
}

#[test]
fn every_rule_is_in_the_table_with_why_it_does_not_apply() {
    let at = ["--at", "2026-11-15T12:00:00Z"];
    let said = explain(&[&["user=42", "tenant=acme", "route=/search"], &at[..]].concat());
    let table = "\
request   user=42 tenant=acme route=/search, cost 1, at 2026-11-15T12:00:00Z
tier      free, the policy's default
list      none holds it

rule    applies  key                  cost  limit             from  why
search  yes      tenant=acme user=42  2     60/min            tier
login   no       -                    -     10/h sliding_log  rule  route is \"/search\", must be \"/login\"
api     yes      user=42              1     500/h             rule  only reports (shadow)

decision  allowed; \"search\" decides: 58 of 60 remain, as good as new after 2s
";
    assert_eq!((said.code, said.out.as_str()), (Some(0), table));
}

#[test]
fn what_is_leased_is_told() {
    let policy = format!("sync = \"leased\"\n{POLICY}");
    let folder = Folder::with(&[("p.toml", &policy)]);
    let request = ["user=42", "tenant=acme", "route=/search", "--at", "2026-11-15T12:00:00Z"];
    let said = folder.tollgate(&[&["explain", "p.toml"], &request[..]].concat());
    assert_golden("explain/leased", &said.out);
    let json = folder.tollgate(&["explain", "p.toml", "--json", "user=42"]).json();
    let leased: Vec<bool> = [0, 1, 2].map(|rule| json["rules"][rule]["leased"] == true).to_vec();
    assert_eq!(leased, [true, true, false], "a rule in shadow asks each time");
}

#[test]
fn numbers_say_where_they_come_from() {
    let source = |arguments: &[&str]| {
        let said = explain(&[arguments, &["--json"]].concat());
        let answer = said.json();
        let rule = answer["rules"][0].clone();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (text(&rule["limits"][0]), text(&rule["source"]), text(&answer["tier_source"]))
    };
    let owned = |texts: [&str; 3]| texts.map(str::to_owned).into();
    let vip = ["user=vip", "tenant=a", "route=/search"];
    assert_eq!(source(&["user=1", "tier=pro"]), owned(["1000/min", "tier", "attribute"]));
    assert_eq!(source(&["user=1", "tier=odd"]), owned(["100/min burst 20", "rule", "attribute"]));
    let before = [&vip[..], &["--at", "2026-12-31T23:59:59Z"]].concat();
    assert_eq!(source(&before), owned(["7/min", "override", "default"]));
    let after = [&vip[..], &["--at", "2027-01-01T00:00:00Z"]].concat();
    assert_eq!(source(&after), owned(["60/min", "tier", "default"]));
}

#[test]
fn json_has_the_decision_of_a_gate_that_has_seen_nothing() {
    let said = explain(&["user=42", "tenant=a", "route=/search", "--cost", "5", "--json"]);
    let decision = &said.json()["decision"];
    assert_eq!((&decision["allowed"], &decision["rule"]), (&true.into(), &"search".into()));
    assert_eq!((&decision["remaining"], &decision["limit"]), (&50.into(), &60.into()));
    let denied = explain(&["ip=203.0.113.9", "--json"]).json();
    assert_eq!(denied["list"]["name"], "abusers");
    assert_eq!(denied["decision"]["reason"], "deny_list");
    assert!(denied["decision"]["retry_after_nanos"].is_null());
    let at = ["--at", "2026-11-15T12:00:00Z"];
    let error = ["user=42", "tenant=a", "route=/search", "--cost", "31"];
    assert_transcript("explain/cost", [explain(&[&error[..], &at].concat())]);
}

#[test]
fn a_key_that_is_not_there_is_a_reason() {
    let said = explain(&["route=/login", "--at", "2026-11-15T12:00:00Z"]);
    assert_golden("explain/absent_key", &said.out);
}

#[test]
fn wrong_arguments_are_refused() {
    for arguments in [&["user"][..], &["=1"], &["user=1", "--at", "later"], &["--cost", "-1"]] {
        assert_eq!(explain(arguments).code, Some(2), "{arguments:?}");
    }
    let said = Folder::new().tollgate(&["explain", "missing.toml"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn control_characters_are_shown_and_not_sent() {
    let said = explain(&["user=\u{1b}[31m", "route=\n", "tenant=x"]);
    assert_eq!(said.code, Some(0));
    assert!(!said.out.contains('\u{1b}'), "{:?}", said.out);
}
