//! `tollgate validate` and `tollgate schema`.

use crate::support::{Folder, assert_golden, assert_transcript};

const GOOD: &str = r#"
[[rule]]
name = "search"
match = { route = "/search" }
key = ["user"]
limit = "100/min burst 20"
tiers = { pro = "1000/min" }

[[override]]
client = { user = "42" }
tier = "pro"
"#;

const WARNED: &str = "[[rule]]\nname = \"all\"\nkey = []\nlimit = \"100/min\"\n";

const BAD: &str = r#"[[rule]]
name = "search"
key = ["user"]
limt = "100/min"

[[rule]]
name = "login"
limit = "10/mni"
"#;

fn folder() -> Folder {
    Folder::with(&[("good.toml", GOOD), ("warned.toml", WARNED), ("bad.toml", BAD)])
}

#[test]
fn a_good_file_is_summed_up() {
    let said = folder().tollgate(&["validate", "good.toml"]);
    let line = "good.toml: ok, 1 rule, 1 tier, 1 override\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(0), line, ""));
}

#[test]
fn warnings_fail_only_where_that_is_asked_for() {
    let folder = folder();
    let said = folder.tollgate(&["validate", "warned.toml"]);
    assert_eq!(said.code, Some(0));
    assert_golden("validate/warning", &said.out);
    assert_eq!(folder.tollgate(&["validate", "warned.toml", "--strict"]).code, Some(1));
    assert_eq!(folder.tollgate(&["validate", "good.toml", "--strict"]).code, Some(0));
}

#[test]
fn every_mistake_of_every_file_is_told_at_once() {
    let said = folder().tollgate(&["validate", "bad.toml", "good.toml", "missing.toml"]);
    assert_eq!(said.code, Some(2));
    assert_transcript("validate/mistakes", [said]);
}

#[test]
fn json_has_the_line_of_every_finding() {
    let said = folder().tollgate(&["validate", "bad.toml", "warned.toml", "--json"]);
    assert_eq!(said.code, Some(2));
    let answer = said.json();
    assert_eq!(answer["ok"], false);
    let bad = &answer["files"][0];
    assert_eq!(
        (&bad["errors"][0]["line"], &bad["errors"][0]["rule"]),
        (&4.into(), &"search".into())
    );
    let warned = &answer["files"][1];
    assert_eq!((&warned["ok"], &warned["counts"]["rules"]), (&true.into(), &1.into()));
    assert_eq!(warned["warnings"][0]["line"], 3);
}

#[test]
fn the_schema_is_json() {
    let said = Folder::new().tollgate(&["schema"]);
    assert_eq!(said.code, Some(0));
    assert!(said.json()["properties"]["rule"].is_object(), "{}", said.out);
}
