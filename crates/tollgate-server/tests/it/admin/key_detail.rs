//! The answers that a screen about one client shows: its ruling, its rules, and its other keys.

use serde_json::{Value, json};

use super::keys::keys_of;
use super::*;

/// Rules with wide and narrow keys, a shadow rule, and one that needs a route.
const TENANTS: &str = r#"
tier_from = "plan"

[[rule]]
name = "tenant"
key = ["tenant"]
limit = "5/min"

[[rule]]
name = "user"
key = ["tenant", "user"]
limit = "2/min"

[[rule]]
name = "trial"
key = ["tenant"]
limit = "1/min"
shadow = true

[[rule]]
name = "search"
match = { route = "/search" }
key = ["ip"]
limit = "3/min"

[[rule]]
name = "not-internal"
match = { internal = { not = "yes" } }
key = ["ip"]
defaults = { ip = "none" }
limit = "1000/min"
"#;

fn of_tenants() -> TestServer {
    let server = operated();
    put(&server, "policy", TENANTS);
    server
}

fn decide(server: &TestServer, attributes: &Value) -> Value {
    server.post("/v1/check", &json!({"attributes": attributes}).to_string()).json()
}

fn status(server: &TestServer, attributes: &Value) -> Value {
    post(server, "keys/status", &json!({"attributes": attributes}).to_string())
}

/// `GET path?attributes=…`, with the attributes as JSON.
fn holding(server: &TestServer, path: &str, attributes: &Value) -> Value {
    let mut text = String::new();
    for byte in attributes.to_string().bytes() {
        text.push_str(&format!("%{byte:02x}"));
    }
    get(server, &format!("{path}?attributes={text}"))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|of| of["rule"].as_str().unwrap()).collect()
}

#[test]
fn the_rule_that_denies_comes_first_and_shadow_rules_come_last() {
    let server = of_tenants();
    let client = json!({"tenant": "globex", "user": "scraper-7"});
    let before = status(&server, &client);
    assert_eq!(names(&before["rules"]), ["tenant", "user", "not-internal", "trial"]);
    assert_eq!((&before["allowed"], &before["rule"]), (&json!(true), &json!("tenant")));
    for _ in 0..3 {
        decide(&server, &client);
    }
    let denied = status(&server, &client);
    assert_eq!((&denied["allowed"], &denied["rule"]), (&json!(false), &json!("user")));
    assert_eq!(names(&denied["rules"]), ["user", "tenant", "not-internal", "trial"]);
    assert_eq!(
        (&denied["rules"][0]["allowed"], &denied["rules"][1]["allowed"]),
        (&json!(false), &json!(true))
    );
    let block = json!({"rule": "not-internal", "key": {"ip": "none"}, "for_seconds": 600});
    post(&server, "blocks", &block.to_string());
    let blocked = status(&server, &client);
    assert_eq!((&blocked["reason"], &blocked["rule"]), (&json!("block"), &json!("not-internal")));
    assert_eq!(names(&blocked["rules"]), ["not-internal", "user", "tenant", "trial"]);
}

#[test]
fn a_rule_names_the_attributes_that_it_does_not_look_at() {
    let server = of_tenants();
    let client = json!({"tenant": "globex", "user": "scraper-7", "ip": "::1", "route": "/search", "plan": "pro"});
    let told = status(&server, &client);
    let of_rule = |name: &str| {
        let mut all = told["rules"].as_array().unwrap().iter();
        all.find(|of| of["rule"] == name).unwrap()["ignored_attributes"].clone()
    };
    assert_eq!(
        of_rule("tenant"),
        json!(["ip", "route", "user"]),
        "the tier is no part of a client"
    );
    assert_eq!(of_rule("user"), json!(["ip", "route"]));
    assert_eq!(of_rule("search"), json!(["tenant", "user"]));
}

#[test]
fn without_a_matching_rule_the_answer_names_what_rules_need() {
    let server = operated();
    put(&server, "policy", TENANTS.rsplit_once("[[rule]]").unwrap().0);
    let told = status(&server, &json!({"user": "scraper-7"}));
    assert_eq!((&told["reason"], &told["rules"]), (&json!("no_rule"), &json!([])));
    let needs: Vec<_> =
        told["not_applied"].as_array().unwrap().iter().map(|of| of["needs"].clone()).collect();
    assert_eq!(
        needs,
        [json!(["tenant"]), json!(["tenant", "user"]), json!(["tenant"]), json!(["route", "ip"])]
    );
}

#[test]
fn active_keys_of_every_rule_are_found_by_an_attribute() {
    let server = of_tenants();
    for tenant in ["globex", "acme"] {
        decide(&server, &json!({"tenant": tenant, "user": "scraper-7"}));
        decide(&server, &json!({"tenant": tenant, "user": "scraper-77"}));
    }
    decide(&server, &json!({"ip": "2001:db8::7", "route": "/search"}));
    let found = |attributes: Value| keys_of(&holding(&server, "keys", &attributes));
    let both = [
        r#"user {"tenant":"acme","user":"scraper-7"}"#,
        r#"user {"tenant":"globex","user":"scraper-7"}"#,
    ];
    assert_eq!(sorted(found(json!({"user": "scraper-7"}))), both);
    let of_globex = [
        r#"tenant {"tenant":"globex"}"#,
        r#"trial {"tenant":"globex"}"#,
        r#"user {"tenant":"globex","user":"scraper-7"}"#,
    ];
    let no_other = json!({"tenant": "globex", "user": "scraper-7", "route": "/"});
    assert_eq!(sorted(found(no_other)), of_globex, "none that holds another value");
    // An address is looked for in the form in which the key counts it.
    let search = r#"search {"ip":"2001:db8::/64"}"#;
    assert!(found(json!({"ip": "2001:db8::9"})).iter().any(|key| key == search));
    assert_eq!(found(json!({"user": "nobody"})), Vec::<String>::new());
    assert_eq!(found(json!({})), Vec::<String>::new(), "no attribute is held by no key");
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort();
    keys
}

#[test]
fn denials_are_found_by_an_attribute() {
    let server = of_tenants();
    for user in ["scraper-7", "scraper-77"] {
        for _ in 0..3 {
            decide(&server, &json!({"tenant": user, "user": user}));
        }
    }
    let told = holding(&server, "denials", &json!({"user": "scraper-7"}));
    let denials = told["denials"].as_array().unwrap();
    assert_eq!(denials.len(), 1, "{told}");
    assert_eq!(denials[0]["key"], json!({"tenant": "scraper-7", "user": "scraper-7"}));
}

#[test]
fn a_listed_key_says_whether_it_is_blocked_and_whether_its_rule_is_enforced() {
    let server = of_tenants();
    decide(&server, &json!({"tenant": "globex"}));
    let block = json!({"rule": "tenant", "key": {"tenant": "globex"}, "for_seconds": 600});
    post(&server, "blocks", &block.to_string());
    let listed = holding(&server, "keys", &json!({"tenant": "globex"}));
    let told = |rule: &str| {
        let mut all = listed["keys"].as_array().unwrap().iter();
        let of = all.find(|of| of["rule"] == rule).unwrap();
        (of["blocked_ms"].clone(), of["shadow"].clone())
    };
    assert_eq!(told("tenant"), (json!(600_000), json!(false)));
    assert_eq!(told("trial"), (json!(null), json!(true)));
}

#[test]
fn wrong_attributes_of_a_search_are_rejected() {
    let server = operated();
    let mut texts = Texts::default();
    for (path, attributes) in
        [("keys", "user"), ("keys", "%7B%22user%22:7%7D"), ("denials", "%5B%5D")]
    {
        let line = format!("GET /admin/v1/{path}?attributes={attributes}");
        texts.add(&line, &ask(&server, READ, &line, "").detail(400));
    }
    texts.assert_golden("admin", "attributes of a search");
}

#[test]
fn figures_and_limits_of_an_answer_are_of_one_policy() {
    let server = of_tenants();
    let change = |limit: &str| {
        let body = json!({"client": {"tenant": "globex"}, "limits": {"tenant": limit}});
        put(&server, "overrides", &body.to_string());
    };
    std::thread::scope(|scope| {
        let changes =
            scope.spawn(|| (0..200).for_each(|turn| change(["7/min", "9/min"][turn % 2])));
        while !changes.is_finished() {
            let told = status(&server, &json!({"tenant": "globex"}));
            let rules = told["rules"].as_array().unwrap();
            let rule = rules.iter().find(|of| of["rule"] == "tenant").unwrap();
            let limit = format!("{}/min", rule["limit"]);
            assert_eq!(rule["numbers"], json!([limit]), "{told}");
        }
    });
}
