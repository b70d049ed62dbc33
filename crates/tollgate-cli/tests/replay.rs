//! `tollgate replay`.

mod support;

use std::io::Write;
use std::process::Stdio;

use support::{Folder, Said};

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
    let expected = "\
a.log (common): 6 lines, 2026-11-16T10:13:50Z to 2026-11-16T10:13:53Z

requests  5  100.00%
allowed   3   60.00%
refused   2   40.00%  1 key
1 malformed line, see below
";
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.starts_with(expected), "{}", said.out);
    let parts = [
        "\nrules\nrule    requests  refused  of its requests\nper-ip         5        2           40.00%\nsearch         4        0            0.00%\n",
        "\nrefused most\nrule    key             refused  first                 last\nper-ip  ip=203.0.113.9        2  2026-11-16T10:13:52Z  2026-11-16T10:13:53Z\n    a.log:4: 203.0.113.9 - ana [16/Nov/2026:10:13:52 +0000] \"GET /search?q=3 HTTP/1.1\" 200 512\n",
        "\nlimits that refuse at most\nrule    in force       refuses alone  0.1%   1%     5%\nper-ip  2/min burst 2         40.00%  4/min  4/min  4/min\nsearch  100/min                0.00%  4/min  4/min  4/min\n",
        "\nmalformed lines\na.log:5: is no line of a common or combined log: oh dear\n",
        "refused by per-ip",
    ];
    for part in parts {
        assert!(said.out.contains(part), "{}\nlacks\n{part}", said.out);
    }
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
    assert!(nowhere.err.contains("cannot write no/r.html"), "{}", nowhere.err);
}

#[test]
fn standard_input_is_a_log_too() {
    let folder = folder();
    let mut command =
        support::command(folder.path(), &["replay", "-", "--policy", "p.toml", "--json"]);
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
    let cases: [(&[&str], &str); 9] = [
        (&["a.log", "--policy", "p.toml", "--strict"], "a.log:5: is no line of a common"),
        (&["a.log", "--policy", "bad.toml"], "bad.toml:"),
        (&["none.log", "--policy", "p.toml"], "none.log: "),
        (&["odd.log", "--policy", "p.toml"], "odd.log: cannot tell the format"),
        (&["a.log", "--policy", "p.toml", "--format", "xml"], "use common, combined, json"),
        (&["a.log", "--policy", "p.toml", "--field", "user"], "is not NAME=FIELD"),
        (&["a.log", "--policy", "p.toml", "--field", "usr=user"], "it asks for ip, route, user"),
        (&["a.log", "--policy", "p.toml", "--route", "users"], "must begin with \"/\""),
        (&["-", "-", "--policy", "p.toml"], "\"-\" is given twice"),
    ];
    for (arguments, message) in cases {
        let said = folder.tollgate(&[&["replay"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(message), "{arguments:?}: {}", said.err);
        assert_eq!(said.out, "", "{arguments:?}");
    }
}

#[test]
fn an_attribute_that_no_line_has_is_told() {
    let folder = folder();
    folder.write("t.toml", POLICY.replace("\"user\"", "\"tenant\""));
    let said = folder.tollgate(&["replay", "a.log", "--policy", "t.toml"]);
    assert!(said.out.contains("no line has tenant, which the policy asks about"), "{}", said.out);
    let mapped =
        folder.tollgate(&["replay", "a.log", "--policy", "t.toml", "--field", "tenant=user"]);
    assert!(!mapped.out.contains("no line has"), "{}", mapped.out);
}

#[test]
fn names_out_of_a_log_are_shown_and_not_sent_to_the_terminal() {
    let folder = folder();
    folder.write("odd.csv", format!("a\u{1b}[31m,b{}\n1,2\n", ",column".repeat(10_000)));
    for field in [&[][..], &["--field", "user=none"][..]] {
        let arguments = ["replay", "odd.csv", "--policy", "p.toml", "--format", "csv"];
        let said = folder.tollgate(&[&arguments, field].concat());
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("there are a\\u{1b}[31m, b, column"), "{}", said.err);
        assert!(!said.err.contains('\u{1b}') && said.err.len() < 1000, "{:?}", said.err);
    }
}
