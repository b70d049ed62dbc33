//! The JSON Schema says what the reader says, as far as a schema can.

use jsonschema::Validator;
use serde_json::{Map, Value};
use tollgate::Policy;

fn schema() -> Value {
    serde_json::from_str(&Policy::schema()).expect("JSON")
}

fn validator() -> Validator {
    let schema = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    jsonschema::draft202012::new(&schema).expect("a schema")
}

/// TOML as JSON, as editors see it.
fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(moment) => Value::from(moment.to_string()),
        toml::Value::Array(values) => values.iter().map(json).collect(),
        toml::Value::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.clone(), json(value))).collect::<Map<_, _>>(),
        ),
    }
}

fn is_valid(validator: &Validator, text: &str) -> bool {
    let table: toml::Table = toml::from_str(text).expect("TOML");
    validator.is_valid(&json(&toml::Value::Table(table)))
}

#[test]
fn what_the_reader_reads_is_valid() {
    let validator = validator();
    for text in [
        "",
        "[server]\nhttp = \"off\"\n",
        crate::writing::EVERYTHING,
        "[[rule]]\nname = \"a\"\nlimit = { count = 1, per = \"1s\", algorithm = \"sliding_log\" }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nmatch = { a = 1, b = true, c = [1, \"x\"], d = { prefix = [\"x\"], all = [\"x\", { is = 1 }] } }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\n[tiers.free]\n[[override]]\nclient = { user = 1 }\nlimits = { a = [\"1/s\", \"2/h\"] }\nuntil = \"2030-01-01T00:00:00Z\"",
    ] {
        crate::loads(text);
        assert!(is_valid(&validator, text), "{text}");
    }
}

#[test]
fn what_is_wrong_in_shape_is_invalid() {
    let validator = validator();
    for text in [
        "limt = 1",
        "server = 8080",
        "[[server]]\nhttp = \"off\"",
        "[rule]\nname = \"a\"\nlimit = \"1/s\"",
        "[[rule]]\nlimit = \"1/s\"",
        "[[rule]]\nname = \"a\"",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nlimits = [\"1/s\"]",
        "[[rule]]\nname = \"a\"\nlimit = 5",
        "[[rule]]\nname = \"a\"\nlimit = { count = 5 }",
        "[[rule]]\nname = \"a\"\nlimit = { count = 5, per = \"1s\", algorithm = \"leaky\" }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nmatch = { a = { prefx = \"x\" } }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nmatch = { a = {} }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nmatch = { a = 1.5 }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nkey = \"user\"",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\ncost = 0",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\nblock_for = { factor = 2 }",
        "[[rule]]\nname = \"a\"\nlimit = \"1/s\"\non_store_error = \"explode\"",
        "[[allow]]\nname = \"a\"",
        "[[deny]]\nmatch = {}",
        "[[override]]\ntier = \"a\"",
        "[[override]]\nclient = { user = 1 }",
    ] {
        assert!(Policy::from_toml("t.toml", text).is_err(), "{text}");
        assert!(!is_valid(&validator, text), "{text}");
    }
}
