use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;

fn documented() -> Value {
    serde_json::from_str(Document::default().get(&Bounds::default())).unwrap()
}

/// All source files.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn every_route_of_the_router_is_in_the_document_and_the_reverse() {
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut files);
    let mut routed = BTreeSet::new();
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rs");
    let files = files.iter().filter(is_source);
    for file in files.filter(|file| !file.ends_with("openapi/tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let paths = text.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
        routed.extend(paths.map(str::to_owned));
    }
    routed.extend(ROUTES.iter().map(|route| route.operation.path.to_owned()));
    let documented: BTreeSet<String> =
        documented()["paths"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(routed, documented);
}

#[test]
fn every_schema_that_is_named_is_there() {
    let document = documented();
    let known = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    let mut used = BTreeSet::new();
    for name in text.split("#/components/schemas/").skip(1) {
        used.insert(name.split('"').next().unwrap());
    }
    for name in &used {
        assert!(known.contains_key(*name), "{name}");
    }
    for name in known.keys() {
        assert!(used.contains(name.as_str()), "{name} is not used");
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = documented();
    let paths = document["paths"].as_object().unwrap().values();
    let operations: Vec<_> = paths.flat_map(|path| path.as_object().unwrap().values()).collect();
    let ids: BTreeSet<_> =
        operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    let of_data = data::OPERATIONS.iter().map(|operation| operation.methods().len());
    assert_eq!(operations.len(), of_data.sum::<usize>() + ROUTES.len());
}

#[test]
fn bounds_that_an_operator_has_changed_are_in_the_document() {
    let bounds = Bounds { batch: 7, attributes: 5, key_length: 99, ..Bounds::default() };
    let document: Value = serde_json::from_str(Document::default().get(&bounds)).unwrap();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Batch"]["properties"]["requests"]["maxItems"], 7);
    assert_eq!(schemas["Attributes"]["maxProperties"], 5);
    let usual = documented()["components"]["schemas"]["Attributes"]["description"].clone();
    let expected = usual.as_str().unwrap().replace("4096", "99");
    assert_ne!(usual, expected);
    assert_eq!(schemas["Attributes"]["description"], expected);
}
