//! `tollgate replay`.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Folder, Said, assert_golden, assert_transcript};

const POLICY: &str = r#"
[[rule]]
name = "per-ip"
key = ["ip"]
limit = "2/min burst 2"

[[rule]]
name = "search"
match = { route = "/search" }
key = ["user"]
limit = "100/min"
"#;

const LOG: &str = "\
203.0.113.9 - ana [16/Nov/2026:10:13:50 +0000] \"GET /search?q=1 HTTP/1.1\" 200 512
203.0.113.9 - ana [16/Nov/2026:10:13:50 +0000] \"GET /search?q=2 HTTP/1.1\" 200 512
198.51.100.1 - - [16/Nov/2026:10:13:51 +0000] \"GET / HTTP/1.1\" 200 99
203.0.113.9 - ana [16/Nov/2026:10:13:52 +0000] \"GET /search?q=3 HTTP/1.1\" 200 512
oh dear
203.0.113.9 - ana [16/Nov/2026:10:13:53 +0000] \"GET /search?q=4 HTTP/1.1\" 200 512
";

fn folder() -> Folder {
    Folder::with(&[("p.toml", POLICY), ("a.log", LOG)])
}

fn replay(arguments: &[&str]) -> Said {
    folder().tollgate(&[&["replay", "a.log", "--policy", "p.toml"], arguments].concat())
}

#[test]
fn the_table_says_what_would_have_been_refused_and_whom_it_hits() {
    let said = replay(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert_golden("replay/table", &said.out);
}

#[test]
fn json_has_all_of_it() {
    let report = replay(&["--json", "--against", "p.toml"]).json();
    assert_eq!((&report["requests"], &report["refused"]), (&5.into(), &2.into()));
    assert_eq!(report["clients"]["top"][0]["example"]["line"], 4);
    assert_eq!(report["malformed"]["first"][0]["line"], 5);
    assert_eq!(report["suggestions"][0]["smallest"][0]["limit"], "4/min");
    assert_eq!(report["against"]["newly_refused"], 0);
    let without = replay(&["--json", "--no-suggestions"]).json();
    assert_eq!(without["suggestions"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_page_is_written_beside_the_table() {
    let folder = folder();
    let said = folder.tollgate(&["replay", "a.log", "--policy", "p.toml", "--html", "r.html"]);
    assert_eq!(said.code, Some(0));
    let page = folder.read("r.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    assert!(page.contains("ip=203.0.113.9"));
    let nowhere =
        folder.tollgate(&["replay", "a.log", "--policy", "p.toml", "--html", "no/r.html"]);
    assert_eq!(nowhere.code, Some(1));
    assert_golden("replay/cannot_write", &nowhere.err);
}

#[test]
fn standard_input_is_a_log_too() {
    let folder = folder();
    let mut command =
        crate::support::command(folder.path(), &["replay", "-", "--policy", "p.toml", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin.write_all(LOG.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["requests"], 5);
    assert_eq!(report["logs"][0], "standard input");
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right_and_the_code_is_2() {
    let folder = folder();
    folder.write("bad.toml", "[[rule]]\nname = 1\n");
    folder.write("odd.log", "who knows\n");
    let cases: [&[&str]; 9] = [
        &["a.log", "--policy", "p.toml", "--strict"],
        &["a.log", "--policy", "bad.toml"],
        &["none.log", "--policy", "p.toml"],
        &["odd.log", "--policy", "p.toml"],
        &["a.log", "--policy", "p.toml", "--format", "xml"],
        &["a.log", "--policy", "p.toml", "--field", "user"],
        &["a.log", "--policy", "p.toml", "--field", "usr=user"],
        &["a.log", "--policy", "p.toml", "--route", "users"],
        &["-", "-", "--policy", "p.toml"],
    ];
    let said = cases.map(|arguments| {
        let said = folder.tollgate(&[&["replay"], arguments].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {}", said.err);
        said
    });
    assert_transcript("replay/wrong_arguments", said);
}

#[test]
fn an_attribute_that_no_line_has_is_told() {
    let folder = folder();
    folder.write("t.toml", POLICY.replace("\"user\"", "\"tenant\""));
    let said = folder.tollgate(&["replay", "a.log", "--policy", "t.toml"]);
    let mapped =
        folder.tollgate(&["replay", "a.log", "--policy", "t.toml", "--field", "tenant=user"]);
    assert_transcript("replay/absent_attribute", [said, mapped]);
}

#[test]
fn names_out_of_a_log_are_shown_and_not_sent_to_the_terminal() {
    let folder = folder();
    folder.write("odd.csv", format!("a\u{1b}[31m,b{}\n1,2\n", ",column".repeat(10_000)));
    let mut errors = Vec::new();
    for field in [&[][..], &["--field", "user=none"][..]] {
        let arguments = ["replay", "odd.csv", "--policy", "p.toml", "--format", "csv"];
        let said = folder.tollgate(&[&arguments, field].concat());
        assert_eq!(said.code, Some(2), "{}", said.err);
        errors.push(said.err.clone());
        assert!(!said.err.contains('\u{1b}') && said.err.len() < 1000, "{:?}", said.err);
    }
    assert_golden("replay/hostile_names", &errors.concat());
}
