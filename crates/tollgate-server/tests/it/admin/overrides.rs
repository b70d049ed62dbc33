//! Overrides of the policy, and those that are set at run time.

use serde_json::json;

use super::*;

const REMOVE: &str = r#"{"client": {"user": "ana"}}"#;

/// The policy of the server, with an override that gives ana so many.
fn with_entry(count: u64) -> String {
    let policy = support::POLICY;
    format!(
        "{policy}\n[[override]]\nclient = {{ user = \"ana\" }}\nlimits = {{ per-user = \"{count}/min\" }}\n"
    )
}

fn served(count: u64) -> (TestServer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.toml");
    std::fs::write(&file, with_entry(count)).unwrap();
    let server = TestServer::with(|server| server.admin(admin().policy_file(&file)));
    post(&server, "reload", "");
    (server, folder)
}

fn set(server: &TestServer, count: u64) {
    let body = json!({"client": {"user": "ana"}, "limits": {"per-user": format!("{count}/min")}})
        .to_string();
    put(server, "overrides", &body);
}

/// The limit of ana and its source, as the list of overrides and the status of ana tell it.
fn limit_and_source(server: &TestServer) -> (Value, Value) {
    let listed = &get(server, "overrides")["overrides"][0];
    let status = post(server, "keys/status", r#"{"attributes": {"user": "ana"}}"#);
    assert_eq!(status["override_source"], listed["source"]);
    assert_eq!(status["rules"][0]["override_source"], listed["source"]);
    assert_eq!(listed["limits"]["per-user"], status["rules"][0]["numbers"][0]);
    (listed["limits"]["per-user"].clone(), listed["source"].clone())
}

#[test]
fn removing_an_override_of_the_policy_file_is_rejected_with_what_to_do() {
    let (server, folder) = served(20);
    let path = folder.path().join("limits.toml");
    let rejected = ask(&server, WRITE, "POST /admin/v1/overrides/remove", REMOVE).detail(409);
    let mut texts = Texts::default();
    texts.add(
        "POST /admin/v1/overrides/remove",
        &rejected.replace(&*path.to_string_lossy(), "{file}"),
    );
    texts.assert_golden("admin", "override of the policy file");
    assert_eq!(limit_and_source(&server), (json!("20/min"), json!("policy_file")));
    std::fs::write(&path, with_entry(40)).unwrap();
    post(&server, "reload", "");
    assert_eq!(limit_and_source(&server), (json!("40/min"), json!("policy_file")));
}

#[test]
fn override_of_the_policy_file_applies_again_after_one_of_run_time() {
    let (server, _folder) = served(20);
    set(&server, 30);
    assert_eq!(limit_and_source(&server), (json!("30/min"), json!("run_time")));
    assert_eq!(post(&server, "overrides/remove", REMOVE)["result"]["removed"], true);
    assert_eq!(limit_and_source(&server), (json!("20/min"), json!("policy_file")));
}

#[test]
fn changed_entry_of_the_policy_file_replaces_a_run_time_override() {
    let (server, folder) = served(20);
    set(&server, 30);
    std::fs::write(folder.path().join("limits.toml"), with_entry(40)).unwrap();
    post(&server, "reload", "");
    assert_eq!(limit_and_source(&server), (json!("40/min"), json!("policy_file")));
}
