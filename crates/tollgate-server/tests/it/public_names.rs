//! The names of rules that clients see, on every interface.

use serde_json::{Value, json};
use tollgate::{Dialect, HeaderStyle, Policy, Verbosity};

use crate::grpc::support::{RateLimitRequest, RateLimitResponse, Rls, descriptor, header};
use crate::support::TestServer;

/// Nothing of the text "internal" may reach a client.
const YAML: &str = "
domain: edge
descriptors:
  - key: mode
    value: internal-billing
    descriptors:
      - key: key
        value: sk-internal-*
        rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: banned
    value: internal-crawler
    rate_limit: { unit: minute, requests_per_unit: 0 }
  - key: watched
    value: internal-beta
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: login
    value: internal-a
    rate_limit: { name: login, unit: minute, requests_per_unit: 1 }
  - key: login
    value: internal-b
    rate_limit: { name: login, unit: minute, requests_per_unit: 1 }
";

const RULE: &str = "edge|mode=internal-billing|key=sk-internal-*";

/// The attributes of a request that the limit without a name counts.
const ATTRIBUTES: &str = r#"{"domain": "edge", "descriptor": "mode,key", "mode": "internal-billing", "key": "sk-internal-1"}"#;

fn policy() -> Policy {
    Policy::from_envoy("edge.yaml", YAML).unwrap().policy
}

fn rls(style: HeaderStyle) -> Rls {
    Rls::of(TestServer::with_policy(policy(), |server| server.header_style(style)))
}

fn ask(rls: &Rls, entries: &[(&str, &str)]) -> RateLimitResponse {
    let descriptors = vec![descriptor(entries)];
    rls.call(RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }).unwrap()
}

fn ask_billing(rls: &Rls) -> RateLimitResponse {
    ask(rls, &[("mode", "internal-billing"), ("key", "sk-internal-1")])
}

fn name_in_status(response: &RateLimitResponse) -> Option<&str> {
    Some(response.statuses[0].current_limit.as_ref()?.name.as_str())
}

/// Everything of a response that Envoy may pass on to a client.
fn shown(response: &RateLimitResponse) -> String {
    let mut response = response.clone();
    // Envoy puts it into its access log.
    response.dynamic_metadata = None;
    let body = String::from_utf8(std::mem::take(&mut response.raw_body)).unwrap();
    format!("{response:?} {body}")
}

#[track_caller]
fn assert_hidden(text: &str) {
    assert!(!text.contains("internal"), "{text}");
}

#[test]
fn limit_without_a_name_has_none_in_envoy_responses() {
    let dialects = [
        Dialect::Draft11,
        Dialect::Draft07,
        Dialect::Draft06,
        Dialect::XTimestamp,
        Dialect::XSeconds,
        Dialect::Off,
    ];
    for dialect in dialects {
        let rls = rls(HeaderStyle::new().with_dialect(dialect));
        for _ in 0..2 {
            let response = ask_billing(&rls);
            assert_eq!(name_in_status(&response), Some(""), "{dialect:?}");
            assert_hidden(&shown(&response));
            assert!(
                format!("{:?}", response.dynamic_metadata).contains(RULE),
                "for the access log"
            );
        }
        for entry in [("banned", "internal-crawler"), ("watched", "internal-beta")] {
            assert_hidden(&shown(&ask(&rls, &[entry])));
        }
    }
}

#[test]
fn limit_without_a_name_has_a_number_where_a_header_field_needs_a_name() {
    let rls = rls(HeaderStyle::new());
    let response = ask_billing(&rls);
    assert_eq!(header(&response, "ratelimit"), Some("\"limit-1\";r=0;t=60"));
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"limit-1\";q=1;w=60"));
    let denied: Value = serde_json::from_slice(&ask_billing(&rls).raw_body).unwrap();
    assert_eq!(denied["violated-policies"], json!([]));
}

#[test]
fn name_that_several_limits_share_is_shown_as_the_file_gives_it() {
    let rls = rls(HeaderStyle::new());
    for value in ["internal-a", "internal-b"] {
        let allowed = ask(&rls, &[("login", value)]);
        assert_eq!(name_in_status(&allowed), Some("login"));
        assert_eq!(header(&allowed, "ratelimit"), Some("\"login\";r=0;t=60"));
        let denied = ask(&rls, &[("login", value)]);
        assert_hidden(&shown(&denied));
        let problem: Value = serde_json::from_slice(&denied.raw_body).unwrap();
        assert_eq!(problem["violated-policies"], json!(["login"]));
    }
}

#[test]
fn statuses_have_no_limit_for_envoy_to_show_if_header_detail_is_reduced() {
    for verbosity in [Verbosity::Minimal, Verbosity::None] {
        let rls = rls(HeaderStyle::new().with_verbosity(verbosity));
        for _ in 0..2 {
            let response = ask(&rls, &[("login", "internal-a")]);
            assert_eq!(response.statuses[0].current_limit, None, "{verbosity:?}");
            assert_eq!(response.statuses[0].duration_until_reset.map(|it| it.seconds), Some(60));
        }
    }
    let rls = rls(HeaderStyle::new().with_dialect(Dialect::Off));
    assert_eq!(name_in_status(&ask(&rls, &[("login", "internal-a")])), Some("login"));
}

#[test]
fn limit_without_a_name_has_none_over_http() {
    let server = TestServer::with_policy(policy(), |server| server);
    let request = format!(r#"{{"attributes": {ATTRIBUTES}}}"#);
    let json = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "mode", "value": "internal-billing"}, {"key": "key", "value": "sk-internal-1"}]}]}"#;
    for (path, body) in [
        ("/v1/check", request.clone()),
        ("/v1/check", request.clone()),
        ("/v1/check?enforce=true", request.clone()),
        ("/v1/peek", request.clone()),
        ("/v1/check/batch", format!(r#"{{"requests": [{request}]}}"#)),
        ("/v1/reserve", request.clone()),
        ("/v1/refund", request.clone()),
        ("/v1/reserve", request.clone()),
        ("/json", json.to_owned()),
        ("/v1/check", r#"{"attributes": {"domain": "edge", "descriptor": "banned", "banned": "internal-crawler"}}"#.to_owned()),
        ("/v1/check", r#"{"attributes": {"domain": "edge", "descriptor": "watched", "watched": "internal-beta"}}"#.to_owned()),
    ] {
        let answer = server.post(path, &body);
        assert!([200, 429].contains(&answer.status), "{path}: {} {}", answer.status, answer.body);
        assert_hidden(&format!("{:?} {}", answer.headers, answer.body));
    }
    let checked = server.post("/v1/check", &request);
    let told = checked.json();
    assert_eq!((&told["rule"], &told["reason"]), (&Value::Null, &json!("limits")));
    assert_eq!((&told["limit"], &told["remaining"]), (&json!(1), &json!(0)));
    assert_eq!(told["rules"][0]["rule"], Value::Null);
    assert_eq!(checked.header("ratelimit"), Some("\"limit-1\";r=0;t=60"));
}

#[test]
fn limit_without_a_name_has_none_over_the_redis_protocol() {
    let server = TestServer::with_policy(policy(), |server| server);
    let attributes = "domain edge descriptor mode,key mode internal-billing key sk-internal-1";
    for command in ["TG.CHECK", "TG.CHECK", "TG.PEEK", "TG.STATUS"] {
        let told = server.resp(&format!("{command} {attributes}\r\n"));
        assert!(told.contains("$4\r\nrule\r\n$-1\r\n"), "{told:?}");
        assert_hidden(&told);
    }
}

#[test]
fn operators_see_the_whole_name_of_a_limit_without_a_public_one() {
    let rls = rls(HeaderStyle::new());
    ask_billing(&rls);
    assert_eq!(rls.server.decisions(RULE, "allowed", "grpc"), 1);
}
