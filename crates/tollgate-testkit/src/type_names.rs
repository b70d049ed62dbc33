//! One name, one meaning: a type name is defined once in the whole workspace, tests excepted.
//!
//! `type-names-defined-twice.txt` lists the names that still have several definitions. The list may
//! only shrink: a new double, one more definition of a listed name, and a listed name that no
//! longer needs its line all fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::golden::assert_golden;

#[test]
fn type_names_are_defined_once_except_for_the_listed_ones() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = package.join("../..");
    let mut definitions: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in source_files(&workspace) {
        let text = std::fs::read_to_string(&file).expect("a source file is readable");
        let file = file.strip_prefix(&workspace).expect("it is in the workspace").to_owned();
        for name in type_names(&text) {
            definitions.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(definitions.contains_key("RedisServer"), "the source files were not found");
    definitions.retain(|_, files| files.len() > 1);
    let mut list = String::new();
    for (name, files) in &definitions {
        let _ = writeln!(list, "{name} {}", files.len());
    }
    let listed = std::fs::read_to_string(list_path()).expect("the list is readable");
    let listed: BTreeMap<&str, usize> = listed.lines().filter_map(list_entry).collect();
    for (name, files) in &definitions {
        let most = listed.get(name.as_str()).copied().unwrap_or(1);
        assert!(
            files.len() <= most,
            "the type name {name} has {} definitions, at most {most} are allowed: {files:?}; \
             choose a name that says what it is",
            files.len()
        );
    }
    // A name that became unique leaves the list, in the same change.
    assert_golden(&list_path(), &list);
}

fn list_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("type-names-defined-twice.txt")
}

fn list_entry(line: &str) -> Option<(&str, usize)> {
    let (name, count) = line.split_once(' ')?;
    Some((name, count.parse().ok()?))
}

/// The product's source files: `crates/*/src` and `bench/src`, without files of tests.
fn source_files(workspace: &Path) -> Vec<PathBuf> {
    let mut folders = vec![workspace.join("bench/src")];
    for package in list(&workspace.join("crates")) {
        folders.push(package.join("src"));
    }
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in list(&folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_test = matches!(name.as_str(), "tests" | "tests.rs" | "generated")
                || name.ends_with("_tests.rs");
            if is_test {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("the folder is readable").path()).collect()
}

/// The names of the types and traits that a file defines before its tests.
fn type_names(text: &str) -> impl Iterator<Item = &str> {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product.lines().filter_map(|line| {
        let words = line.trim_start().trim_start_matches("pub ");
        let words = match words.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => words,
        };
        let (keyword, rest) = words.split_once(' ')?;
        // An indented `type` is an associated type.
        let is_item = matches!(keyword, "struct" | "enum" | "trait" | "union")
            || (keyword == "type" && !line.starts_with(' '));
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_name = rest.starts_with(|c: char| c.is_ascii_uppercase());
        (is_item && is_name).then_some(&rest[..end])
    })
}

#[test]
fn definitions_are_found_and_tests_are_not() {
    let text = "pub struct A;\n    pub(crate) enum B<T> {\nimpl X {\n    type C = u8;\ntype D = u8;\n\
                trait E: Sized {}\n#[cfg(test)]\nmod tests {\nstruct F;";
    assert_eq!(type_names(text).collect::<Vec<_>>(), ["A", "B", "D", "E"]);
}
