//! What each setting means.

use std::time::Duration;

use tollgate::{
    BlockPolicy, Condition, Cost, Glob, KeyAttribute, Limit, ListEntry, OnStoreError, Override,
    Policy, Rule, RuleLimits, SyncMode, Timestamp,
};

use super::loads;

#[track_caller]
fn reads(text: &str, policy: &Policy) {
    assert_eq!(loads(text).policy, *policy, "{text}");
}

/// A rule of the setting `line` alone.
#[track_caller]
fn reads_rule(line: &str, change: impl FnOnce(Rule) -> Rule) {
    let rule = change(Rule::new("r").key(["user"]).limit(Limit::per_second(1)));
    let text = format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"1/s\"\n{line}\n");
    reads(&text, &Policy::new().rule(rule));
}

#[track_caller]
fn reads_limit(line: &str, numbers: impl Into<RuleLimits>) {
    let mut rule = Rule::new("r").key(["user"]);
    rule.limits = numbers.into();
    let text = format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\n{line}\n");
    reads(&text, &Policy::new().rule(rule));
}

#[test]
fn an_empty_file_is_a_policy_without_rules() {
    reads("", &Policy::new());
    reads("\u{feff}# a comment\n", &Policy::new());
}

#[test]
fn the_two_rules_of_the_overview_are_read() {
    let text = r#"
[[rule]]
name = "search-per-user"
match = { route = "/search" }
key = ["tenant", "user"]
limit = "100/min burst 20"
tiers = { pro = "10000/min", internal = "unlimited" }

[[rule]]
name = "login-per-ip"
match = { route = "/login" }
key = ["ip"]
limit = "10/h sliding_log"
block_for = "15m"
on_store_error = "deny"
"#;
    let search = Rule::new("search-per-user")
        .matches("route", "/search")
        .key(["tenant", "user"])
        .limit(Limit::per_minute(100).burst(20))
        .tier("pro", Limit::per_minute(10_000))
        .tier("internal", RuleLimits::Unlimited);
    let login = Rule::new("login-per-ip")
        .matches("route", "/login")
        .key(["ip"])
        .limit(Limit::sliding_log(10, Duration::from_secs(3600)))
        .block(Duration::from_secs(900))
        .on_store_error(OnStoreError::Deny);
    reads(text, &Policy::new().rule(search).rule(login));
    assert_eq!(loads(text).warnings, []);
}

#[test]
fn a_limit_is_text_or_a_table() {
    let second = Duration::from_secs(1);
    reads_limit(r#"limit = "100/min burst 20""#, Limit::per_minute(100).burst(20));
    reads_limit(
        r#"limit = { algorithm = "token_bucket", count = 100, per = "1m", burst = 20 }"#,
        Limit::per_minute(100).burst(20),
    );
    reads_limit(
        r#"limit = { algorithm = "leaky_bucket", mode = "queue", count = 10, per = "1s", burst = 5 }"#,
        Limit::leaky_queue(10, second).burst(5),
    );
    reads_limit(
        r#"limit = { algorithm = "fixed_window", count = 5, per = "60s", align = "first" }"#,
        Limit::fixed_window(5, 60 * second).starting_at_first_request(),
    );
    reads_limit("limit = \"unlimited\"", RuleLimits::Unlimited);
    reads_limit("limit = \" Unlimited \"", RuleLimits::Unlimited);
}

#[test]
fn several_limits_are_texts_and_tables() {
    let hour = Limit::sliding_log(1000, Duration::from_secs(3600));
    reads_limit(
        r#"limits = ["10/s", { algorithm = "sliding_log", count = 1000, per = "1h" }]"#,
        vec![Limit::per_second(10), hour],
    );
}

#[test]
fn a_condition_is_a_value_a_list_or_a_table() {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let matches = |line: &str, condition: Condition| {
        reads_rule(&format!("match = {{ a = {line} }}"), |rule| rule.matches("a", condition));
    };
    matches("\"x\"", Condition::Equals("x".to_owned()));
    matches("404", Condition::Equals("404".to_owned()));
    matches("0x1_0", Condition::Equals("16".to_owned()));
    matches("true", Condition::Equals("true".to_owned()));
    matches("[\"POST\", 1, false]", Condition::AnyOf(texts(&["POST", "1", "false"])));
    matches("{ is = \"x\" }", Condition::Equals("x".to_owned()));
    matches("{ one_of = [\"x\"] }", Condition::AnyOf(texts(&["x"])));
    matches("{ prefix = \"/api/\" }", Condition::Prefix(texts(&["/api/"])));
    matches("{ prefix = [\"/a\", \"/b\"] }", Condition::Prefix(texts(&["/a", "/b"])));
    matches("{ glob = \"/a/*\" }", Condition::Glob(vec![Glob::new("/a/*")]));
    matches("{ present = true }", Condition::Present);
    matches("{ present = false }", Condition::Absent);
    matches("{ absent = true }", Condition::Absent);
    matches("{ absent = false }", Condition::Present);
    let networks = vec!["10.0.0.0/8".parse().unwrap(), "192.168.0.1/32".parse().unwrap()];
    matches("{ cidr = [\"10.0.0.0/8\", \"192.168.0.1\"] }", Condition::Cidr(networks));
    matches("{ cidr = \"::1\" }", Condition::Cidr(vec!["::1/128".parse().unwrap()]));
}

#[test]
fn several_conditions_on_one_attribute_must_all_hold() {
    let prefix = |text: &str| Condition::Prefix(vec![text.to_owned()]);
    reads_rule(r#"match = { a = { prefix = "x", glob = "*z" } }"#, |rule| {
        rule.matches("a", prefix("x")).matches("a", Condition::Glob(vec![Glob::new("*z")]))
    });
    reads_rule(r#"match.a.all = [{ prefix = "x" }, { prefix = "xy" }, "xyz"]"#, |rule| {
        rule.matches("a", prefix("x")).matches("a", prefix("xy")).matches("a", "xyz")
    });
}

#[test]
fn every_other_setting_of_a_rule_is_read() {
    reads_rule("defaults = { user = \"anonymous\" }", |rule| {
        rule.key([KeyAttribute::with_default("user", "anonymous")])
    });
    reads_rule("cost = 5", |rule| rule.cost(5));
    let tokens = |multiplier, default| {
        move |rule: Rule| {
            rule.cost(Cost::Attribute { name: "tokens".to_owned(), multiplier, default })
        }
    };
    reads_rule("cost = { attribute = \"tokens\" }", tokens(1, 1));
    reads_rule("cost = { attribute = \"tokens\", multiplier = 2, default = 7 }", tokens(2, 7));
    reads_rule("shadow = true", Rule::shadow);
    reads_rule("block_for = \"1h 30m\"", |rule| rule.block(Duration::from_secs(5400)));
    reads_rule("block_for = { first = \"500ms\" }", |rule| rule.block(Duration::from_millis(500)));
    let longer =
        BlockPolicy::fixed(Duration::from_secs(900)).escalating(2, Duration::from_secs(86_400));
    reads_rule("block_for = { first = \"15m\", factor = 2, max = \"1d\" }", |rule| {
        rule.block(longer)
    });
    reads_rule("on_store_error = \"allow\"", |rule| rule.on_store_error(OnStoreError::Allow));
    let lease = "sync = \"leased\"\nlease_ttl = \"500ms\"\nlease_share = \"10%\"";
    reads_rule(lease, |rule| {
        rule.sync(SyncMode::Leased).lease_ttl(Duration::from_millis(500)).lease_share(10)
    });
}

#[test]
fn lists_tiers_and_overrides_are_read() {
    let text = r#"
tier_from = "plan"
default_tier = "free"
on_store_error = "allow"
sync = "leased"
lease_ttl = "2s"
lease_share = "50%"
partition = "user"

[[rule]]
name = "api"
key = ["user"]
limit = "10/s"

[[allow]]
match = { ip = { cidr = "10.0.0.0/8" } }

[[deny]]
name = "banned"
match = { user = ["eve", "mallory"] }

[tiers.free]
api = "1/s"

[tiers.internal]
api = "unlimited"

[[override]]
client = { user = 42 }
tier = "internal"
until = 2030-01-31T12:00:00Z

[[override]]
client = { user = "43", tenant = "acme" }
limits = { api = ["5/s", "100/h"] }
until = "2030-01-31T13:00:00+01:00"
"#;
    let until = Timestamp::from_secs(1_896_091_200);
    let client = [("user", "43"), ("tenant", "acme")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let mut policy = Policy::new()
        .rule(Rule::new("api").key(["user"]).limit(Limit::per_second(10)))
        .allow(
            ListEntry::new("allow-1")
                .matches("ip", Condition::Cidr(vec!["10.0.0.0/8".parse().unwrap()])),
        )
        .deny(
            ListEntry::new("banned")
                .matches("user", Condition::AnyOf(vec!["eve".to_owned(), "mallory".to_owned()])),
        )
        .tier("free", "api", Limit::per_second(1))
        .tier("internal", "api", RuleLimits::Unlimited)
        .override_client(Override::new("user", "42").tier("internal").until(until))
        .override_client(
            Override::of(client.into_iter().collect())
                .limits("api", vec![Limit::per_second(5), Limit::per_hour(100)])
                .until(until),
        );
    policy.tier_from = "plan".to_owned();
    policy.default_tier = Some("free".to_owned());
    policy.on_store_error = OnStoreError::Allow;
    (policy.sync, policy.lease_ttl) = (SyncMode::Leased, Duration::from_secs(2));
    policy.lease_share = 50;
    policy.partition = Some("user".to_owned());
    reads(text, &policy);
}

#[test]
fn a_policy_within_a_larger_document_is_read_with_the_documents_lines() {
    let text = "x = 1\n[[test]]\n[[test]]\nname = \"two\"\n[[test.policy.rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"1/s\"\n";
    let loaded = Policy::from_toml_at("t.toml", text, &["test", "1", "policy"]).unwrap();
    assert_eq!(loaded.policy.rules[0].name, "r");
    let wrong = text.replace("1/s", "1/x");
    let error = Policy::from_toml_at("t.toml", &wrong, &["test", "1", "policy"]).unwrap_err();
    assert!(error.to_string().starts_with("t.toml:8: rule \"r\": unknown unit"), "{error}");
    for (path, message) in [
        (&["test", "2"][..], "t.toml:2: there is no `test.2`"),
        (&["x", "y"], "t.toml:1: there is no `x.y`"),
        (&["x"], "t.toml:1: `x` must be a table, is an integer"),
    ] {
        let error = Policy::from_toml_at("t.toml", text, path).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
