//! The JSON Schema of a file with a policy and settings of a server.

use serde_json::{Map, Value, json};
use tollgate::Policy;

use super::setting::{Setting, Shape};
use super::settings::SETTINGS;

/// The policy's schema with the settings put into it.
pub(crate) fn schema() -> String {
    let policy = serde_json::from_str(&Policy::schema());
    let mut schema: Value = policy.unwrap_or_default();
    schema["properties"]["server"] = server();
    format!("{schema:#}\n")
}

fn server() -> Value {
    let mut properties = Map::new();
    for setting in SETTINGS {
        match setting.name.split_once('.') {
            None => drop(properties.insert(setting.name.to_owned(), of(setting))),
            Some((group, name)) => {
                let group = properties.entry(group).or_insert_with(|| table(Map::new()));
                group["properties"][name] = of(setting);
            }
        }
    }
    let mut server = table(properties);
    server["description"] = json!("Settings of tollgate serve, no part of the policy.");
    server
}

fn table(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn of(setting: &Setting) -> Value {
    let mut value = match setting.shape {
        Shape::Text | Shape::Url | Shape::Secret | Shape::Path => json!({ "type": "string" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Whole => json!({ "type": "integer", "minimum": 0 }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Pairs => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
    };
    value["description"] = json!(format!("{}.", setting.about));
    value
}
