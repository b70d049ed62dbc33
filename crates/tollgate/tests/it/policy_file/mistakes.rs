//! Every kind of mistake in a rule, with exactly what is said of it.

use super::refuses;

/// A rule that is right but for `line`, which is its fifth.
#[track_caller]
fn refuses_rule(line: &str, lines: &[&str]) {
    refuses(&format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"1/s\"\n{line}"), lines);
}

/// A rule that is right but for its limit, from its fourth line.
#[track_caller]
fn refuses_limit(line: &str, lines: &[&str]) {
    refuses(&format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\n{line}"), lines);
}

#[test]
fn a_setting_of_a_rule_says_what_it_must_be() {
    refuses_rule(
        r#"limt = "1/s""#,
        &[r#"t.toml:5: rule "r": unknown key `limt`, did you mean `limit`?"#],
    );
    refuses_rule(
        "foo = 1",
        &[
            r#"t.toml:5: rule "r": unknown key `foo`, use name, public_name, match, key, defaults, limit, limits, tiers, cost, shadow, block_for, on_store_error, sync, lease_ttl, lease_share"#,
        ],
    );
    refuses_rule(
        r#"defaults = { ip = "x" }"#,
        &[
            r#"t.toml:5: rule "r": a default for "ip", which is not in `key`; add it or leave it out"#,
        ],
    );
    refuses_rule(
        "defaults = { user = 1.5 }",
        &[r#"t.toml:5: rule "r": `user` must be text, is a decimal"#],
    );
    refuses_rule(
        "defaults = 1",
        &[
            r#"t.toml:5: rule "r": `defaults` must be a table such as { user = "42" }, is an integer"#,
        ],
    );
}

#[test]
fn the_tiers_of_a_rule_say_what_they_must_be() {
    refuses_rule(
        "tiers = 1",
        &[
            r#"t.toml:5: rule "r": `tiers` must be a table such as { pro = "1000/min" }, is an integer"#,
        ],
    );
    refuses_rule(
        "tiers = { pro = 5 }",
        &[
            r#"t.toml:5: rule "r": tier "pro": `pro` must be text such as "100/min", or a table with count and per, is an integer"#,
        ],
    );
    refuses_rule(
        r#"tiers = { pro = "5/x" }"#,
        &[
            r#"t.toml:5: rule "r": tier "pro": unknown unit "x" in "5/x", use ms, s, min, h, day, week"#,
        ],
    );
    refuses_rule(
        "tiers = { pro = [] }",
        &[r#"t.toml:5: rule "r": "pro" has no limit, write "unlimited" if that is meant"#],
    );
}

#[test]
fn a_choice_says_what_it_must_be() {
    refuses_rule(
        r#"shadow = "yes""#,
        &[r#"t.toml:5: rule "r": `shadow` must be true or false, is text"#],
    );
    refuses_rule(
        r#"on_store_error = "denny""#,
        &[r#"t.toml:5: rule "r": unknown on_store_error "denny", did you mean "deny"?"#],
    );
    refuses_rule(
        r#"on_store_error = "explode""#,
        &[r#"t.toml:5: rule "r": unknown on_store_error "explode", use local, allow or deny"#],
    );
    refuses_rule(
        "on_store_error = 1",
        &[r#"t.toml:5: rule "r": `on_store_error` must be text, is an integer"#],
    );
}

#[test]
fn a_lease_says_what_it_must_be() {
    for (settings, wrong) in [
        (r#"sync = "lease""#, r#"unknown sync "lease", did you mean "leased"?"#),
        (r#"sync = "global""#, r#"unknown sync "global", use strict or leased"#),
        (r#"lease_ttl = "9ms""#, "lease_ttl is 9ms, must be from 10ms to 60s"),
        (r#"lease_ttl = "2m""#, "lease_ttl is 120s, must be from 10ms to 60s"),
        (
            "lease_ttl = 1",
            r#"`lease_ttl` must be a duration in quotes such as "15m", is an integer"#,
        ),
        (r#"lease_share = "101%""#, "lease_share is 101%, must be from 1% to 100%"),
        (r#"lease_share = "10""#, r#"`lease_share` is "10", must be from "1%" to "100%""#),
        (
            "lease_share = 10",
            r#"`lease_share` must be a percentage in quotes such as "10%", is an integer"#,
        ),
        (
            "sync = \"leased\"\nblock_for = \"1m\"",
            "a rule with block_for asks the store each time, leave out sync or block_for",
        ),
        (
            r#"sync = "leased"
tiers = { slow = "10/s leaky_bucket queue" }"#,
            r#""10/s leaky_bucket queue" is a queue, whose turns cannot be leased: use sync = "strict""#,
        ),
        (
            r#"sync = "leased"
tiers = { slow = "10/s sliding_log" }"#,
            r#""10/s sliding_log" cannot be leased for 1s: lease_ttl must be at most half of its window, or use sync = "strict""#,
        ),
    ] {
        refuses_rule(settings, &[&format!(r#"t.toml:5: rule "r": {wrong}"#)]);
    }
}

#[test]
fn a_condition_says_what_it_must_be() {
    refuses_rule(
        "match = 1",
        &[
            r#"t.toml:5: rule "r": `match` must be a table such as { route = "/search" }, is an integer"#,
        ],
    );
    refuses_rule(
        "match = { a = 1.5 }",
        &[
            r#"t.toml:5: rule "r": `a` must be text, an array of texts or a table such as { prefix = "/api/" }, is a decimal"#,
        ],
    );
    refuses_rule(
        "match = { a = {} }",
        &[
            r#"t.toml:5: rule "r": no condition for "a", it must be text, an array of texts or a table such as { prefix = "/api/" }"#,
        ],
    );
    refuses_rule(
        r#"match = { a = { prefx = "x" } }"#,
        &[r#"t.toml:5: rule "r": unknown key `prefx`, did you mean `prefix`?"#],
    );
    refuses_rule(
        r#"match = { a = { cidr = "10.0.0.0/33" } }"#,
        &[
            r#"t.toml:5: rule "r": "10.0.0.0/33" is not a network, write for example 10.0.0.0/8 or 2001:db8::/32"#,
        ],
    );
    refuses_rule(
        r#"match = { a = { cidr = [1, "x"] } }"#,
        &[
            r#"t.toml:5: rule "r": "1" is not a network, write for example 10.0.0.0/8 or 2001:db8::/32"#,
            r#"t.toml:5: rule "r": "x" is not a network, write for example 10.0.0.0/8 or 2001:db8::/32"#,
        ],
    );
}

#[test]
fn a_list_of_values_says_what_it_must_be() {
    refuses_rule(
        "match = { a = [] }",
        &[r#"t.toml:5: rule "r": the list for "a" is empty, nothing can match it"#],
    );
    refuses_rule(
        "match = { a = [[1]] }",
        &[r#"t.toml:5: rule "r": `a` must be an array of texts, is an array"#],
    );
    refuses_rule(
        "match = { a = { present = 1 } }",
        &[r#"t.toml:5: rule "r": `present` must be true or false, is an integer"#],
    );
    refuses_rule(
        "match = { a = { all = 1 } }",
        &[r#"t.toml:5: rule "r": `all` must be an array of conditions, is an integer"#],
    );
    refuses_rule(
        "match = { a = { all = [{ all = [] }] } }",
        &[
            r#"t.toml:5: rule "r": unknown key `all`, use is, one_of, prefix, glob, cidr, present, absent, not"#,
        ],
    );
    refuses_rule(
        "match = { a = { not = { is = 1, prefix = 2 } } }",
        &[
            r#"t.toml:5: rule "r": `not` takes one condition, put several into `all` with a `not` each"#,
        ],
    );
    refuses_rule(
        "match = { a = { not = { not = 1 } } }",
        &[
            r#"t.toml:5: rule "r": unknown key `not`, use is, one_of, prefix, glob, cidr, present, absent"#,
        ],
    );
    refuses_rule(
        r#"match = { a = { one_of = "x" } }"#,
        &[r#"t.toml:5: rule "r": `one_of` must be an array of texts, is text"#],
    );
    refuses_rule(
        "match = { a = { prefix = 1.5 } }",
        &[r#"t.toml:5: rule "r": `prefix` must be text or an array of texts, is a decimal"#],
    );
    refuses_rule(
        r#"match = { "" = "x" }"#,
        &[r#"t.toml:5: rule "r": an attribute's name is empty"#],
    );
}

#[test]
fn a_cost_says_what_it_must_be() {
    refuses_rule("cost = 0", &[r#"t.toml:5: rule "r": cost is 0, must be at least 1"#]);
    refuses_rule("cost = -1", &[r#"t.toml:5: rule "r": `cost` is -1, must be from 0 to 2^64 - 1"#]);
    refuses_rule(
        r#"cost = "1""#,
        &[
            r#"t.toml:5: rule "r": `cost` must be a whole number or a table such as { attribute = "tokens" }, is text"#,
        ],
    );
    refuses_rule(
        "cost = {}",
        &[
            r#"t.toml:5: rule "r": no `attribute`, write for example cost = { attribute = "tokens" }"#,
        ],
    );
    refuses_rule(
        "cost = { attribute = 1, multiplier = 0 }",
        &[r#"t.toml:5: rule "r": `attribute` must be text, is an integer"#],
    );
    refuses_rule(
        r#"cost = { attribute = "t", multiplier = 0 }"#,
        &[r#"t.toml:5: rule "r": multiplier is 0, must be at least 1"#],
    );
}

#[test]
fn a_block_says_what_it_must_be() {
    refuses_rule(
        "block_for = 15",
        &[
            r#"t.toml:5: rule "r": `block_for` must be a duration in quotes such as "15m", is an integer"#,
        ],
    );
    refuses_rule(
        r#"block_for = "15""#,
        &[r#"t.toml:5: rule "r": `block_for`: "15" is not a duration such as 15m or 1h 30m"#],
    );
    refuses_rule(
        r#"block_for = "15x""#,
        &[
            r#"t.toml:5: rule "r": `block_for`: unknown unit "x" in "15x", use ms, s, min, h, day, week"#,
        ],
    );
    refuses_rule(
        r#"block_for = "1month""#,
        &[r#"t.toml:5: rule "r": `block_for`: a month in "1month" has no fixed length, write 30d"#],
    );
    refuses_rule(
        r#"block_for = "0s""#,
        &[r#"t.toml:5: rule "r": block_for is 0s, leave it out where nothing is to be blocked"#],
    );
    refuses_rule(
        "block_for = { factor = 2 }",
        &[
            r#"t.toml:5: rule "r": no `first`, write for example { first = "15m", factor = 2, max = "1d" }"#,
        ],
    );
    refuses_rule(
        r#"block_for = { first = "1m", factor = 2 }"#,
        &[r#"t.toml:5: rule "r": `factor` without `max`, say how long the longest block is"#],
    );
    refuses_rule(
        r#"block_for = { first = "1m", factor = 0, max = "1s" }"#,
        &[
            r#"t.toml:5: rule "r": factor is 0, must be at least 1"#,
            r#"t.toml:5: rule "r": max is 1s, must be at least the first block of 60s"#,
        ],
    );
    refuses_rule(
        r#"block_for = { first = "1m", factor = 5000000000, max = "1h" }"#,
        &[r#"t.toml:5: rule "r": factor is 5000000000, must be at most 4294967295"#],
    );
    refuses_rule(
        r#"block_for = "200000d""#,
        &[r#"t.toml:5: rule "r": a block lasts more than 100 years, use a deny list"#],
    );
}

#[test]
fn a_limit_says_what_it_must_be() {
    refuses(
        r#"[[rule]]
name = "r"
key = ["user"]
limit = "1/s"
limits = ["1/s"]
"#,
        &[r#"t.toml:5: rule "r": both `limit` and `limits`, put all of them into `limits`"#],
    );
    refuses_limit("", &[r#"t.toml:1: rule "r": no limit, write for example limit = "100/min""#]);
    refuses_limit(
        "limit = 5",
        &[
            r#"t.toml:4: rule "r": `limit` must be text such as "100/min", or a table with count and per, is an integer"#,
        ],
    );
    refuses_limit(
        r#"limit = ["1/s"]"#,
        &[r#"t.toml:4: rule "r": `limit` is an array, several go into `limits`"#],
    );
    refuses_limit(
        r#"limits = "1/s""#,
        &[
            r#"t.toml:4: rule "r": `limits` must be an array of limits (a single one goes into `limit`), is text"#,
        ],
    );
    refuses_limit(
        "limits = []",
        &[r#"t.toml:4: rule "r": no limit, write for example limit = "100/min""#],
    );
    refuses_limit(
        r#"limits = ["1/s", "unlimited"]"#,
        &[r#"t.toml:4: rule "r": "unlimited" must stand alone, not among other limits"#],
    );
    refuses_limit(
        r#"limit = "1/mni""#,
        &[r#"t.toml:4: rule "r": unknown unit "mni" in "1/mni", use ms, s, min, h, day, week"#],
    );
}

#[test]
fn a_table_of_a_limit_says_what_it_must_be() {
    refuses_limit(
        "limit = { count = 5 }",
        &[
            r#"t.toml:4: rule "r": no `per`, a limit needs count and per, as in { count = 100, per = "1m" }"#,
        ],
    );
    refuses_limit(
        r#"limit = { per = "1m" }"#,
        &[
            r#"t.toml:4: rule "r": no `count`, a limit needs count and per, as in { count = 100, per = "1m" }"#,
        ],
    );
    refuses_limit(
        r#"limit = { count = "5", per = 1 }"#,
        &[
            r#"t.toml:4: rule "r": `count` must be a whole number, is text"#,
            r#"t.toml:4: rule "r": `per` must be text, is an integer"#,
        ],
    );
    refuses_limit(
        r#"limit = { count = 5, per = "1m", algorithm = "leaky" }"#,
        &[
            r#"t.toml:4: rule "r": unknown algorithm "leaky", use token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_counter"#,
        ],
    );
    refuses_limit(
        r#"[rule.limit]
count = 5
per = "1x""#,
        &[r#"t.toml:6: rule "r": unknown unit "x" in "5/1x", use ms, s, min, h, day, week"#],
    );
    refuses_limit(
        r#"limit = { count = 0, per = "1m" }"#,
        &[r#"t.toml:4: rule "r": count is 0, must be at least 1"#],
    );
    refuses_limit(
        r#"limit = { cont = 5, per = "1m" }"#,
        &[r#"t.toml:4: rule "r": unknown key `cont`, did you mean `count`?"#],
    );
    refuses_limit(
        r#"limit = { count = -5, per = "1m", burst = 1.5 }"#,
        &[
            r#"t.toml:4: rule "r": `count` is -5, must be from 0 to 2^64 - 1"#,
            r#"t.toml:4: rule "r": `burst` must be a whole number, is a decimal"#,
        ],
    );
    refuses_limit(
        r#"limits = ["1/s",
"2/x",
"3/y"]"#,
        &[
            r#"t.toml:5: rule "r": unknown unit "x" in "2/x", use ms, s, min, h, day, week"#,
            r#"t.toml:6: rule "r": unknown unit "y" in "3/y", use ms, s, min, h, day, week"#,
        ],
    );
    refuses_limit(
        r#"limits = ["1/s","1/s","1/s","1/s","1/s","1/s","1/s","1/s","1/s"]"#,
        &[r#"t.toml:4: rule "r": 9 limits, a rule has at most 8"#],
    );
}
