//! What is in force and who said so, as a file that says the same, and as JSON.

use serde_json::{Value, json};

use super::layers::{Configured, Given, Source};
use super::setting::{Setting, Shape};
use super::settings::SETTINGS;

/// The wording of the first lines.
const HEAD: &str = "\
# What tollgate serve would use, each value with where it is from. A flag wins over a variable,
# a variable over the file, the file over the default.
";

/// A file that says the same, but for secrets: what is not shown whole is a comment, so that
/// nobody's password becomes the stars that stand for it.
pub(crate) fn as_toml(configured: &Configured) -> String {
    let mut text = format!("{HEAD}[server]\n");
    let line = |setting: &Setting| match configured.find(setting.name) {
        Some(given) => {
            let value = format!("{} = {}", setting.name, toml_value(given));
            match is_hidden(given) {
                false => format!("{value:<46} # {}", said_by(given)),
                true => format!("# {value:<44} # {}, put the secret in", said_by(given)),
            }
        }
        None => format!("# {} is not set: {}", setting.name, setting.otherwise),
    };
    for setting in SETTINGS {
        text += &line(setting);
        text.push('\n');
    }
    text
}

/// The same for programs.
pub(crate) fn as_json(configured: &Configured) -> Value {
    let setting = |setting: &Setting| {
        let given = configured.find(setting.name);
        json!({
            "name": setting.name,
            "value": given.map(value),
            "hidden": given.is_some_and(is_hidden),
            "from": given.map(said_by),
            "flag": format!("--{}", setting.flag),
            "variable": setting.variable(),
        })
    };
    json!({ "settings": SETTINGS.iter().map(setting).collect::<Value>() })
}

fn said_by(given: &Given) -> String {
    match &given.source {
        Source::Default => "default".to_owned(),
        Source::File { file, line } => format!("{file}:{line}"),
        Source::Variable(variable) => variable.clone(),
        Source::Flag => format!("--{}", given.setting.flag),
    }
}

/// Whether the value that is shown is not the one that is in force, since that is a secret.
fn is_hidden(given: &Given) -> bool {
    given.items.iter().any(|item| given.setting.shown(&item.text) != item.text)
        || given.setting.shape == Shape::Secret
}

fn value(given: &Given) -> Value {
    let texts = || given.items.iter().map(|item| given.setting.shown(&item.text));
    let text = texts().next().unwrap_or_default();
    match given.setting.shape {
        Shape::Text | Shape::Url | Shape::Secret | Shape::Path | Shape::Word(_) => json!(text),
        // They were read, so that they are what they should be.
        Shape::Whole => json!(text.parse::<u64>().unwrap_or_default()),
        Shape::Flag => json!(text == "true"),
        Shape::Texts => texts().collect(),
        Shape::Pairs => texts()
            .filter_map(|pair| {
                pair.split_once('=').map(|(name, text)| (name.to_owned(), json!(text)))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

fn toml_value(given: &Given) -> String {
    in_toml(&value(given))
}

fn in_toml(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(in_toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(pairs) if pairs.is_empty() => "{}".to_owned(),
        Value::Object(pairs) => {
            let pair =
                |(name, value): (&String, &Value)| format!("{} = {}", key(name), in_toml(value));
            format!("{{ {} }}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A key, in quotes where it must be.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A text as TOML has it; JSON leaves one control character as it is.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
