//! The code in `src/grpc/generated/` is that of the files in `proto/envoy/`. It is checked in, so
//! that a build needs no compiler of them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// All files of a folder and its folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn generated_code_is_up_to_date_with_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = [root.join("proto/envoy"), root.join("src/grpc/generated")].map(|of| files(&of));
    all.iter_mut().for_each(|files| files.sort());
    let mut sums = String::new();
    for path in all.iter().flatten() {
        let digest = Sha256::digest(fs::read(path).unwrap());
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        writeln!(sums, "{digest:x}  {name}").unwrap();
    }
    let written = fs::read_to_string(root.join("proto/generated.sha256")).unwrap();
    assert_eq!(sums, written, "run `cargo run` in crates/tollgate-server/proto/generate");
}
