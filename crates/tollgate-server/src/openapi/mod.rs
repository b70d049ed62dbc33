//! OpenAPI 3.1: what can be asked, made from the same tables that answer.

mod data;
mod schemas;

use std::fmt;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::admin::{AdminRole, ROUTES};
use crate::bounds::Bounds;

/// A method that something is asked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
}

/// Something that can be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Param],
    pub(crate) body: Option<Body>,
    /// Empty where the answer is.
    pub(crate) answer_type: &'static str,
    /// The schema of the answer with status 200, or what that means where it is empty.
    pub(crate) answer: &'static str,
    /// Whether a denial, with status 429, is answered by the same schema and not by a problem.
    pub(crate) denies_alike: bool,
    /// `true` if a denial has no body.
    pub(crate) denies_without_body: bool,
    /// Whether every other method asks the same.
    pub(crate) with_any_method: bool,
}

/// The methods of those that can be asked with any.
const ANY: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// A name in the query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// As JSON.
    pub(crate) schema: &'static str,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) of_type: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) example: &'static str,
}

impl Operation {
    pub(crate) const fn get() -> Operation {
        Operation {
            method: Method::Get,
            path: "",
            summary: "",
            query: &[],
            body: None,
            answer_type: "application/json",
            answer: "",
            denies_alike: false,
            denies_without_body: false,
            with_any_method: false,
        }
    }

    /// The methods that ask it.
    fn methods(&self) -> &[&'static str] {
        if self.with_any_method { &ANY } else { self.method.words() }
    }

    /// As the document has it under that method; a role where only operators may ask.
    fn shown(&self, method: &str, role: Option<AdminRole>) -> Value {
        let mut shown = json!({
            "operationId": self.id(method),
            "summary": self.summary,
            "tags": [if role.is_some() { "admin" } else { self.tag() }],
            "parameters": self.parameters(),
            "responses": {
                "200": self.answered(),
                "default": {
                    "description": "What is wrong, and what would be right",
                    "content": {"application/problem+json": {"schema": refer("Problem")}},
                },
            },
        });
        if self.denies_without_body {
            // A schema for the content would promise a body.
            shown["responses"]["default"] = json!({
                "description": "Denied with this status, without a body. The header tollgate-status has the status for the client"
            });
        }
        if self.denies_alike {
            shown["responses"]["429"] = self.answered();
        }
        if let Some(role) = role {
            shown["security"] = json!([{"token": []}]);
            let word = if role == AdminRole::Write { "write" } else { "read" };
            shown["description"] = format!("Needs a token with the role {word}.").into();
        }
        if let Some(Body { of_type, schema, example }) = self.body {
            // What is sent as text is shown as text.
            let example = match of_type {
                "application/json" => serde_json::from_str(example).unwrap_or(Value::Null),
                _ => example.into(),
            };
            shown["requestBody"] = json!({
                "required": true,
                "content": {of_type: {"schema": refer(schema), "example": example}},
            });
        }
        shown
    }

    fn answered(&self) -> Value {
        match self.answer_type {
            "" => json!({"description": self.answer}),
            of_type => json!({
                "description": "The answer",
                "content": {of_type: {"schema": refer(self.answer)}},
            }),
        }
    }

    fn id(&self, method: &str) -> String {
        let words = self.path.split(['/', '{', '}', '.', '_']).filter(|word| !word.is_empty());
        let words: Vec<_> = words.filter(|word| !["v1", "id"].contains(word)).collect();
        format!("{method}_{}", words.join("_"))
    }

    fn tag(&self) -> &'static str {
        if self.path.starts_with("/v1/") { "decisions" } else { "operation" }
    }

    fn parameters(&self) -> Value {
        let in_path =
            self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(|name| {
            let schema = data::path_schema(name);
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        let in_query = self.query.iter().map(|param| {
            let schema: Value = serde_json::from_str(param.schema).unwrap_or(Value::Null);
            let mut shown = json!({"name": param.name, "in": "query", "description": param.about});
            match schema.get("$ref") {
                // An object is written as JSON.
                Some(_) => shown["content"] = json!({"application/json": {"schema": schema}}),
                None => shown["schema"] = schema,
            }
            shown
        });
        in_path.chain(in_query).collect()
    }
}

impl Method {
    fn words(self) -> &'static [&'static str] {
        match self {
            Method::Get => &["get"],
            Method::Post => &["post"],
            Method::Put => &["put"],
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        })
    }
}

fn refer(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// The document of a server with these bounds, made when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Document(OnceLock<String>);

impl Document {
    pub(crate) fn get(&self, bounds: &Bounds) -> &str {
        self.0.get_or_init(|| whole(bounds).to_string())
    }
}

fn whole(bounds: &Bounds) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let data = data::OPERATIONS.iter().map(|operation| (operation, None));
    let admin = ROUTES.iter().map(|route| (&route.operation, Some(route.role)));
    for (operation, role) in data.chain(admin) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        for method in operation.methods() {
            path[*method] = operation.shown(method, role);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Rate limits as a service. Times are in milliseconds, rounded up.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "decisions", "description": "For programs and proxies"},
            {"name": "operation", "description": "Probes and metrics"},
            {"name": "admin", "description": "For operators, with a token"},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas::all(bounds),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

#[cfg(test)]
mod tests;
