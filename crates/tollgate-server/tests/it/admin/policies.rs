//! The policy: looking at it, and changing it.

use std::path::PathBuf;

use serde_json::json;
use tollgate::EnvoyFolder;
use tollgate_testkit::eventually;

use super::*;

const OTHER: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"20/min\"\n";

/// A file of its own, gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, text: &str) -> Temporary {
        let path =
            std::env::temp_dir().join(format!("tollgate-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_policy_in_force_is_shown_as_toml_and_as_json() {
    let server = operated();
    let shown = get(&server, "policy");
    assert_eq!(shown["rules"], 3);
    assert_eq!(shown["toml"], server.gate().policy().to_toml());
    assert_eq!(shown["policy"]["rule"][0]["name"], "per-user");
    assert_eq!(shown["policy"]["rule"][0]["match"]["user"]["present"], true);
    assert_eq!(shown["policy"]["rule"][1]["limit"], "2/min");
    let file = ask(&server, READ, "GET /admin/v1/policy.toml", "");
    assert_eq!(file.header("content-type"), Some("application/toml"));
    assert_eq!(file.body, shown["toml"].as_str().unwrap());
}

#[test]
fn a_policy_is_validated_with_every_error_and_its_line_and_changes_nothing() {
    let server = operated();
    let before = server.gate().policy();
    let wrong = "[[rule]]\nname = \"a\"\nlimt = \"1/s\"\n\n[[rule]]\nname = \"b\"\nlimit = \"1/fortnite\"\n";
    let told = post(&server, "policy/validate", wrong);
    assert_eq!(told["valid"], false);
    let errors = told["errors"].as_array().unwrap();
    assert!(errors.len() >= 2, "{errors:?}");
    assert!(errors.iter().any(|of| of["line"] == 3 && of["rule"] == "a"), "{errors:?}");
    assert!(errors.iter().any(|of| of["line"] == 7 && of["rule"] == "b"), "{errors:?}");
    let right = post(&server, "policy/validate", OTHER);
    assert_eq!((&right["valid"], &right["rules"]), (&json!(true), &json!(1)));
    assert_eq!(server.gate().policy(), before);
}

#[test]
fn a_policy_is_applied_as_a_whole_or_refused_as_a_whole() {
    let server = operated();
    check(&server, "ana", 5);
    let done = put(&server, "policy", OTHER);
    assert_eq!((&done["action"], &done["result"]["rules"]), (&json!("apply"), &json!(1)));
    assert_eq!(done["result"]["note"], Value::Null, "no file will overwrite it");
    let after = check(&server, "ana", 1);
    assert_eq!((&after["limit"], &after["remaining"]), (&json!(20), &json!(9)), "half is half");
    let half_right = format!("{OTHER}\n[[rule]]\nname = \"x\"\nlimit = \"nonsense\"\n");
    let refused = ask(&server, WRITE, "PUT /admin/v1/policy", &half_right);
    let problem = refused.problem(422);
    assert_eq!(problem["errors"][0]["line"], 8, "{problem}");
    assert_eq!(check(&server, "ana", 1)["limit"], 20);
    assert_eq!(get(&server, "audit")["changes"].as_array().unwrap().len(), 1);
    let metrics = server.metrics();
    for result in ["changed", "refused"] {
        let series = format!("tollgate_policy_reloads_total{{result=\"{result}\"}}");
        assert_eq!(support::metric_in(&metrics, &series), Some(1), "{result}");
    }
}

#[test]
fn who_names_a_version_replaces_that_version_only() {
    let server = operated();
    let seen = get(&server, "policy")["version"].as_str().unwrap().to_owned();
    put(&server, "policy", OTHER);
    let line = format!("PUT /admin/v1/policy?if_version={seen}");
    let late = ask(&server, WRITE, &line, OTHER).detail(412);
    let now = get(&server, "policy")["version"].as_str().unwrap().to_owned();
    let mut texts = Texts::default();
    texts.add("PUT /admin/v1/policy?if_version={version before}", &late.replace(&now, "{version}"));
    texts.assert_golden("admin", "version");
    put(&server, &format!("policy?if_version={now}"), OTHER);
}

#[test]
fn a_reload_reads_the_file_again_now() {
    let file = Temporary::new("reload", OTHER);
    let server = TestServer::with(|server| server.admin(admin().policy_file(&file.0)));
    let done = post(&server, "reload", "");
    assert_eq!((&done["action"], &done["result"]["rules"]), (&json!("reload"), &json!(1)));
    assert_eq!(check(&server, "ana", 1)["limit"], 20);
    std::fs::write(&file.0, "[[rule]]\nlimit = 7\n").unwrap();
    let refused = ask(&server, WRITE, "POST /admin/v1/reload", "").problem(422);
    assert!(!refused["errors"].as_array().unwrap().is_empty());
    assert_eq!(check(&server, "ana", 1)["limit"], 20);
    let applied = put(&server, "policy", OTHER);
    let note = applied["result"]["note"].as_str().unwrap();
    let mut texts = Texts::default();
    let path = file.0.to_string_lossy();
    texts.add("the note of PUT /admin/v1/policy", &note.replace(&*path, "{file}"));
    texts.assert_golden("admin", "note");
    assert_eq!(get(&server, "policy")["file"], *file.0.to_string_lossy());
}

#[test]
fn a_folder_of_envoys_files_is_read_again_now() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let domain = |name: &str, count: u32| {
        format!(
            "domain: {name}\ndescriptors:\n  - key: user\n    rate_limit: {{ unit: hour, requests_per_unit: {count} }}\n"
        )
    };
    write("edge.yaml", &domain("edge", 5));
    let files = EnvoyFolder::new(folder.path());
    let server = TestServer::with(|server| server.admin(admin().envoy_folder(files)));
    assert_eq!(post(&server, "reload", "")["result"]["rules"], 1);
    write("shop.yaml", &domain("shop", 7));
    let done = post(&server, "reload", "");
    assert_eq!(done["result"]["rules"], 2);
    let added = done["target"]["changes"]["rules"]["added"].as_array().unwrap();
    assert_eq!(added.len(), 1, "{done}");
    write("shop.yaml", "domain: shop\ndescriptors: 5\n");
    let done = post(&server, "reload", "");
    assert_eq!(done["result"]["rules"], 2, "the last good version of the file stays");
    let file = done["result"]["warnings"][0]["file"].as_str().unwrap();
    assert!(file.ends_with("shop.yaml"), "{done}");
    assert_eq!(server.metric("tollgate_envoy_files_rejected"), Some(1));
    assert_eq!(server.metric("tollgate_policy_reloads_total{result=\"refused\"}"), Some(1));
    post(&server, "reload", "");
    let refused = server.metric("tollgate_policy_reloads_total{result=\"refused\"}");
    assert_eq!(refused, Some(1), "it is no other error");
    assert_eq!(get(&server, "policy")["file"], *folder.path().to_string_lossy());
    assert_eq!(get(&server, "policy")["rules"], 2);
}

#[test]
fn strict_folder_of_envoys_files_is_rejected_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.yaml"), "domain: shop\ndescriptors: 5\n").unwrap();
    let files = EnvoyFolder::new(folder.path()).strict();
    let server = TestServer::with(|server| server.admin(admin().envoy_folder(files)));
    let refused = ask(&server, WRITE, "POST /admin/v1/reload", "").problem(422);
    let file = refused["errors"][0]["file"].as_str().unwrap();
    assert!(file.ends_with("shop.yaml"), "{refused}");
}

#[test]
fn the_audit_log_says_what_a_policy_has_changed() {
    let server = operated();
    let other = format!("{OTHER}\n[[rule]]\nname = \"new\"\nlimit = \"1/s\"\n");
    put(&server, "policy", &other);
    let told = get(&server, "audit");
    let changes = &told["changes"][0]["target"]["changes"];
    let rules = json!({
        "added": ["new"], "removed": ["per-ip", "quiet"], "changed": ["per-user"], "omitted": 0,
    });
    assert_eq!(*changes, json!({"rules": rules, "other_settings": ["deny"]}), "{told}");
}

#[test]
fn servers_of_one_policy_have_one_hash() {
    let hash = |server: &TestServer| {
        let metrics = server.metrics();
        let line = metrics.lines().find(|line| line.starts_with("tollgate_policy_info{hash=\""));
        line.unwrap().split('"').nth(1).unwrap().to_owned()
    };
    let (one, other) = (operated(), operated());
    assert_eq!(hash(&one), hash(&other));
    assert_eq!(hash(&one), get(&one, "policy")["version"].as_str().unwrap());
    put(&one, "policy", OTHER);
    assert_ne!(hash(&one), hash(&other));
    put(&other, "policy", &format!("# the same\n{OTHER}"));
    assert_eq!(hash(&one), hash(&other));
}

#[test]
fn without_a_file_there_is_nothing_to_reload() {
    let refused = ask(&operated(), WRITE, "POST /admin/v1/reload", "");
    let mut texts = Texts::default();
    texts.add("POST /admin/v1/reload without a file", &refused.detail(409));
    texts.assert_golden("admin", "reload");
}

#[test]
fn tiers_are_told_with_what_they_change() {
    let server = operated();
    let policy = "default_tier = \"free\"\n[[rule]]\nname = \"api\"\nkey = [\"user\"]\nlimit = \"1/s\"\n\
                  tiers = { pro = [\"10/s\", \"100/min\"] }\n[tiers.free]\napi = \"2/s\"\n[tiers.pro]\napi = \"9/s\"\n";
    put(&server, "policy", policy);
    let expected = json!({
        "tier_from": "tier", "default_tier": "free",
        "tiers": {"free": {"api": "2/s"}, "pro": {"api": ["10/s", "100/min"]}},
    });
    assert_eq!(get(&server, "tiers"), expected);
}

#[test]
fn a_change_is_written_down_also_if_the_operator_hangs_up() {
    let server = operated();
    let rule =
        |number: usize| format!("[[rule]]\nname = \"r{number}\"\nlimit = \"{}/h\"\n", number + 1);
    let many: String = (0..4000).map(rule).collect();
    let mut connection = server.connect();
    let length = many.len();
    connection.write(format!(
        "PUT /admin/v1/policy HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {WRITE}\r\ncontent-length: {length}\r\n\r\n{many}"
    ));
    drop(connection);
    eventually("it is written down", || {
        !get(&server, "audit")["changes"].as_array().unwrap().is_empty()
    });
    assert_eq!(get(&server, "info")["rules"], 4000);
}
