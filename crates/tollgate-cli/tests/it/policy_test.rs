//! `tollgate test`, as somebody at a terminal or a CI system sees it.

use std::path::Path;

use crate::support::{Folder, assert_golden, assert_transcript, command, tollgate_in};

const POLICY: &str = r#"
[[rule]]
name = "per-user"
key = ["user"]
limit = "10/min"
"#;

const PASSING: &str = r#"
policy = "tollgate.toml"
[[test]]
name = "a burst of ten"
[[test.step]]
request = { user = "42" }
times = 10
expect = { allowed = true, remaining = 0, allowed_count = 10 }
[[test.step]]
request = { user = "42" }
expect = { allowed = false, retry_after = "6s" }
[[test]]
name = "others are not concerned"
[[test.step]]
request = { user = "43" }
expect = { allowed = true }
"#;

const FAILING: &str = r#"
policy = "tollgate.toml"
[[test]]
name = "wrong <on> purpose"
[[test.step]]
request = { user = "42" }
[[test.step]]
at = "1.5s"
request = { user = "42", route = "/a b" }
times = 2
expect = { allowed = false, remaining = 9, retry_after = "1h30m", rules = { nobody = { limit = 1 } } }
[[test]]
name = "right"
[[test.step]]
request = { user = "42" }
expect = { remaining = 9 }
"#;

fn folder() -> Folder {
    Folder::with(&[("tollgate.toml", POLICY), ("passing.toml", PASSING), ("failing.toml", FAILING)])
}

#[test]
fn tests_that_pass_are_a_line_each() {
    let said = folder().tollgate(&["test", "passing.toml"]);
    let lines =
        "✓ a burst of ten (2 steps)\n✓ others are not concerned (1 step)\n2 passed, 0 failed\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(0), lines, ""));
}

// 10/min is one every 6 s: after 1 at 0s and 2 at 1.5s, 2.75 are gone, so 7 remain.
#[test]
fn a_test_that_fails_shows_what_was_expected_and_what_came() {
    let said = folder().tollgate(&["test", "failing.toml"]);
    let lines = "\
✗ wrong <on> purpose (2 steps)
    failing.toml:7: step 2 at 1.5s: check user=42 route=/a b, 2 times
      allowed             expected false, got true
      remaining           expected 9, got 7
      retry_after         expected 1h30m, got 0s
      rules.nobody.limit  expected 1, got \"the rule does not apply\"
✓ right (1 step)
1 passed, 1 failed
";
    assert_eq!((said.code, said.out.as_str()), (Some(1), lines));
}

#[test]
fn several_files_are_run_and_counted_together() {
    let said = folder().tollgate(&["test", "passing.toml", "failing.toml"]);
    assert_eq!(said.code, Some(1));
    assert_transcript("test/several_files", [said]);
}

#[test]
fn a_file_that_cannot_be_understood_does_not_keep_the_others_from_running() {
    let said = folder().tollgate(&["test", "missing.toml", "passing.toml"]);
    assert_eq!(said.code, Some(2));
    assert_transcript("test/missing_file", [said]);
}

#[test]
fn a_filter_chooses_by_name() {
    let folder = folder();
    let said = folder.tollgate(&["test", "failing.toml", "--filter", "right"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "✓ right (1 step)\n1 passed, 0 failed\n"));
    let said = folder.tollgate(&["test", "failing.toml", "--filter", "nowhere"]);
    assert_eq!(said.code, Some(2), "a filter that finds nothing is a mistake: {}", said.err);
}

#[test]
fn json_has_every_difference() {
    let said = folder().tollgate(&["test", "failing.toml", "--json"]);
    assert_eq!(said.code, Some(1));
    let answer = said.json();
    assert_eq!((&answer["passed"], &answer["failed"]), (&1.into(), &1.into()));
    let test = &answer["files"][0]["tests"][0];
    assert_eq!(test["name"], "wrong <on> purpose");
    assert_eq!(test["passed"], false);
    let step = &test["failures"][0];
    assert_eq!(
        (&step["step"], &step["at"], &step["do"]),
        (&2.into(), &"1.5s".into(), &"check".into())
    );
    assert_eq!(step["request"]["route"], "/a b");
    let difference = &step["differences"][1];
    assert_eq!(difference["field"], "remaining");
    assert_eq!((&difference["expected"], &difference["got"]), (&9.into(), &7.into()));
    let errors = folder().tollgate(&["test", "nowhere.toml", "--json"]);
    assert_eq!(errors.code, Some(2));
    assert_eq!(errors.json()["errors"].as_array().map(Vec::len), Some(1));
}

/// A report of JUnit without the times that tests took.
fn without_times(xml: &str) -> String {
    let mut parts = xml.split(" time=\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (time, rest) = part.split_once('"').expect("an attribute ends");
        assert!(time.parse::<f64>().is_ok(), "{time}");
        format!("{text} time=\"{{time}}\"{rest}")
    })
}

#[test]
fn junit_is_escaped_and_complete() {
    let folder = folder();
    let files = ["test", "passing.toml", "failing.toml", "nowhere.toml", "--junit", "report.xml"];
    assert_eq!(folder.tollgate(&files).code, Some(2));
    let xml = folder.read("report.xml");
    assert_golden("test/junit", &without_times(&xml));
    assert_eq!(xml.matches("<failure ").count(), 1);
    assert_eq!(xml.matches("<error ").count(), 1);
    assert_eq!(xml.matches("<testcase ").count(), 5);
    let said = folder.tollgate(&["test", "passing.toml", "--junit", "no/such/folder.xml"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_what_would_be_right() {
    let text = r#"polcy = "x"
store = "mongodb://localhost"
[[test]]
name = "x"
policy = { rule = [{ name = "r", key = ["user"], limt = "5/s" }] }
[[test.step]]
reqest = { user = "1" }
at = "5 parsecs"
[[test.step]]
do = "commit"
id = "r9"
[[test.step]]
expect = { alowed = true, remaining = "many", reason = "limit" }
[[test.step]]
do = "chek"
[[test.step]]
do = "override"
client = { user = "1" }
limits = { r = "10/mni" }
[[test.step]]
for = "5s"
times = 0
[[test]]
name = "empty"
policy = "nowhere.toml"
"#;
    let folder = Folder::with(&[("t.toml", text)]);
    let said = folder.tollgate(&["test", "t.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert_golden("test/mistakes", &said.err);
}

#[test]
fn files_that_are_no_test_files_are_refused() {
    let folder = Folder::new();
    folder.write("latin1.toml", b"policy = \"\xe9\"");
    folder.write("empty.toml", "");
    folder.write("json.json", "{\"test\": null}");
    folder.write("list.json", "[]");
    folder.write("cut.toml", "[[test]\n");
    folder.write("deep.toml", format!("{} = 1\n", vec!["a"; 50_000].join(".")));
    folder.write("nested.toml", format!("a = {}", "[".repeat(100_000)));
    folder
        .write("nested.json", format!("{{\"a\": {}}}", "[".repeat(100_000) + &"]".repeat(100_000)));
    folder.write("big.toml", vec![b'\n'; 17 * 1024 * 1024]);
    folder.write("kinds.toml", "policy = 5\nstart = 1979-05-27\ntest = [1, { step = [2, {}] }]\n");
    folder.write("control.toml", "\"\\u001b[31m\" = 1\n");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for file in [
        "latin1.toml",
        "empty.toml",
        "json.json",
        "list.json",
        "cut.toml",
        "deep.toml",
        "nested.toml",
        "nested.json",
        "big.toml",
        "kinds.toml",
        "control.toml",
        "folder",
        "missing",
    ] {
        let said = folder.tollgate(&["test", file]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{file}: {}", said.err);
        assert!(!said.err.is_empty() && !said.err.contains('\u{1b}'), "{file}: {:?}", said.err);
    }
}

#[test]
fn what_a_step_cannot_do_is_a_failure_that_says_why() {
    let text = r#"
policy = "tollgate.toml"
[[test]]
name = "cannot"
[[test.step]]
do = "reset"
rule = "per-usr"
key = ["42"]
[[test.step]]
do = "block"
rule = "per-user"
key = ["42", "43"]
for = "1m"
[[test.step]]
do = "reserve"
id = "r"
request = { user = "42" }
[[test.step]]
do = "commit"
id = "r"
times = 2
"#;
    let folder = folder();
    folder.write("t.toml", text);
    let said = folder.tollgate(&["test", "t.toml"]);
    assert_eq!(said.code, Some(1));
    assert_golden("test/impossible_steps", &said.out);
}

#[test]
fn a_store_that_nobody_knows_is_a_wrong_option() {
    let said = folder().tollgate(&["test", "passing.toml", "--store", "mongodb://localhost"]);
    assert_eq!(said.code, Some(2));
    assert_transcript("test/unknown_store", [said]);
    let said = folder().tollgate(&["test", "passing.toml", "--store", "memory"]);
    assert_eq!(said.code, Some(0));
}

#[test]
fn what_is_probably_wrong_with_a_policy_is_told_apart() {
    let folder = folder();
    folder.write("tollgate.toml", "[[rule]]\nname = \"all\"\nkey = []\nlimit = \"10/min\"\n");
    let text = "policy = \"tollgate.toml\"\n[[test]]\nname = \"t\"\n[[test.step]]\n";
    folder.write("t.toml", text);
    let said = folder.tollgate(&["test", "t.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "✓ t (1 step)\n1 passed, 0 failed\n"));
    assert_golden("test/warning", &said.err);
}

/// The sections of the specification, as test files whose figures were worked out by hand.
#[test]
fn the_specification_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    let arguments: Vec<&str> =
        ["test", "--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let said = tollgate_in(&folder, &arguments);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.json()["failed"], 0, "{}", said.out);
}

/// Each block of docs/testing-limits.md that names a file is that file; JSON is one by itself.
#[test]
fn the_examples_of_the_page_pass() {
    let page = include_str!("../../../../docs/testing-limits.md");
    let folder = Folder::new();
    let mut tests = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').expect("a block has lines");
        let name = match (kind, text.lines().next()) {
            ("toml", Some(first)) => first.trim_start_matches("# ").to_owned(),
            ("json", _) => "page.test.json".to_owned(),
            _ => continue,
        };
        folder.write(&name, text);
        if name.contains(".test.") {
            tests.push(name);
        }
    }
    assert!(tests.len() >= 5, "{tests:?}");
    for file in &tests {
        let said = folder.tollgate(&["test", file]);
        assert_eq!(said.code, Some(0), "{file}: {}{}", said.out, said.err);
    }
    let said = folder.tollgate(&["test", "search.test.toml"]);
    assert!(page.contains(&said.out), "the page should show:\n{}", said.out);
    let wrong = folder.read("search.test.toml").replace(
        "at = \"6s\"\nrequest = { user = \"42\", route = \"/search\" }\nexpect = { allowed = true, remaining = 0 }",
        "at = \"6s\"\nrequest = { user = \"42\", route = \"/search\" }\nexpect = { allowed = true, remaining = 1 }",
    );
    folder.write("search.test.toml", wrong);
    let said = folder.tollgate(&["test", "search.test.toml", "--filter", "burst"]);
    assert!(page.contains(&said.out), "the page should show:\n{}", said.out);
}

#[test]
fn a_failure_is_told_by_the_exit_code_also_to_who_reads_no_more() {
    let folder = folder();
    let mut child = command(folder.path(), &["test", "failing.toml"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
