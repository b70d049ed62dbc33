//! Every kind of mistake outside a rule's settings, and many at once.

use super::refuses;

#[test]
fn a_rule_has_a_name_of_its_own_and_a_key_of_names() {
    refuses(
        r#"[[rule]]
limit = "1/s""#,
        &["t.toml:1: rule 1: no name, every rule and list needs one"],
    );
    refuses(
        r#"[[rule]]
name = 5
limit = "1/s""#,
        &["t.toml:2: rule 1: `name` must be text, is an integer"],
    );
    refuses(
        r#"[[rule]]
name = "a"
limit = "1/s"
[[rule]]
name = "a"
limit = "1/s""#,
        &[r#"t.toml:5: rule "a": a second rule "a", every rule needs a name of its own"#],
    );
    refuses(
        r#"[[rule]]
name = ""
limit = "1/s"
[[rule]]
limit = "1/s""#,
        &[
            "t.toml:2: rule 1: no name, every rule and list needs one",
            "t.toml:4: rule 2: no name, every rule and list needs one",
        ],
    );
    refuses(
        r#"[[rule]]
name = "a\u0007é"
limit = "1/s""#,
        &[
            r#"t.toml:2: rule "a\u{7}é": the name "a\u{7}é" has characters that headers cannot carry, use printable ASCII without " and \"#,
        ],
    );
}

#[test]
fn a_rule_has_a_key_of_names_and_double_brackets() {
    refuses(
        r#"[[rule]]
name = "a"
key = "user"
limit = "1/s""#,
        &[
            r#"t.toml:3: rule "a": `key` must be an array of attribute names such as ["user"] or [{ ip = { v4 = 32, v6 = 64 } }], is text"#,
        ],
    );
    refuses(
        r#"[[rule]]
name = "a"
key = [1, "user", "user", ""]
limit = "1/s""#,
        &[
            r#"t.toml:3: rule "a": "user" is named twice"#,
            r#"t.toml:3: rule "a": an attribute's name is empty"#,
            r#"t.toml:3: rule "a": `key` must be an array of attribute names such as ["user"] or [{ ip = { v4 = 32, v6 = 64 } }], is an integer"#,
        ],
    );
    refuses(
        r#"[rule]
name = "a"
limit = "x""#,
        &[
            "t.toml:1: `rule` is a single table, write [[rule]] in double brackets",
            r#"t.toml:3: rule "a": count "x" is not a number such as 100 or 0.5"#,
        ],
    );
    refuses(
        "rule = 5",
        &["t.toml:1: `rule` must be an array of tables, written as [[rule]], is an integer"],
    );
    refuses(
        "rule = [5]",
        &["t.toml:1: rule 1: `rule` must be a table, written as [[rule]], is an integer"],
    );
    refuses(
        r#"rule = { name = "a", limit = "1/s" }"#,
        &["t.toml:1: `rule` is a single table, write [[rule]] in double brackets"],
    );
    refuses("rules = []", &["t.toml:1: unknown key `rules`, did you mean `rule`?"]);
}

#[test]
fn a_list_has_a_match() {
    refuses(
        "[[allow]]",
        &[
            r#"t.toml:1: allow 1: no `match`, it would hold everybody; write for example match = { ip = { cidr = "10.0.0.0/8" } }"#,
        ],
    );
    refuses(
        "[[deny]]
match = {}",
        &["t.toml:2: deny 1: `match` is empty, it would hold everybody; name an attribute"],
    );
    refuses(
        r#"[[deny]]
name = "x"
match = 5"#,
        &[
            r#"t.toml:3: deny "x": `match` must be a table such as { route = "/search" }, is an integer"#,
        ],
    );
    refuses(
        "allow = [1]",
        &["t.toml:1: allow 1: `allow` must be a table in double brackets, is an integer"],
    );
    refuses(
        "[[allow]]
name = 5
match = { a = 1 }",
        &["t.toml:2: allow 1: `name` must be text, is an integer"],
    );
    refuses(
        r#"[[allow]]
match = { a = 1 }
[[deny]]
name = "allow-1"
match = { a = 2 }"#,
        &[
            r#"t.toml:4: deny "allow-1": the name "allow-1" is taken, every list needs one of its own"#,
        ],
    );
}

#[test]
fn an_override_has_a_client_and_changes_something() {
    refuses(
        "[[override]]",
        &[
            r#"t.toml:1: override 1: no client, write for example client = { user = "42" }"#,
            "t.toml:1: override 1: it changes nothing, give the client a tier or limits",
        ],
    );
    refuses(
        "[[override]]
client = { user = 1 }",
        &["t.toml:1: override 1: it changes nothing, give the client a tier or limits"],
    );
}

#[test]
fn every_setting_of_an_override_says_what_it_must_be() {
    refuses(
        "[[override]]
client = 5
tier = 5
limits = 5
until = 5",
        &[
            r#"t.toml:2: override 1: `client` must be a table such as { user = "42" }, is an integer"#,
            "t.toml:3: override 1: `tier` must be text, is an integer",
            "t.toml:4: override 1: `limits` must be a table of rule names and their limits, is an integer",
            "t.toml:5: override 1: `until` must be a time such as 2030-01-31T12:00:00Z, is an integer",
        ],
    );
    refuses(
        r#"[[override]]
client = {}
tier = "x"
until = "tomorrow""#,
        &[
            r#"t.toml:2: override 1: no client, write for example client = { user = "42" }"#,
            r#"t.toml:4: override 1: "tomorrow" is not a time with its offset, write for example 2030-01-31T12:00:00Z"#,
        ],
    );
}

#[test]
fn an_override_ends_at_a_moment_and_names_rules_and_a_client_of_its_own() {
    refuses(
        "[[override]]\nclient = { a = 1 }\nlimits = {}",
        &["t.toml:1: override 1: it changes nothing, give the client a tier or limits"],
    );
    refuses(
        r#"[[override]]
client = { a = 1 }
tier = "x"
until = 2030-01-01"#,
        &[
            r#"t.toml:4: override 1: "2030-01-01" is not a time with its offset, write for example 2030-01-31T12:00:00Z"#,
        ],
    );
    refuses(
        r#"[[override]]
client = { a = 1 }
tier = "x"
until = 1930-01-01T00:00:00Z"#,
        &[r#"t.toml:4: override 1: "1930-01-01T00:00:00Z" must be between 1970 and 2262"#],
    );
    refuses(
        r#"[[rule]]
name = "search"
limit = "1/s"
[[override]]
client = { a = 1 }
limits = { search = "1/x", serch = "1/s" }"#,
        &[
            r#"t.toml:6: override 1: unknown rule "serch", did you mean "search"?"#,
            r#"t.toml:6: rule "search": override 1: unknown unit "x" in "1/x", use ms, s, min, h, day, week"#,
        ],
    );
    refuses(
        r#"[[override]]
client = { a = 1 }
tier = "x"
[[override]]
client = { a = "1" }
tier = "y""#,
        &["t.toml:5: override 2: a second override of this client, put both into one"],
    );
    refuses(
        "override = [5]",
        &[
            "t.toml:1: override 1: `override` must be a table, written as [[override]], is an integer",
        ],
    );
}

#[test]
fn what_belongs_to_no_rule_says_what_it_must_be() {
    refuses(
        r#"[[rule]]
nmae = "x"
limit = "1/s"
[tiers.pro]
x = "2/s""#,
        &["t.toml:2: rule 1: unknown key `nmae`, did you mean `name`?"],
    );
    refuses(
        "tiers = 5",
        &["t.toml:1: `tiers` must be a table of tiers such as [tiers.pro], is an integer"],
    );
    refuses(
        "tiers = { pro = 5 }",
        &["t.toml:1: `tiers.pro` must be a table of rule names and their limits, is an integer"],
    );
    refuses(
        r#"[[rule]]
name = "search"
limit = "1/s"
[tiers.pro]
serch = "1/s"
search = "1/x""#,
        &[
            r#"t.toml:5: rule "serch": tier "pro": unknown rule "serch", did you mean "search"?"#,
            r#"t.toml:6: rule "search": tier "pro": unknown unit "x" in "1/x", use ms, s, min, h, day, week"#,
        ],
    );
    refuses(
        r#"tier_from = ""
default_tier = 5
on_store_error = "x"
partition = """#,
        &[
            "t.toml:1: tier_from is empty, name an attribute",
            "t.toml:2: `default_tier` must be text, is an integer",
            r#"t.toml:3: unknown on_store_error "x", use local, allow or deny"#,
            "t.toml:4: partition is empty, name an attribute",
        ],
    );
    refuses(
        "a = 99999999999999999999999999999",
        &[
            "t.toml:1: unknown key `a`, use rule, allow, deny, override, tiers, tier_from, default_tier, on_store_error, sync, lease_ttl, lease_share, partition, server",
        ],
    );
}

#[test]
fn every_mistake_is_named_at_once_and_in_order() {
    let text = r#"
default_tier = 5

[[rule]]
name = "search"
match = { ip = { cdir = "10.0.0.0/8" } }
key = ["user"]
limt = "100/mni"

[[rule]]
name = "search"
key = "ip"
limits = [
    "10/s",
    "1000/hh",
    { count = 0, per = "1s" },
]
block_for = "15"
colour = "red"

[[deny]]
match = {}

[tiers.pro]
serch = "5/s"

[[override]]
client = { user = "1" }
limits = { search = "0/s", login = "1/s" }
until = "soon"
"#;
    refuses(
        text,
        &[
            r#"t.toml:2: `default_tier` must be text, is an integer"#,
            r#"t.toml:6: rule "search": unknown key `cdir`, did you mean `cidr`?"#,
            r#"t.toml:8: rule "search": unknown key `limt`, did you mean `limit`?"#,
            r#"t.toml:8: rule "search": unknown unit "mni" in "100/mni", use ms, s, min, h, day, week"#,
            r#"t.toml:11: rule "search": a second rule "search", every rule needs a name of its own"#,
            r#"t.toml:12: rule "search": `key` must be an array of attribute names such as ["user"] or [{ ip = { v4 = 32, v6 = 64 } }], is text"#,
            r#"t.toml:15: rule "search": unknown unit "hh" in "1000/hh", use ms, s, min, h, day, week"#,
            r#"t.toml:16: rule "search": count is 0, must be at least 1"#,
            r#"t.toml:18: rule "search": `block_for`: "15" is not a duration such as 15m or 1h 30m"#,
            r#"t.toml:19: rule "search": unknown key `colour`, use name, public_name, match, key, defaults, limit, limits, tiers, cost, shadow, block_for, on_store_error, sync, lease_ttl, lease_share"#,
            r#"t.toml:22: deny 1: `match` is empty, it would hold everybody; name an attribute"#,
            r#"t.toml:25: rule "serch": tier "pro": unknown rule "serch", did you mean "search"?"#,
            r#"t.toml:29: override 1: unknown rule "login""#,
            r#"t.toml:29: rule "search": override 1: count is 0, must be at least 1"#,
            r#"t.toml:30: override 1: "soon" is not a time with its offset, write for example 2030-01-31T12:00:00Z"#,
        ],
    );
}

#[test]
fn a_name_that_is_not_printable_is_shown_escaped_and_cut() {
    let text = format!("\"a\\u001B{}\" = 1", "x".repeat(100));
    let shown = format!(
        "t.toml:1: unknown key `a\\u{{1b}}{}…`, use rule, allow, deny, override, tiers, tier_from, default_tier, on_store_error, sync, lease_ttl, lease_share, partition, server",
        "x".repeat(62)
    );
    refuses(&text, &[&shown]);
}

#[test]
fn thousands_of_unknown_names_are_named_quickly() {
    let rules: String = (0..500)
        .map(|n| format!("[[rule]]\nname = \"rule-number-{n}\"\nlimit = \"1/s\"\n"))
        .collect();
    let tiers: String = (0..5_000).map(|n| format!("rule-numbr-{n} = \"1/s\"\n")).collect();
    let error =
        tollgate::Policy::from_toml("t.toml", &format!("{rules}[tiers.pro]\n{tiers}")).unwrap_err();
    assert_eq!(error.diagnostics.len(), 5_000);
}
