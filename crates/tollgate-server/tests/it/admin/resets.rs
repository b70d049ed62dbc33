//! Resets that clients of the Redis protocol ask for.

use serde_json::json;
use tollgate_server::Bounds;

use super::*;

#[test]
fn a_client_of_the_redis_protocol_lifts_no_block_that_an_operator_has_set() {
    let server = operated();
    check(&server, "ana", 3);
    post(&server, "blocks", r#"{"rule": "per-user", "key": {"user": "ana"}, "for_seconds": 900}"#);
    assert_eq!(server.resp("TG.RESET per-user ana\r\n"), ":1\r\n");
    assert_eq!(check(&server, "ana", 1)["reason"], "block");
    assert_eq!(server.resp("TG.RESET per-user ana\r\n"), ":0\r\n", "nothing is left to reset");
    post(&server, "blocks/lift", r#"{"rule": "per-user", "key": {"user": "ana"}}"#);
    assert_eq!(check(&server, "ana", 1)["remaining"], 9, "what it had taken is given back");
}

#[test]
fn a_reset_over_the_redis_protocol_is_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let server = TestServer::with(|server| server.admin(admin().audit_file(&file).unwrap()));
    check(&server, "ana", 3);
    assert_eq!(server.resp("TG.RESET per-user ana\r\nTG.RESET per-user ben\r\n"), ":1\r\n:0\r\n");
    let changes = get(&server, "audit")["changes"].clone();
    assert_eq!(changes.as_array().unwrap().len(), 1, "only what was changed: {changes}");
    let change = &changes[0];
    assert_eq!(
        (&change["actor"], &change["address"]),
        (&json!("(redis protocol)"), &json!("127.0.0.1"))
    );
    assert_eq!((&change["action"], &change["result"]), (&json!("reset"), &json!({"keys": 1})));
    assert_eq!(change["target"], json!({"rule": "per-user", "key": {"user": "ana"}}));
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<Value>(written.trim()).unwrap(), *change);
}

#[test]
fn a_flood_of_resets_pushes_no_change_of_an_operator_out_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let bounds = Bounds { attributes: 4, ..Bounds::default() };
    let server =
        TestServer::with(|server| server.bounds(bounds).admin(admin().audit_file(&file).unwrap()));
    post(&server, "keys/reset", r#"{"rule": "per-user", "key": {"user": "ana"}}"#);
    let flood = "TG.CHECK user ana\r\nTG.RESET per-user ana\r\n".repeat(1500);
    assert_eq!(server.resp(&flood).matches(":1\r\n*20").count(), 1499);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.lines().count() < 100, "{} lines", written.lines().count());
    server.clock.advance(std::time::Duration::from_secs(1));
    server.resp("TG.CHECK user ana\r\nTG.RESET per-user ana\r\n");
    let changes = get(&server, "audit?limit=1000")["changes"].clone();
    let changes = changes.as_array().unwrap();
    let omitted = changes[0]["result"]["omitted"].as_u64().unwrap();
    assert_eq!(omitted + u64::try_from(changes.len()).unwrap() - 2, 1500, "all are accounted for");
    assert_eq!(changes.last().unwrap()["actor"], "walt");
}
