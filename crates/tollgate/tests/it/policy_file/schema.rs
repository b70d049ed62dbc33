//! The parser on the documents that `tests/e2e/test_schema.py` validates with the JSON Schema: both
//! accept and both reject the same ones.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate::Policy;
use tollgate_testkit::assert_golden;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema").join(name)
}

/// The name and text of each document in a folder.
fn documents(folder: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(golden(folder)).expect("the folder is readable");
    let paths = files.map(|file| file.expect("the folder is readable").path());
    let read = |path: &Path| std::fs::read_to_string(path).expect("the document is readable");
    paths.map(|path| (path.display().to_string(), read(&path))).collect()
}

/// The Python test reads the schema of the library from this file.
#[test]
fn schema_is_the_one_in_the_file() {
    let mut schema: Value = serde_json::from_str(&Policy::schema()).expect("the schema is JSON");
    // The order of keys depends on a feature of serde_json that another crate may turn on.
    schema.sort_all_objects();
    assert_golden(&golden("policy.schema.json"), &format!("{schema:#}\n"));
}

#[test]
fn parser_accepts_the_documents_that_the_schema_accepts() {
    let documents = documents("accepted");
    assert_eq!(documents.len(), 6);
    for (name, text) in documents {
        Policy::from_toml(&name, &text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn parser_rejects_the_documents_that_the_schema_rejects() {
    let documents = documents("rejected");
    assert_eq!(documents.len(), 21);
    for (name, text) in documents {
        assert!(Policy::from_toml(&name, &text).is_err(), "{name}: {text}");
    }
}
