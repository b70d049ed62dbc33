//! The JSON Schema of the file, from the same list of keys that the reader uses.

use serde_json::{Map, Value, json};

use super::keys::{SettingSpec, TABLES, ValueKind};

/// The schema, as text.
pub(super) fn text() -> String {
    format!("{:#}\n", schema())
}

fn schema() -> Value {
    let mut shapes = shapes();
    let mut top = Map::new();
    for (name, keys) in TABLES {
        let table = table(name, keys);
        match *name {
            "policy" => top = table,
            name => drop(shapes.insert(name.to_owned(), Value::Object(table))),
        }
    }
    top.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    top.insert("title".to_owned(), json!("Tollgate policy"));
    top.insert("$defs".to_owned(), Value::Object(shapes));
    Value::Object(top)
}

/// A table with these keys and no others.
fn table(name: &str, keys: &[SettingSpec]) -> Map<String, Value> {
    let properties = keys.iter().map(|key| {
        let mut value = kind(key.kind);
        value["description"] = json!(key.about);
        (key.name.to_owned(), value)
    });
    let mut table = Map::new();
    table.insert("type".to_owned(), json!("object"));
    table.insert("properties".to_owned(), Value::Object(properties.collect()));
    table.insert("additionalProperties".to_owned(), json!(false));
    for (key, value) in extras(name) {
        table.insert(key.to_owned(), value);
    }
    table
}

/// What holds for a table as a whole.
fn extras(name: &str) -> Vec<(&'static str, Value)> {
    match name {
        "rule" => vec![
            ("required", json!(["name"])),
            ("oneOf", json!([{ "required": ["limit"] }, { "required": ["limits"] }])),
        ],
        "list" => vec![("required", json!(["match"]))],
        "override" => vec![
            ("required", json!(["client"])),
            ("anyOf", json!([{ "required": ["tier"] }, { "required": ["limits"] }])),
        ],
        "condition" => vec![("minProperties", json!(1))],
        "limit" => vec![("required", json!(["count", "per"]))],
        "cost" => vec![("required", json!(["attribute"]))],
        "block_for" => vec![("required", json!(["first"]))],
        _ => Vec::new(),
    }
}

fn kind(kind: ValueKind) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let many = |name: &str| json!({ "type": "array", "items": reference(name) });
    let named = |name: &str| json!({ "type": "object", "additionalProperties": reference(name) });
    match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Parts => json!({ "type": "array", "items": { "anyOf": [
            { "type": "string" },
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": reference("address"),
            },
        ] } }),
        ValueKind::Bits(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
        ValueKind::Whole => json!({ "type": "integer", "minimum": 0 }),
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Word(words) => json!({ "enum": words }),
        ValueKind::Duration => reference("duration"),
        ValueKind::Percent => reference("percent"),
        ValueKind::Moment => reference("moment"),
        ValueKind::Value => reference("value"),
        ValueKind::Values => many("value"),
        ValueKind::OneOrMany => reference("value_or_values"),
        ValueKind::Attributes => named("value"),
        ValueKind::Match => named("conditions"),
        ValueKind::SomeMatch => {
            let mut value = named("conditions");
            value["minProperties"] = json!(1);
            value
        }
        ValueKind::Condition => reference("conditions"),
        ValueKind::Conditions => many("conditions"),
        ValueKind::Limit => reference("one_limit"),
        ValueKind::Limits => {
            json!({ "type": "array", "minItems": 1, "items": reference("one_limit") })
        }
        ValueKind::Numbers => named("numbers"),
        ValueKind::Tiers => json!({ "type": "object", "additionalProperties": named("numbers") }),
        ValueKind::Cost => {
            json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, reference("cost")] })
        }
        ValueKind::Block => json!({ "anyOf": [reference("duration"), reference("block_for")] }),
        ValueKind::Rules => many("rule"),
        ValueKind::Lists => many("list"),
        ValueKind::Overrides => many("override"),
        ValueKind::Server => json!({ "type": "object" }),
    }
}

/// The shapes that several keys share.
fn shapes() -> Map<String, Value> {
    let shapes = json!({
        "value": { "type": ["string", "integer", "boolean"] },
        "value_or_values": { "anyOf": [
            { "$ref": "#/$defs/value" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/value" } },
        ] },
        "duration": { "type": "string", "examples": ["15m", "1h 30m", "500ms"] },
        "percent": { "type": "string", "pattern": "^[0-9]+%$", "examples": ["10%"] },
        "moment": { "type": "string", "examples": ["2030-01-31T12:00:00Z"] },
        "conditions": { "anyOf": [
            { "$ref": "#/$defs/value_or_values" },
            { "$ref": "#/$defs/condition" },
        ] },
        "one_limit": { "anyOf": [
            { "type": "string", "examples": ["100/min burst 20", "10/h sliding_log", "unlimited"] },
            { "$ref": "#/$defs/limit" },
        ] },
        "numbers": { "anyOf": [
            { "$ref": "#/$defs/one_limit" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/one_limit" } },
        ] },
    });
    match shapes {
        Value::Object(shapes) => shapes,
        _ => Map::new(),
    }
}
