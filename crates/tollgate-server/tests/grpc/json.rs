//! `POST /json`, as the reference server has it.

use serde_json::{Value, json};

use super::support::*;

async fn ask(rls: &Rls, body: &str) -> (u16, Value) {
    let answer = post(rls.http, "/json", body).await;
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

const ANA: &str =
    r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "ana"}]}]}"#;

#[tokio::test]
async fn it_answers_as_the_rate_limit_service_does() {
    let rls = Rls::start().await;
    let (status, answer) = ask(&rls, ANA).await;
    assert_eq!((status, &answer["overallCode"]), (200, &json!("OK")));
    let current = json!({"requestsPerUnit": 3, "unit": "MINUTE", "name": "per-user"});
    let expected = json!([{"code": "OK", "currentLimit": current, "limitRemaining": 2, "durationUntilReset": "60s"}]);
    assert_eq!(answer["statuses"], expected);
    assert_eq!(left(&rls.ask([user("ana")]).await), [1], "it is one state");
    ask(&rls, ANA).await;
    let (status, answer) = ask(&rls, ANA).await;
    assert_eq!((status, &answer["overallCode"]), (429, &json!("OVER_LIMIT")));
    assert_eq!(answer["statuses"][0]["limitRemaining"], Value::Null, "a default is left out");
    assert_eq!(answer["dynamicMetadata"]["rule"], "per-user");
    assert!(answer["rawBody"].is_string());
    let headers = answer["responseHeadersToAdd"].as_array().unwrap();
    assert!(headers.contains(&json!({"key": "retry-after", "value": "60"})), "{headers:?}");
}

#[tokio::test]
async fn names_and_numbers_are_read_in_both_ways_that_protobuf_has() {
    let rls = Rls::start().await;
    let entries = r#""entries": [{"key": "user", "value": "ana"}]"#;
    for (descriptor, left_over) in [
        (r#""hitsAddend": "2""#, 1),
        (r#""hits_addend": 1, "isNegativeHits": true"#, 2),
        (r#""limit": {"requestsPerUnit": 8, "unit": "HOUR"}"#, 7),
        (r#""limit": {"requests_per_unit": "8", "unit": 3}"#, 6),
    ] {
        let body = format!(r#"{{"domain": "edge", "descriptors": [{{{entries}, {descriptor}}}]}}"#);
        let (status, answer) = ask(&rls, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["statuses"][0]["limitRemaining"], left_over, "{descriptor}");
    }
}

#[tokio::test]
async fn every_wrong_body_is_told_what_is_wrong_and_takes_nothing() {
    let rls = Rls::start().await;
    for (body, says) in [
        ("", "empty"),
        ("nonsense", "line 1"),
        ("{}", "the domain is empty"),
        (r#"{"domain": "edge"}"#, "there are no descriptors"),
        (r#"{"domain": "edge", "descriptors": [{}]}"#, "descriptor 1 has no entries"),
        (r#"{"domian": "edge"}"#, "unknown field `domian`"),
        (r#"["edge", [{"entries": [{"key": "user", "value": "a"}]}], 1]"#, "expected an object"),
        (r#"{"domain": "edge", "descriptors": [[[{"key": "a"}]]]}"#, "expected an object"),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [["user", "a"]]}]}"#,
            "expected an object",
        ),
        (r#"{"domain": "edge", "hitsAddend": -1}"#, "a whole number that is not negative"),
        (r#"{"domain": "edge", "hitsAddend": "x"}"#, "a whole number that is not negative"),
        (r#"{"domain": "edge", "hitsAddend": 4294967296}"#, "must be at most 4294967295"),
        (r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#, "one of SECOND, MINUTE"),
        (
            r#"{"domain": "e", "descriptors": [{"entries": [{"key": "a"}], "limit": {"unit": 99}}]}"#,
            "must be one of SECOND (1)",
        ),
    ] {
        let (status, problem) = ask(&rls, body).await;
        assert_eq!(status, 400, "{body}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
        assert_eq!(ask(&rls, problem["example"].as_str().unwrap()).await.0 / 100, 2, "{body}");
        rls.gate.reset_all();
    }
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, 14);
}
