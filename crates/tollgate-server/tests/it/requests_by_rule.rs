//! Requests by rule: the same counts over every interface and every store, equal to those of a
//! model.

use std::collections::BTreeMap;

use ::http::HeaderName;
use serde_json::{Value, json};
use tollgate_server::{Admin, AdminRole, AdminTokens, ServerBuilder};
use tollgate_testkit::{RedisServer, eventually};

use crate::grpc::support::{RlsClient, descriptor, request, run};
use crate::support::{Answer, TestServer, metric_in, policy, redis_gate};

/// Limits that give back next to nothing while a test runs, also on the clock of Redis.
const POLICY: &str = r#"
[[deny]]
name = "banned"
match = { user = "mallory" }

[[rule]]
name = "tenant"
key = ["tenant"]
limit = "40/day"

[[rule]]
name = "user"
key = ["tenant", "user"]
limit = "15/day"

[[rule]]
name = "trial"
key = ["tenant"]
limit = "20/day"
shadow = true
"#;

/// The attributes of a request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tenant: &'static str,
    user: Option<&'static str>,
}

impl Asked {
    fn attributes(self) -> Vec<(&'static str, &'static str)> {
        let user = self.user.map(|user| ("user", user));
        [("tenant", self.tenant)].into_iter().chain(user).collect()
    }
}

/// Requests of tenants with different numbers of users, some of them denied by a list.
fn requests() -> Vec<Asked> {
    let users =
        [Some("ana"), Some("ana"), Some("ana"), Some("ben"), Some("cleo"), Some("mallory"), None];
    let tenants = ["acme", "acme", "acme", "globex", "initech"];
    let request = |turn: usize| Asked {
        tenant: tenants[turn * 7 % tenants.len()],
        user: users[(turn * 3 + turn / 5) % users.len()],
    };
    (0..210).map(request).collect()
}

/// The counts of a rule, under the names that the server has for them.
#[derive(Debug)]
struct Expected(BTreeMap<&'static str, u64>);

impl Expected {
    fn of(names: &[&'static str]) -> Expected {
        Expected(names.iter().map(|name| (*name, 0)).collect())
    }

    fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }
}

/// A slow and obvious account of the policy.
struct Model {
    used: BTreeMap<(&'static str, String), u64>,
    tenant: Expected,
    user: Expected,
    trial: Expected,
    /// Requests and denials of each key of each rule.
    keys: BTreeMap<(&'static str, String), (u64, u64)>,
}

impl Model {
    fn new() -> Model {
        let enforced = ["allowed", "denied", "denied_by_others"];
        Model {
            used: BTreeMap::new(),
            tenant: Expected::of(&enforced),
            user: Expected::of(&enforced),
            trial: Expected::of(&["would_allow", "would_deny", "would_deny_alone"]),
            keys: BTreeMap::new(),
        }
    }

    fn has_room(&self, rule: &'static str, key: &str, limit: u64) -> bool {
        self.used.get(&(rule, key.to_owned())).is_none_or(|used| *used < limit)
    }

    fn take(&mut self, rule: &'static str, key: &str) {
        *self.used.entry((rule, key.to_owned())).or_default() += 1;
    }

    fn note(&mut self, rule: &'static str, key: &str, is_allowed: bool) {
        let (seen, denied) = self.keys.entry((rule, key.to_owned())).or_default();
        *seen += 1;
        *denied += u64::from(!is_allowed);
    }

    fn decide(&mut self, asked: Asked) {
        if asked.user == Some("mallory") {
            return;
        }
        let of_user = asked.user.map(|user| format!("{} {user}", asked.tenant));
        let tenant = self.has_room("tenant", asked.tenant, 40);
        let user = of_user.as_ref().map(|key| self.has_room("user", key, 15));
        let trial = self.has_room("trial", asked.tenant, 20);
        let is_allowed = tenant && user != Some(false);
        let outcome = |by_itself| match (by_itself, is_allowed) {
            (true, true) => "allowed",
            (true, false) => "denied_by_others",
            (false, _) => "denied",
        };
        self.tenant.add(outcome(tenant));
        self.note("tenant", asked.tenant, tenant);
        if let (Some(user), Some(key)) = (user, &of_user) {
            self.user.add(outcome(user));
            self.note("user", key, user);
        }
        self.trial.add(if trial { "would_allow" } else { "would_deny" });
        self.note("trial", asked.tenant, trial);
        if !trial && is_allowed {
            self.trial.add("would_deny_alone");
        }
        if is_allowed {
            self.take("tenant", asked.tenant);
            if let Some(key) = &of_user {
                self.take("user", key);
            }
            if trial {
                self.take("trial", asked.tenant);
            }
        }
    }

    /// The keys of a rule as `GET /admin/v1/top` lists them, by the first word of their values.
    fn top(&self, rule: &str, column: fn((u64, u64)) -> u64) -> Vec<(String, u64)> {
        let keys = self.keys.iter().filter(|((of, _), _)| *of == rule);
        let mut keys: Vec<_> =
            keys.map(|((_, key), counts)| (key.clone(), column(*counts))).collect();
        keys.retain(|(_, count)| *count > 0);
        keys.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        keys
    }
}

const TOKEN: &str = "read-read-read-read";

fn operated(server: ServerBuilder) -> ServerBuilder {
    let mut tokens = AdminTokens::new();
    tokens.add("rita", AdminRole::Read, TOKEN).unwrap();
    server
        .admin(Admin::new().tokens(tokens))
        .header_attribute("tenant", HeaderName::from_static("x-tenant"))
        .header_attribute("user", HeaderName::from_static("x-user"))
}

/// Asks over one of the interfaces, another one in each turn.
fn ask(server: &TestServer, rls: &RlsClient, asked: Asked, turn: usize) {
    let attributes = asked.attributes();
    let object: Value = attributes.iter().copied().collect();
    match turn % 7 {
        0 => drop(server.post("/v1/check", &json!({ "attributes": object }).to_string())),
        1 => {
            let batch = json!({ "requests": [{ "attributes": object }] });
            assert_eq!(server.post("/v1/check/batch", &batch.to_string()).status, 200);
        }
        2 => {
            let told = server.post("/v1/reserve", &json!({ "attributes": object }).to_string());
            if let Some(id) = told.json()["id"].as_str() {
                assert_eq!(server.post(&format!("/v1/reserve/{id}/commit"), "").status, 200);
            }
        }
        3 => {
            let headers: Vec<String> =
                attributes.iter().map(|(name, value)| format!("x-{name}: {value}")).collect();
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            server.ask("GET /v1/authorize", &headers);
        }
        4 => {
            let entries = attributes.iter().map(|(key, value)| json!({"key": key, "value": value}));
            let entries: Vec<Value> = entries.collect();
            let body = json!({"domain": "edge", "descriptors": [{"entries": entries}]});
            server.post("/json", &body.to_string());
        }
        5 => drop(run(rls.call(request([descriptor(&attributes)]))).unwrap()),
        _ => {
            let words = attributes.iter().map(|(name, value)| format!(" {name} {value}"));
            let told = server.resp(&format!("TG.CHECK{}\r\n", words.collect::<String>()));
            assert!(told.contains("allowed"), "{told}");
        }
    }
}

/// The answer to an operator.
fn look(server: &TestServer, path: &str) -> Answer {
    let token = format!("authorization: Bearer {TOKEN}");
    server.ask(&format!("GET /admin/v1/{path}"), &[&token])
}

fn get(server: &TestServer, path: &str) -> Value {
    let answer = look(server, path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// The next event.
fn event(server: &TestServer) -> Value {
    let mut connection = server.connect();
    connection.write(format!(
        "GET /admin/v1/events?limit=1 HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    assert_eq!(connection.read().expect("an answer").status, 200);
    loop {
        let line = connection.line().expect("an event");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

fn of_rule<'e>(event: &'e Value, rule: &str) -> Option<&'e Value> {
    event["rules"].as_array().unwrap().iter().find(|of| of["rule"] == rule)
}

/// Every place that shows counts by rule shows those of the model.
fn assert_counts(server: &TestServer, model: &Model) {
    let (metrics, event) = (server.metrics(), event(server));
    let enforced = [("tenant", &model.tenant), ("user", &model.user)];
    for (rule, expected) in enforced {
        for (outcome, count) in &expected.0 {
            let labels = format!("rule=\"{rule}\",outcome=\"{outcome}\"");
            let series = format!("tollgate_rule_requests_total{{{labels}}}");
            assert_eq!(metric_in(&metrics, &series), Some(*count), "{series} in {metrics}");
        }
        let of = of_rule(&event, rule).unwrap();
        assert_eq!((&of["requests"], &of["shadow"]), (&json!(expected.0), &Value::Null), "{rule}");
    }
    let of = of_rule(&event, "trial").unwrap();
    assert_eq!(of["shadow"], json!(model.trial.0));
    for outcome in ["would_allow", "would_deny"] {
        let series =
            format!("tollgate_rule_requests_total{{rule=\"trial\",outcome=\"{outcome}\"}}");
        assert_eq!(metric_in(&metrics, &series), Some(model.trial.0[outcome]), "{series}");
    }
    let series = "tollgate_shadow_denied_alone_total{rule=\"trial\"}";
    assert_eq!(metric_in(&metrics, series), Some(model.trial.0["would_deny_alone"]));
}

/// The keys that the server lists, with one of their counts.
fn listed(server: &TestServer, query: &str, count: &str) -> Vec<(String, u64)> {
    let told = get(server, &format!("top?{query}"));
    let keys = told["keys"].as_array().unwrap().iter();
    let name = |key: &Value| {
        let values = ["tenant", "user"].map(|attribute| key["key"][attribute].as_str());
        values.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    keys.map(|key| (name(key), key[count].as_u64().unwrap())).collect()
}

fn assert_top(server: &TestServer, model: &Model) {
    let (seen, denied) = (|of: (u64, u64)| of.0, |of: (u64, u64)| of.1);
    for rule in ["tenant", "user", "trial"] {
        let query = format!("rule={rule}");
        assert_eq!(listed(server, &query, "seen"), model.top(rule, seen), "{rule}");
    }
    let by_denials = listed(server, "rule=user&by=denials", "denied");
    assert_eq!(by_denials, model.top("user", denied));
    assert_eq!(listed(server, "by=would_deny", "would_deny"), model.top("trial", denied));
    assert_eq!(listed(server, "by=would_deny&rule=user", "would_deny"), []);
    let all = get(server, "top?limit=100");
    let keys = all["keys"].as_array().unwrap();
    assert!(keys.iter().all(|key| key["rule"] != "trial"), "each tenant once: {all}");
}

/// Asks everything on a server, and compares its counts with the model's.
fn run_on(server: &TestServer) {
    let (mut model, rls) = (Model::new(), RlsClient::connect(server.grpc));
    for (turn, asked) in requests().into_iter().enumerate() {
        ask(server, &rls, asked, turn);
        model.decide(asked);
    }
    for (expected, names) in [
        (&model.tenant, ["allowed", "denied", "denied_by_others"]),
        (&model.user, ["allowed", "denied", "denied_by_others"]),
        (&model.trial, ["would_allow", "would_deny", "would_deny_alone"]),
    ] {
        assert!(names.iter().all(|name| expected.0[name] > 0), "it says little: {expected:?}");
    }
    assert_counts(server, &model);
    assert_top(server, &model);
    assert!(server.decisions("banned", "denied", "http") > 0, "a list decides before all rules");
}

#[test]
fn requests_count_for_every_rule_that_charges_them_over_all_interfaces() {
    run_on(&TestServer::with_policy(policy(POLICY), operated));
}

#[test]
fn requests_count_for_every_rule_that_charges_them_on_redis() {
    let url = RedisServer::shared().url();
    let gate = redis_gate(&url, "requests_by_rule", policy(POLICY));
    run_on(&TestServer::over(gate, operated));
}

#[test]
fn requests_count_for_every_rule_that_charges_them_while_redis_is_unavailable() {
    let gate = redis_gate("redis://127.0.0.1:1/0", "requests_by_rule", policy(POLICY));
    run_on(&TestServer::over(gate, operated));
}

#[test]
fn removed_rules_leave_all_lists_and_start_at_zero_when_they_come_back() {
    let server = TestServer::with_policy(policy(POLICY), operated);
    let (all, without_user) = (policy(POLICY), {
        let mut policy = policy(POLICY);
        policy.rules.retain(|rule| rule.name != "user");
        policy.deny.clear();
        policy
    });
    let body = r#"{"attributes": {"tenant": "acme", "user": "ana"}}"#;
    (0..20).for_each(|_| drop(server.post("/v1/check", body)));
    server.post("/v1/check", r#"{"attributes": {"user": "mallory"}}"#);
    let before = event(&server);
    assert!(of_rule(&before, "user").is_some() && of_rule(&before, "banned").is_some());
    server.gate().replace(without_user).unwrap();
    let metrics = server.metrics();
    // An event of the last second is sent first.
    let after = eventually("an event of the new policy", || {
        Some(event(&server)).filter(|event| event["policy"]["rules"] == 2)
    });
    for removed in ["user", "banned"] {
        assert!(!metrics.contains(&format!("rule=\"{removed}\"")), "{removed} in {metrics}");
        assert_eq!(of_rule(&after, removed), None);
        assert!(
            after["refused"]["keys"].as_array().unwrap().iter().all(|of| of["rule"] != removed)
        );
        for by in ["traffic", "denials"] {
            let keys = get(&server, &format!("top?by={by}"))["keys"].to_string();
            assert!(!keys.contains(&format!("\"{removed}\"")), "{keys}");
        }
    }
    assert_eq!(after["totals"], before["totals"], "totals never shrink");
    assert!(of_rule(&after, "tenant").is_some());
    server.gate().replace(all).unwrap();
    eventually("an event of the last policy", || {
        let event = event(&server);
        assert_eq!(of_rule(&event, "user"), None, "nothing was counted since");
        event["policy"]["rules"] == 3
    });
    server.post("/v1/check", r#"{"attributes": {"tenant": "globex", "user": "ana"}}"#);
    let requests = eventually("an event with the request", || {
        of_rule(&event(&server), "user").map(|of| of["requests"].clone())
    });
    assert_eq!(requests, json!({"allowed": 1, "denied": 0, "denied_by_others": 0}));
}

#[test]
fn loudest_client_is_found_even_if_no_limit_applies_to_it() {
    let text = r#"
[[rule]]
name = "tenant"
key = ["tenant"]
limit = "2/day"
tiers = { partner = "unlimited" }
"#;
    let server = TestServer::with_policy(policy(text), operated);
    let check = |tenant: &str, tier: &str| {
        let attributes = json!({"tenant": tenant, "tier": tier});
        server.post("/v1/check", &json!({ "attributes": attributes }).to_string());
    };
    (0..9).for_each(|_| check("initech", "partner"));
    (0..4).for_each(|_| check("acme", ""));
    let expected = [("initech".to_owned(), 9), ("acme".to_owned(), 4)];
    assert_eq!(listed(&server, "rule=tenant", "seen"), expected);
    let requests = of_rule(&event(&server), "tenant").unwrap()["requests"].clone();
    assert_eq!(requests, json!({"allowed": 2, "denied": 2, "denied_by_others": 0}), "charged");
}

#[test]
fn top_keys_of_a_rule_that_is_not_there_are_an_error() {
    let server = TestServer::with_policy(policy(POLICY), operated);
    let answer = look(&server, "top?rule=tenants");
    assert!(answer.detail(404).contains("tenant, user, trial"), "{answer:?}");
    assert_eq!(get(&server, "top?rule=banned")["keys"], json!([]), "a list has keys, too");
}
