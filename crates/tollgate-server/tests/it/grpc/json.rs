//! `POST /json`, as the reference server has it.

use serde_json::{Value, json};

use super::support::*;
use crate::support::Texts;

fn ask(rls: &Rls, body: &str) -> (u16, Value) {
    let answer = rls.server.post("/json", body);
    (answer.status, answer.json())
}

const ANA: &str =
    r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "ana"}]}]}"#;

#[test]
fn it_answers_as_the_rate_limit_service_does() {
    let rls = Rls::start();
    let (status, answer) = ask(&rls, ANA);
    assert_eq!((status, &answer["overallCode"]), (200, &json!("OK")));
    let current = json!({"requestsPerUnit": 3, "unit": "MINUTE", "name": "per-user"});
    let expected = json!([{"code": "OK", "currentLimit": current, "limitRemaining": 2, "durationUntilReset": "60s"}]);
    assert_eq!(answer["statuses"], expected);
    assert_eq!(left(&rls.ask([user("ana")])), [1], "it is one state");
    ask(&rls, ANA);
    let (status, answer) = ask(&rls, ANA);
    assert_eq!((status, &answer["overallCode"]), (429, &json!("OVER_LIMIT")));
    assert_eq!(answer["statuses"][0]["limitRemaining"], Value::Null, "a default is left out");
    assert_eq!(answer["dynamicMetadata"]["rule"], "per-user");
    assert!(answer["rawBody"].is_string());
    let headers = answer["responseHeadersToAdd"].as_array().unwrap();
    assert!(headers.contains(&json!({"key": "retry-after", "value": "60"})), "{headers:?}");
}

#[test]
fn names_and_numbers_are_read_in_both_ways_that_protobuf_has() {
    let rls = Rls::start();
    let entries = r#""entries": [{"key": "user", "value": "ana"}]"#;
    for (descriptor, left_over) in [
        (r#""hitsAddend": "2""#, 1),
        (r#""hits_addend": 1, "isNegativeHits": true"#, 2),
        (r#""limit": {"requestsPerUnit": 8, "unit": "HOUR"}"#, 7),
        (r#""limit": {"requests_per_unit": "8", "unit": 3}"#, 6),
    ] {
        let body = format!(r#"{{"domain": "edge", "descriptors": [{{{entries}, {descriptor}}}]}}"#);
        let (status, answer) = ask(&rls, &body);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["statuses"][0]["limitRemaining"], left_over, "{descriptor}");
    }
}

#[test]
fn every_wrong_body_is_told_what_is_wrong_and_takes_nothing() {
    let rls = Rls::start();
    let mut texts = Texts::default();
    for body in [
        "",
        "nonsense",
        "{}",
        r#"{"domain": "edge"}"#,
        r#"{"domain": "edge", "descriptors": [{}]}"#,
        r#"{"domian": "edge"}"#,
        r#"["edge", [{"entries": [{"key": "user", "value": "a"}]}], 1]"#,
        r#"{"domain": "edge", "descriptors": [[[{"key": "a"}]]]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [["user", "a"]]}]}"#,
        r#"{"domain": "edge", "hitsAddend": -1}"#,
        r#"{"domain": "edge", "hitsAddend": "x"}"#,
        r#"{"domain": "edge", "hitsAddend": 4294967296}"#,
        r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#,
        r#"{"domain": "e", "descriptors": [{"entries": [{"key": "a"}], "limit": {"unit": 99}}]}"#,
    ] {
        let (status, problem) = ask(&rls, body);
        assert_eq!(status, 400, "{body}: {problem}");
        texts.add(&format!("POST /json {body}"), problem["detail"].as_str().unwrap());
        assert_eq!(ask(&rls, problem["example"].as_str().unwrap()).0, 200, "{body}");
        rls.server.gate().reset_all();
    }
    assert_eq!(rls.metric("tollgate_bad_requests_total"), 14);
    texts.assert_golden("grpc", "wrong JSON");
}
