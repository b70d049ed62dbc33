//! What is legal and probably wrong.

use super::warns;

/// A rule with these settings, from its fourth line.
#[track_caller]
fn warns_rule(settings: &str, lines: &[&str]) {
    warns(&format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\n{settings}\n"), lines);
}

/// A rule with this match in its fifth line.
#[track_caller]
fn warns_match(matching: &str, lines: &[&str]) {
    warns_rule(&format!("limit = \"1/s\"\nmatch = {matching}"), lines);
}

#[test]
fn condition_on_an_address_that_no_address_fulfils_is_warned_of() {
    for network in ["10.0.0.0/8", "2001:db8::/32", "2001:db8::1/128"] {
        let text = format!(
            r#"t.toml:5: rule "r": "{network}" is a network, and no value of "ip" equals it; write {{ cidr = "{network}" }}"#
        );
        warns_match(&format!(r#"{{ ip = "{network}" }}"#), &[&text]);
        warns_match(&format!(r#"{{ ip = ["::1", "{network}"] }}"#), &[&text]);
    }
    for prefix in ["2001:DB8:", "2001:0db8:", "[2001:db8:", "10.01.", "fe80::1%", "10.0.0.0/"] {
        let text = format!(
            r#"t.toml:5: rule "r": no value of "ip" begins with "{prefix}": addresses have no port, lower case and no leading zeros; write a network, cidr = "2001:db8::/32""#
        );
        warns_match(&format!(r#"{{ ip = {{ prefix = "{prefix}" }} }}"#), &[&text]);
    }
    for matching in [
        r#"{ ip = { prefix = ["10.", "2001:db8:", "unknown", "::", "fe80::", "10.0."] } }"#,
        r#"{ ip = ["10.0.0.1", "2001:DB8::1", "unknown", "10.0.0.1:80"] }"#,
        r#"{ peer = "10.0.0.0/8" }"#,
    ] {
        warns_match(matching, &[]);
    }
}

#[test]
fn rules_that_count_other_parts_of_an_address_do_not_hide_each_other() {
    let text = r#"
[[rule]]
name = "host"
key = [{ ip = { v6 = 128 } }]
limit = "1/s"

[[rule]]
name = "site"
key = [{ ip = { v6 = 48 } }]
limit = "1/s"
"#;
    warns(text, &[]);
}

const CONTRADICTION: &str =
    r#"t.toml:5: rule "r": no request can reach it: the conditions on "a" contradict each other"#;

#[test]
fn contradictory_conditions_are_warned_of() {
    for matching in [
        r#"{ a = { is = "x", absent = true } }"#,
        r#"{ a = { present = true, absent = true } }"#,
        r#"{ a = { is = "x", one_of = ["y", "z"] } }"#,
        r#"{ a = { prefix = "/api", is = "/app" } }"#,
        r#"{ a = { glob = "*.png", is = "a.jpg" } }"#,
        r#"{ a = { cidr = "10.0.0.0/8", is = "11.0.0.1" } }"#,
        r#"{ a = { one_of = ["x", "y"], prefix = "z" } }"#,
        r#"{ a = { all = [{ prefix = "x" }, { prefix = "y" }] } }"#,
        r#"{ a = { all = [{ cidr = "10.0.0.0/8" }, { cidr = "11.0.0.0/8" }] } }"#,
    ] {
        warns_match(matching, &[CONTRADICTION]);
    }
    let text = r#"t.toml:5: rule "r": no request can reach it: no value of "a" fulfils all conditions on it"#;
    warns_match(r#"{ a = { one_of = ["xz", "y"], prefix = ["x", "q"], glob = ["y*"] } }"#, &[text]);
}

#[test]
fn conditions_that_can_hold_together_are_not_warned_of() {
    for matching in [
        r#"{ a = { present = true, prefix = "x" } }"#,
        r#"{ a = { is = "x", one_of = ["x", "z"] } }"#,
        r#"{ a = { all = [{ prefix = "x" }, { prefix = "xy" }] } }"#,
        r#"{ a = { all = [{ cidr = "10.0.0.0/8" }, { cidr = "10.1.0.0/16" }] } }"#,
        r#"{ a = "x", b = { absent = true } }"#,
    ] {
        warns_match(matching, &[]);
    }
}

#[test]
fn a_key_that_the_match_wants_absent_is_warned_of() {
    warns_match(
        "{ user = { absent = true } }",
        &[
            r#"t.toml:5: rule "r": no request can reach it: `match` wants "user" absent, and `key` counts by it; give it a default"#,
        ],
    );
    warns_match("{ user = { absent = true } }\ndefaults = { user = \"nobody\" }", &[]);
}

#[test]
fn a_rule_behind_a_list_is_warned_of() {
    let behind = |list: &str| {
        format!(
            "[[rule]]\nname = \"r\"\nmatch = {{ ip = {{ cidr = \"10.1.0.0/16\" }}, route = \"/a\" }}\nkey = [\"user\"]\nlimit = \"1/s\"\n{list}\n"
        )
    };
    let message =
        |what| [format!("t.toml:3: rule \"r\": no request can reach it: {what} holds all of them")];
    for (list, what) in [
        (
            "[[allow]]\nname = \"office\"\nmatch = { ip = { cidr = \"10.0.0.0/8\" } }",
            "allow list \"office\"",
        ),
        ("[[deny]]\nmatch = { route = [\"/a\", \"/b\"] }", "deny list \"deny-1\""),
        (
            "[[deny]]\nmatch = { user = { present = true }, route = { prefix = \"/\" } }",
            "deny list \"deny-1\"",
        ),
    ] {
        let lines = message(what);
        warns(&behind(list), &lines.each_ref().map(String::as_str));
    }
    for list in [
        "[[allow]]\nmatch = { ip = { cidr = \"10.1.1.0/24\" } }",
        "[[deny]]\nmatch = { route = \"/a\", tenant = \"x\" }",
        "[[deny]]\nmatch = { route = { prefix = \"/b\" } }",
    ] {
        warns(&behind(list), &[]);
    }
}

#[test]
fn a_wider_limit_beside_a_narrower_one_is_warned_of() {
    let never = |wide: &str, narrow: &str| {
        let message = format!(
            "t.toml:4: rule \"r\": \"{wide}\" can never bind: \"{narrow}\" beside it is at least as strict"
        );
        for pair in [[wide, narrow], [narrow, wide]] {
            warns_rule(&format!("limits = {pair:?}"), &[&message]);
        }
    };
    never("1000/s", "10/s");
    never("10/s burst 20", "10/s");
    never("1000/min", "10/s burst 10");
    never("100/min sliding_log", "1/s burst 40");
    never("100/h sliding_counter", "10/h sliding_log");
    never("1000/day sliding_log", "1/h sliding_log");
    warns_rule(
        "limits = [\"1/s\", \"1/s\"]",
        &[r#"t.toml:4: rule "r": "1/s" can never bind: "1/s" beside it is at least as strict"#],
    );
}

#[test]
fn limits_that_can_both_bind_are_not_warned_of() {
    for limits in [
        r#"["10/s", "1000/h sliding_log"]"#,
        r#"["10/s", "100/min"]"#,
        r#"["10/s burst 100", "20/s burst 50"]"#,
        r#"["100/min sliding_log", "1/s burst 41"]"#,
        r#"["1000/day calendar", "10/s"]"#,
    ] {
        warns_rule(&format!("limits = {limits}"), &[]);
    }
}

/// Two rules; the second begins in line 5.
fn two(first: &str, second: &str) -> String {
    format!("[[rule]]\nname = \"all\"\n{first}\n[[rule]]\nname = \"some\"\n{second}\n")
}

#[test]
fn a_wider_limit_than_that_of_a_rule_for_the_same_requests_is_warned_of() {
    let wide = "match = { route = \"/a\" }\nkey = [\"user\"]\nlimit = \"100/s\"";
    let never = r#"t.toml:9: rule "some": "100/s" can never bind: rule "all" counts the same requests and is at least as strict"#;
    warns(&two("key = [\"user\"]\nlimit = \"10/s\"", wide), &[never]);
    let narrow = "match = { route = { prefix = \"/\" } }\nkey = [\"user\"]\nlimit = \"10/s\"";
    warns(&two(narrow, wide), &[&never.replace(":9", ":10")]);
    for uncertain in [
        "key = [\"ip\"]\nlimit = \"10/s\"",
        "key = [\"user\"]\nlimit = \"10/s\"\nshadow = true",
        "key = [\"user\"]\nlimit = \"10/s\"\ncost = 2",
        "key = [\"user\"]\nlimit = \"10/s\"\ntiers = { pro = \"1000/s\" }",
        "key = [\"user\"]\nlimit = \"10/s\"\nmatch = { route = \"/b\" }",
        "key = [\"user\"]\nlimit = \"10/s\"\nmatch = { route = \"/a\", tenant = \"x\" }",
    ] {
        warns(&two(uncertain, wide), &[]);
    }
    let replaced = two("key = [\"user\"]\nlimit = \"10/s\"", wide);
    warns(&format!("{replaced}[tiers.pro]\nall = \"1000/s\"\n"), &[]);
    warns(
        &format!(
            "{replaced}[[override]]\nclient = {{ user = 1 }}\nlimits = {{ all = \"1000/s\" }}\n"
        ),
        &[],
    );
}

#[test]
fn a_fixed_window_whose_edge_doubles_it_is_warned_of() {
    for (limit, twice) in
        [("5/min fixed_window", 10), ("7/h fixed_window first", 14), ("9/h calendar", 18)]
    {
        let message = format!(
            "t.toml:4: rule \"r\": \"{limit}\" lets {twice} pass within moments, where one window ends and the next begins; sliding_log and sliding_counter do not"
        );
        warns_rule(&format!("limit = \"{limit}\""), &[&message]);
    }
    warns_rule("limit = \"1000/day calendar\"", &[]);
    warns_rule("limits = [\"1000/h fixed_window\", \"10/s\"]", &[]);
}

#[test]
fn an_empty_key_is_warned_of() {
    let message = "`key` is empty, all requests share one limit; name an attribute such as \"user\" to give each its own";
    warns(
        "[[rule]]\nname = \"r\"\nkey = []\nlimit = \"1/s\"",
        &[&format!("t.toml:3: rule \"r\": {message}")],
    );
    warns(
        "[[rule]]\nname = \"r\"\nlimit = \"1/s\"",
        &[&format!("t.toml:1: rule \"r\": {message}")],
    );
    warns("[[rule]]\nname = \"r\"\nlimit = \"unlimited\"", &[]);
}

#[test]
fn a_partition_that_no_key_has_is_warned_of() {
    let rule = "[[rule]]\nname = \"r\"\nkey = [\"tenant\", \"user\"]\nlimit = \"1/s\"";
    warns(&format!("partition = \"tenant\"\n{rule}"), &[]);
    let nothing = |name| format!("t.toml:1: no rule has {name:?} in its `key`, so it does nothing");
    warns(
        &format!("partition = \"tennant\"\n{rule}"),
        &[&format!("{}, did you mean \"tenant\"?", nothing("tennant"))],
    );
    warns(&format!("partition = \"region\"\n{rule}"), &[&nothing("region")]);
}

#[test]
fn a_lease_in_shadow_is_warned_of() {
    warns_rule(
        "limit = \"1/s\"\nshadow = true\nsync = \"leased\"",
        &[
            r#"t.toml:6: rule "r": a rule in shadow asks the store each time, so `sync` does nothing"#,
        ],
    );
}

#[test]
fn a_block_in_shadow_is_warned_of() {
    warns_rule(
        "limit = \"1/s\"\nshadow = true\nblock_for = \"1h\"",
        &[r#"t.toml:6: rule "r": a rule in shadow never denies, so `block_for` does nothing"#],
    );
}

#[test]
fn a_network_that_is_not_what_it_looks_like_is_warned_of() {
    warns_match(
        r#"{ ip = { cidr = "10.1.2.3/8" } }"#,
        &[r#"t.toml:5: rule "r": "10.1.2.3/8" means "10.0.0.0/8", write that or a single address"#],
    );
    warns_match(
        r#"{ ip = { cidr = "::ffff:10.0.0.0/104" } }"#,
        &[
            r#"t.toml:5: rule "r": "::ffff:10.0.0.0/104" holds no address: IPv4 in IPv6 counts as IPv4, write it so"#,
        ],
    );
}

#[test]
fn tiers_without_limits_and_limits_without_use_are_warned_of() {
    let text = r#"default_tier = "fre"
[[rule]]
name = "r"
key = ["user"]
limit = "1/s"
tiers = { pro = "5/s" }
[tiers.free]
r = "2/s"
[tiers.pro]
r = "3/s"
[[override]]
client = { user = "1" }
tier = "gold"
[[override]]
client = { user = "2" }
tier = "gold"
"#;
    warns(
        text,
        &[
            r#"t.toml:1: no rule and no [tiers] has limits for tier "fre", did you mean "free"?"#,
            r#"t.toml:10: rule "r": tier "pro": it is never used, the rule's own `tiers` come first"#,
            r#"t.toml:13: override 1: no rule and no [tiers] has limits for tier "gold""#,
        ],
    );
}

#[test]
fn attribute_that_occurs_once_and_resembles_another_is_warned_of() {
    let text = r#"
[[rule]]
name = "per-user"
match = { user = { present = true } }
key = ["user"]
limit = "1/s"

[[rule]]
name = "search"
match = { rout = "/search" }
key = ["usr"]
limit = "2/s"

[[rule]]
name = "write"
match = { route = "/write" }
key = ["tenant"]
limit = "3/s"

[[deny]]
match = { Tenant = "mallory" }

[[override]]
client = { tennant = "acme" }
limits = { write = "9/s" }
"#;
    warns(
        text,
        &[
            r#"t.toml:11: rule "search": the attribute "usr" occurs only here and resembles "user" in `match` of rule "per-user" and 1 other place; write them alike if they are one"#,
            r#"t.toml:16: rule "write": the attribute "route" occurs only here and resembles "rout" in `match` of rule "search"; write them alike if they are one"#,
            r#"t.toml:21: deny "deny-1": the attribute "Tenant" occurs only here and resembles "tenant" in `key` of rule "write"; write them alike if they are one"#,
            r#"t.toml:24: override 1: the attribute "tennant" occurs only here and resembles "tenant" in `key` of rule "write"; write them alike if they are one"#,
        ],
    );
}

#[test]
fn attributes_of_realistic_policies_resemble_none() {
    let rule = |name: &str, settings: &str| {
        format!("[[rule]]\nname = \"{name}\"\n{settings}\nlimit = \"5/s\"\n\n")
    };
    let policies = [
        // A gateway with versions and API tokens.
        [
            rule("tokens", "key = [\"token\"]\ncost = { attribute = \"tokens\" }"),
            rule("v1", "match = { api_v1 = \"yes\" }\nkey = [\"app_id\"]"),
            rule("v2", "match = { api_v2 = \"yes\" }\nkey = [\"api_id\"]"),
            rule("net", "match = { src_ip = { present = true } }\nkey = [\"dst_ip\"]"),
        ]
        .concat(),
        // Language models.
        [
            rule("chat", "match = { model = \"large\" }\nkey = [\"org\"]"),
            rule("mode", "match = { mode = \"batch\" }\nkey = [\"user\"]"),
        ]
        .concat(),
        // A shop: singular, plural and words with common endings.
        [
            rule("user", "match = { users = \"many\" }\nkey = [\"user\"]"),
            rule("cart", "match = { cart = \"full\", cached = \"no\" }\nkey = [\"customer\"]"),
            rule("cache", "match = { cache = \"cold\" }\nkey = [\"host\"]"),
            rule("geo", "match = { state = \"CA\", stage = \"beta\" }\nkey = [\"zip\", \"ip\"]"),
        ]
        .concat(),
        // Whatever an attribute is called if it occurs more than once.
        [
            rule("one", "match = { usr = \"a\" }\nkey = [\"user\"]"),
            rule("two", "match = { user = \"b\" }\nkey = [\"usr\"]"),
        ]
        .concat(),
    ];
    for policy in policies {
        warns(&policy, &[]);
    }
}
