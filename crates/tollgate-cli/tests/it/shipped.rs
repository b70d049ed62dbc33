//! What is shipped beside the program: the policies to start from, and what an import makes.

use std::path::{Path, PathBuf};

use crate::support::{Folder, Said, assert_transcript};

fn policies(is_test: bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let paths = files.map(|file| file.expect("a file").path());
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".toml") && name.ends_with(".test.toml") == is_test
    };
    paths.filter(wanted).map(|path| path.to_string_lossy().into_owned()).collect()
}

fn tollgate(command: &[&str], files: &[String]) -> Said {
    let files = files.iter().map(String::as_str);
    Folder::new().tollgate(&command.iter().copied().chain(files).collect::<Vec<_>>())
}

#[test]
fn every_shipped_policy_is_right_and_gives_no_warning() {
    let files = policies(false);
    assert!(files.len() >= 5, "{files:?}");
    let said = tollgate(&["validate", "--strict"], &files);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn every_shipped_policy_passes_its_own_tests() {
    let files = policies(true);
    assert_eq!(files.len(), policies(false).len(), "each policy has tests");
    let said = tollgate(&["test", "--json"], &files);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.json()["failed"], 0, "{}", said.out);
}

#[test]
fn an_envoy_file_becomes_a_policy_that_reads_back() {
    let yaml = "domain: edge\ndescriptors:\n  - key: path\n    value: /login\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n  - key: path\n    rate_limit: { unit: second, requests_per_unit: 100 }\n";
    let odd = "domain: edge\ndescriptorz: []\n";
    let folder = Folder::with(&[("edge.yaml", yaml), ("odd.yaml", odd)]);
    let import = folder.tollgate(&["import", "edge.yaml"]);
    assert_eq!(import.code, Some(0), "{}", import.err);
    folder.write("edge.toml", &import.out);
    let same = folder.tollgate(&["diff", "edge.yaml", "edge.toml"]);
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.err);
    let refused = folder.tollgate(&["import", "odd.yaml"]);
    assert_eq!(refused.code, Some(2));
    assert_transcript("import/envoy", [import, refused]);
}
