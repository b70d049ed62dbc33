//! `tollgate diff`.

use crate::support::{Folder, Said, assert_golden, assert_transcript};

const OLD: &str = r#"
[[rule]]
name = "search"
match = { route = "/search" }
key = ["user"]
limit = "100/min"
tiers = { pro = "1000/min" }

[[rule]]
name = "login"
key = ["ip"]
limit = "10/h sliding_log"

[[rule]]
name = "api-v1"
key = ["user"]
limit = "500/h"

[[override]]
client = { user = "42" }
tier = "pro"
"#;

fn diff(new: &str, arguments: &[&str]) -> Said {
    let folder = Folder::with(&[("old.toml", OLD), ("new.toml", new)]);
    folder.tollgate(&[&["diff", "old.toml", "new.toml"], arguments].concat())
}

#[test]
fn equal_policies_have_no_difference_whatever_their_text() {
    let said = diff(&OLD.replace("100/min", "100 per minute"), &[]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "no difference\n"));
    let json = diff(OLD, &["--json"]);
    assert_eq!((json.code, &json.json()["equal"]), (Some(0), &true.into()));
}

#[test]
fn it_says_whose_numbers_change_and_what_becomes_of_what_was_consumed() {
    let new = OLD
        .replace("\"100/min\"", "\"200/min\"")
        .replace("pro = \"1000/min\"", "pro = \"1000/min\", free = \"5/min\"")
        .replace("key = [\"ip\"]", "key = [\"user\"]\nshadow = true")
        .replace("api-v1", "api-v2")
        .replace("tier = \"pro\"", "tier = \"free\"");
    let said = diff(&new, &[]);
    let lines = "\
~ rule \"search\"
    limit for everybody else: 100/min → 200/min
    limit for tier \"free\": 100/min → 5/min
    consumption: kept in proportion, who had used a third still has
~ rule \"login\"
    key: ip → user
    shadow: false → true
    consumption: starts anew, the key is another
+ rule \"api-v2\"
    match: every request
    key: user
    limit: 500/h
    consumption: starts anew, \"api-v1\" has another name now
- rule \"api-v1\"
    match: every request
    key: user
    limit: 500/h
    consumption: forgotten, there is no such rule any more
~ override of user=42
    tier: pro → free
1 added, 1 removed, 3 changed
";
    assert_eq!((said.code, said.out.as_str()), (Some(1), lines));
}

#[test]
fn numbers_of_the_default_tier_are_those_of_requests_without_one() {
    let said = diff(&format!("default_tier = \"pro\"\n{OLD}"), &[]);
    assert_golden("diff/default_tier", &said.out);
}

#[test]
fn how_nodes_share_a_limit_is_told() {
    let new = format!("sync = \"leased\"\nlease_ttl = \"500ms\"\n{OLD}")
        .replace("[\"ip\"]", "[\"ip\"]\nsync = \"strict\"\nlease_share = \"10%\"");
    let said = diff(&new, &[]);
    assert_golden("diff/sharing", &said.out);
}

#[test]
fn name_that_clients_see_is_compared() {
    let new = OLD.replace("name = \"login\"", "name = \"login\"\npublic_name = \"\"");
    let said = diff(&new, &["--json"]);
    let detail = &said.json()["changes"][0]["details"][0];
    assert_eq!(
        (&detail["setting"], &detail["old"], &detail["new"]),
        (&"public_name".into(), &"as the name".into(), &"hidden".into())
    );
}

#[test]
fn json_has_both_sides() {
    let said = diff(&OLD.replace("10/h sliding_log", "20/h sliding_log"), &["--json"]);
    assert_eq!(said.code, Some(1));
    let change = &said.json()["changes"][0];
    assert_eq!((&change["what"], &change["name"]), (&"rule".into(), &"login".into()));
    assert_eq!(
        (&change["kind"], &change["consumption"]),
        (&"changed".into(), &"kept_in_proportion".into())
    );
    let detail = &change["details"][0];
    assert_eq!(
        (&detail["old"], &detail["new"]),
        (&"10/h sliding_log".into(), &"20/h sliding_log".into())
    );
}

#[test]
fn both_files_mistakes_are_told() {
    let folder = Folder::with(&[("old.toml", "rul = 1"), ("new.toml", "rulee = 1")]);
    let said = folder.tollgate(&["diff", "old.toml", "new.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert_transcript("diff/wrong_files", [said]);
}
