//! Operators' changes while clients ask: no decision is lost, and none is another than it would be.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate_testkit::eventually;

use super::*;

const CLIENTS: usize = 3;
const CHECKS: usize = 1500;
/// Less than all clients ask for; the clock stands still, so that nothing comes back.
const ALLOWED: u64 = 3000;

fn policy(more: &str) -> String {
    format!("[[rule]]\nname = \"counted\"\nkey = [\"user\"]\nlimit = \"{ALLOWED}/h\"\n{more}")
}

/// What one client was told: what was left after each that was allowed.
fn ask_all(server: &TestServer, rounds: &AtomicUsize) -> Vec<u64> {
    let body = r#"{"attributes": {"user": "ana"}}"#;
    let length = body.len();
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut connection = server.connect();
    let mut left = Vec::new();
    for check in 0..CHECKS {
        if check == CHECKS / 2 {
            // However fast this client is, the operator has changed something by now.
            eventually("a round of the operator", || rounds.load(Ordering::Relaxed) > 0);
        }
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
fn operate(server: &TestServer, file: &Path, done: &AtomicBool, rounds: &AtomicUsize) {
    let another = "[[rule]]\nname = \"another\"\nkey = [\"ip\"]\nlimit = \"1/s\"\n";
    let other = r#"{"rule": "counted", "key": {"user": "ben"}}"#;
    let block = r#"{"rule": "counted", "key": {"user": "ben"}, "for_seconds": 9}"#;
    let over = r#"{"client": {"user": "ben"}, "limits": {"counted": "5/h"}}"#;
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
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn no_decision_is_lost_or_changed_by_what_operators_do_to_others() {
    let file = std::env::temp_dir().join(format!("tollgate-load-{}.toml", std::process::id()));
    std::fs::write(&file, policy("")).unwrap();
    let server = TestServer::with(|server| server.admin(admin().policy_file(&file)));
    put(&server, "policy", &policy(""));
    let (done, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let left: Vec<u64> = thread::scope(|scope| {
        scope.spawn(|| operate(&server, &file, &done, &rounds));
        let clients = [(); CLIENTS].map(|()| scope.spawn(|| ask_all(&server, &rounds)));
        let left = clients.map(|client| client.join());
        done.store(true, Ordering::Relaxed);
        left.into_iter().flat_map(Result::unwrap).collect()
    });
    std::fs::remove_file(&file).unwrap();
    // Each unit was given once: what was left counts down to nothing, without a gap.
    assert_eq!(left.len() as u64, ALLOWED);
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), (0..ALLOWED).collect());
    let all = (CLIENTS * CHECKS) as u64;
    for (outcome, times) in [("allowed", ALLOWED), ("denied", all - ALLOWED)] {
        assert_eq!(server.decisions("counted", outcome, "http"), times, "{outcome}");
    }
}
