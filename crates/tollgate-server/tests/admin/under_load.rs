//! Operators' changes while clients ask: no decision is lost, and none is another than it would be.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const CLIENTS: usize = 3;
const CHECKS: usize = 1500;
/// Less than all clients ask for; the clock stands still, so that nothing comes back.
const ALLOWED: u64 = 3000;

fn policy(more: &str) -> String {
    format!("[[rule]]\nname = \"counted\"\nkey = [\"user\"]\nlimit = \"{ALLOWED}/h\"\n{more}")
}

/// What one client was told: what was left after each that was allowed.
fn ask_all(server: &Running) -> Vec<u64> {
    let body = r#"{"attributes": {"user": "ana"}}"#;
    let length = body.len();
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut connection = server.connect();
    let mut left = Vec::new();
    for _ in 0..CHECKS {
        connection.write(&request);
        let answer = connection.read().expect("every question is answered");
        assert_eq!(answer.status, 200, "{answer:?}");
        let decision = answer.json();
        assert_eq!(decision["rule"], "counted", "{decision}");
        if decision["allowed"] == true {
            left.push(decision["remaining"].as_u64().unwrap());
        }
    }
    left
}

/// Changes everything that is not Ana's, again and again.
fn operate(server: &Running, file: &std::path::Path, done: &AtomicBool) -> usize {
    let another = "[[rule]]\nname = \"another\"\nkey = [\"ip\"]\nlimit = \"1/s\"\n";
    let other = r#"{"rule": "counted", "key": {"user": "ben"}}"#;
    let block = r#"{"rule": "counted", "key": {"user": "ben"}, "for_seconds": 9}"#;
    let over = r#"{"client": {"user": "ben"}, "limits": {"counted": "5/h"}}"#;
    let mut rounds = 0;
    while !done.load(Ordering::Relaxed) {
        put(server, "policy", &policy(another));
        post(server, "blocks", block);
        put(server, "overrides", over);
        post(server, "keys/reset", other);
        post(server, "keys/reset", r#"{"rule": "counted", "prefix": "b"}"#);
        std::fs::write(file, policy("")).unwrap();
        post(server, "reload", "");
        post(server, "overrides/remove", r#"{"client": {"user": "ben"}}"#);
        for path in ["keys", "top", "denials", "policy", "audit"] {
            get(server, path);
        }
        rounds += 1;
    }
    rounds
}

#[test]
fn no_decision_is_lost_or_changed_by_what_operators_do_to_others() {
    let file = std::env::temp_dir().join(format!("tollgate-load-{}.toml", std::process::id()));
    std::fs::write(&file, policy("")).unwrap();
    let server = Running::with(|server| server.admin(admin().policy_file(&file)));
    put(&server, "policy", &policy(""));
    let done = AtomicBool::new(false);
    let (left, rounds) = thread::scope(|scope| {
        let operator = scope.spawn(|| operate(&server, &file, &done));
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| ask_all(&server))).collect();
        let left: Vec<u64> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        (left, operator.join().unwrap())
    });
    std::fs::remove_file(&file).unwrap();
    assert!(rounds >= 1, "the operator had a turn");
    // Each unit was given once: what was left counts down to nothing, without a gap.
    assert_eq!(left.len() as u64, ALLOWED);
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), (0..ALLOWED).collect());
    let metrics = server.ask("GET /metrics", &[]).body;
    let denied = CLIENTS * CHECKS - 3000;
    for (outcome, times) in [("allowed", 3000), ("denied", denied)] {
        let line = metrics.lines().find(|line| {
            line.contains("rule=\"counted\"") && line.contains(&format!("outcome=\"{outcome}\""))
        });
        assert!(line.unwrap().ends_with(&format!(" {times}")), "{line:?}");
    }
}
