//! Changes of the policy file, in the audit log and in the log.

use serde_json::Value;

use crate::support::{Folder, TestServer, event};

#[test]
fn change_of_the_policy_file_is_in_the_audit_log_with_both_versions() {
    let policy = |limit: &str| format!("[[rule]]\nname = \"r\"\nlimit = \"{limit}\"\n");
    let folder = Folder::with(&[("p.toml", &policy("5/h"))]);
    let token = "a-token-of-the-test-0123456789abcdef";
    let arguments = ["--policy", "p.toml", "--admin-token-read", token];
    let server = TestServer::with_json_log(&folder, &arguments);
    folder.replace("p.toml", policy("6/h"));
    server.events_until(event("INFO", "the policy was changed"));
    let bearer = format!("authorization: Bearer {token}");
    let audit = server.request("GET /admin/v1/audit", &[&bearer], "").json();
    let change = &audit["changes"][0];
    assert_eq!((&change["actor"], &change["action"]), (&"policy file".into(), &"reload".into()));
    assert_eq!((&change["address"], &change["target"]["policy"]), (&Value::Null, &"p.toml".into()));
    assert_eq!(change["target"]["changes"]["rules"]["changed"][0], "r", "{audit}");
    let versions = ["before", "after"].map(|side| change[side]["version"].as_str().unwrap());
    assert_ne!(versions[0], versions[1]);
    let [before, after] = versions;
    let line = format!("admin action: reload by policy file (version {before} → {after})");
    let log = server.events();
    let line = log.iter().find(|event| event["message"] == line.as_str()).expect("it is logged");
    assert_eq!(line["policy"], "p.toml");
}

#[test]
fn changed_override_of_the_policy_file_that_replaces_one_of_run_time_is_logged() {
    let policy = |limit: &str| {
        format!(
            "[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"5/h\"\n\n[[override]]\nclient = {{ user = \"ana\" }}\nlimits = {{ r = \"{limit}\" }}\n"
        )
    };
    let replaced = event(
        "INFO",
        "run-time override replaced: the policy's override of its client has changed",
    );
    let folder = Folder::with(&[("p.toml", &policy("6/h"))]);
    let token = "a-token-of-the-test-0123456789abcdef";
    let arguments =
        ["--policy", "p.toml", "--admin-token-write", token, "--snapshot", "state", "--log-keys"];
    let set = |server: &TestServer| {
        let bearer = format!("authorization: Bearer {token}");
        let body = r#"{"client": {"user": "ana"}, "limits": {"r": "9/h"}}"#;
        let answer = server.request("PUT /admin/v1/overrides", &[&bearer], body);
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let limit = |server: &TestServer| {
        server.post("/v1/peek", r#"{"attributes": {"user": "ana"}}"#).json()["limit"].clone()
    };
    let server = TestServer::with_json_log(&folder, &arguments);
    set(&server);
    assert_eq!(limit(&server), 9);
    folder.replace("p.toml", policy("7/h"));
    let log = server.events_until(&replaced);
    assert!(log.last().unwrap()["client"].as_str().unwrap().contains("ana"), "{log:?}");
    server.events_until(event("INFO", "the policy was changed"));
    assert_eq!(limit(&server), 7);
    set(&server);
    assert_eq!(server.stop().code, Some(0));

    // The file has changed while the server was stopped.
    folder.write("p.toml", policy("8/h"));
    let server = TestServer::with_json_log(&folder, &arguments);
    server.events_until(&replaced);
    assert_eq!(limit(&server), 8);
}
