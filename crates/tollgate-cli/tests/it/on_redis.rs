//! The conformance files and the shipped policies' tests, on a real Redis server.

use std::path::{Path, PathBuf};

use crate::support::{Folder, Said, assert_golden};
use tollgate_testkit::{RedisCluster, RedisServer, command};

fn files(folder: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let paths = files.map(|file| file.expect("a file").path());
    let texts = paths.map(|path: PathBuf| path.to_string_lossy().into_owned());
    texts.filter(|path| is_wanted(path)).collect()
}

fn test_on(url: &str, files: &[String]) -> Said {
    let files = files.iter().map(String::as_str);
    Folder::new()
        .tollgate(&["test", "--json", "--store", url].into_iter().chain(files).collect::<Vec<_>>())
}

#[test]
fn the_conformance_files_pass_on_redis() {
    // The moments of that file lie between two microseconds.
    let specs = files("tests/spec", |path| !path.ends_with("nanoseconds.toml"));
    assert!(specs.len() >= 15, "{specs:?}");
    let said = test_on(&RedisServer::shared().url(), &specs);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.json()["failed"], 0, "{}", said.out);
}

#[test]
fn every_shipped_policy_passes_its_tests_on_redis() {
    let tests = files("../../examples/policies", |path| path.ends_with(".test.toml"));
    assert!(tests.len() >= 5, "{tests:?}");
    let said = test_on(&RedisServer::shared().url(), &tests);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn a_leased_rule_is_tested_strictly() {
    let mut text = "[policy]\nsync = \"leased\"\n[[policy.rule]]\nname = \"a\"\nkey = [\"user\"]\nlimit = \"1000/h\"\n[[test]]\nname = \"t\"\n".to_owned();
    for left in (900..1000).rev() {
        text += "[[test.step]]\nrequest = { user = \"ana\" }\n";
        text += &format!("expect = {{ allowed = true, remaining = {left} }}\n");
    }
    let folder = Folder::with(&[("leased.test.toml", &text)]);
    let url = RedisServer::shared().url();
    let said = folder.tollgate(&["test", "--store", &url, "leased.test.toml"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn a_server_that_is_not_there_is_said_and_its_password_is_not() {
    let url = "redis://:very-secret@127.0.0.1:1";
    let said = test_on(url, &files("tests/spec", |path| path.ends_with("lists.toml")));
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(!said.err.contains("secret"), "{}", said.err);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/");
    assert_golden("test/no_store", &said.err.replace(folder, ""));
}

#[test]
fn tests_on_redis_may_begin_in_the_future_and_every_step_asks_the_server() {
    let text = "start = \"2150-01-01T00:00:00Z\"\n[policy]\n[[policy.rule]]\nname = \"a\"\nkey = [\"user\"]\n\
        limit = \"2/min sliding_log\"\n[[policy.rule]]\nname = \"b\"\nkey = [\"user\"]\nlimit = \"3/h\"\n\
        block_for = \"1h\"\n[[test]]\nname = \"t\"\n";
    let step = |at: &str, expect: &str| {
        format!(
            "[[test.step]]\nat = \"{at}\"\nrequest = {{ user = \"ana\" }}\nexpect = {{ {expect} }}\n"
        )
    };
    let steps = [
        ("0s", "allowed = true, remaining = 1"),
        ("1s", "allowed = true, remaining = 0"),
        ("2s", "allowed = false, retry_after = \"58s\""),
        ("60s", "allowed = true"),
        ("61s", "allowed = false, reason = \"limits\""),
        ("1h", "allowed = false, reason = \"block\""),
        ("1h1m1s", "allowed = true"),
    ];
    let text = steps.iter().fold(text.to_owned(), |text, (at, expect)| text + &step(at, expect));
    let folder = Folder::with(&[("future.test.toml", &text)]);
    let redis = RedisServer::start();
    for (store, calls) in [("memory", 0), (redis.url().as_str(), steps.len())] {
        let said = folder.tollgate(&["test", "--store", store, "future.test.toml"]);
        assert_eq!(said.code, Some(0), "{store}: {}{}", said.out, said.err);
        let stats = command(redis.port(), "INFO commandstats");
        let asked = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let asked = asked.and_then(|line| line.split(',').next()?.parse::<usize>().ok());
        assert!(asked.unwrap_or(0) >= calls, "{stats}");
    }
}

#[test]
fn the_conformance_files_pass_on_a_cluster() {
    let specs = files("tests/spec", |path| !path.ends_with("nanoseconds.toml"));
    let cluster = RedisCluster::start(3);
    let said = test_on(&cluster.url(), &specs);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}
