//! The OpenAPI document says what is so.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn document(server: &TestServer) -> Value {
    let answer = server.ask("GET /openapi.json", &[]);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

/// Every operation: method, path, and what is said of it.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    all
}

/// A value that is right for a part of a path.
fn filled(server: &TestServer, path: &str) -> String {
    let path = path.replace("{status}", "403");
    if !path.contains("{id}") {
        return path;
    }
    let reserved = server.post("/v1/reserve", "{}").json();
    path.replace("{id}", reserved["id"].as_str().unwrap())
}

#[test]
fn every_example_is_accepted() {
    let file = std::env::temp_dir().join(format!("tollgate-doc-{}.toml", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let server = TestServer::with(|server| server.admin(admin().policy_file(&file)));
    std::fs::write(&file, server.gate().policy().to_toml()).unwrap();
    // What replaces the policy comes last: the other examples are about its rules.
    let mut all = operations(&document(&server));
    all.sort_by_key(|(method, path, _)| method == "PUT" && path.ends_with("/policy"));
    for (method, path, operation) in all {
        server.gate().reset_all();
        let content = operation["requestBody"]["content"].as_object();
        let body = match content.and_then(|content| content.values().next()) {
            Some(content) => match &content["example"] {
                Value::String(text) => text.clone(),
                json => json.to_string(),
            },
            None => String::new(),
        };
        let line = format!("{method} {}", filled(&server, &path));
        let answer = ask(&server, WRITE, &line, &body);
        assert_eq!(answer.status, 200, "{line} {body} {answer:?}");
        let of_type = answer.header("content-type");
        match operation["responses"]["200"]["content"].as_object() {
            Some(content) => {
                let said = content.keys().next().unwrap();
                assert!(of_type.unwrap().starts_with(said.as_str()), "{line}: {of_type:?}");
            }
            None => assert_eq!((of_type, answer.body.as_str()), (None, ""), "{line}"),
        }
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn methods_that_are_not_documented_are_refused() {
    let server = operated();
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (method, path, _) in operations(&document(&server)) {
        known.entry(path).or_default().push(method);
    }
    for (path, methods) in known {
        // Proxies ask with their clients' methods.
        if path.starts_with("/v1/authorize") {
            continue;
        }
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let line = format!("{method} {}", filled(&server, &path));
            let status = ask(&server, WRITE, &line, "").status;
            let documented = methods.iter().any(|known| known == method);
            assert_eq!(status == 405, !documented, "{line}: {status}");
        }
    }
}
