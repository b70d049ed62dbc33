//! `docs/configuration.md` lists every key, and its examples are policies.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate::Policy;

use super::loads;

const DOCS: &str = include_str!("../../../../../docs/configuration.md");

/// The keys that the page lists for a table.
fn listed(table: &str) -> BTreeSet<String> {
    let (_, after) = DOCS
        .split_once(&format!("<!-- keys: {table} -->\n"))
        .unwrap_or_else(|| panic!("no keys of {table}"));
    let rows = after.lines().skip_while(|line| line.is_empty());
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('`').nth(1).expect("a key in its row").to_owned()).collect()
}

#[test]
fn every_key_of_every_table_is_listed() {
    let schema: Value = serde_json::from_str(&Policy::schema()).unwrap();
    let keys = |table: &Value| -> BTreeSet<String> {
        table["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(listed("policy"), keys(&schema));
    let tables = schema["$defs"].as_object().unwrap();
    let tables = tables.iter().filter(|(_, table)| table.get("properties").is_some());
    let tables: Vec<_> = tables.collect();
    assert_eq!(tables.len(), 8);
    for (name, table) in tables {
        assert_eq!(listed(name), keys(table), "{name}");
    }
}

#[test]
fn every_example_is_read_without_a_warning() {
    let mut read = 0;
    for block in DOCS.split("```toml").skip(1) {
        let (kind, text) = block.split_once('\n').unwrap();
        let text = text.split("```").next().unwrap();
        let text = match kind.trim() {
            "" => text.to_owned(),
            "rule" => {
                let limit = if text.contains("limit") { "" } else { "limit = \"1/s\"\n" };
                format!("[[rule]]\nname = \"example\"\nkey = [\"user\"]\n{limit}{text}")
            }
            kind => panic!("an example of an unknown kind: {kind}"),
        };
        assert_eq!(loads(&text).warnings, [], "{text}");
        read += 1;
    }
    assert!(read >= 10, "{read}");
}
