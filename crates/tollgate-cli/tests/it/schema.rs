//! The JSON Schema that is published, and that editors check a file against.

use std::path::Path;

use crate::support::Folder;
use serde_json::Value;

fn printed() -> String {
    let said = Folder::new().tollgate(&["schema"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.out
}

#[test]
fn the_published_schema_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tollgate.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, printed()).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(json(&published), json(&printed()), "run the tests with UPDATE_SCHEMA=1");
}

#[test]
fn it_knows_the_policy_and_the_settings_of_the_server() {
    let schema: Value = serde_json::from_str(&printed()).unwrap();
    assert!(schema["properties"]["rule"].is_object());
    let server = &schema["properties"]["server"];
    assert_eq!(server["additionalProperties"], false);
    assert_eq!(server["properties"]["http"]["type"], "string");
    let log = &server["properties"]["log"];
    assert_eq!(log["properties"]["format"]["enum"][1], "json");
    assert_eq!(log["additionalProperties"], false);
}
