//! Generates `src/grpc/generated/` of tollgate-server from `proto/envoy/`, and writes the digests of
//! all these files to `proto/generated.sha256`, which a test of the server compares.
//!
//! `cargo run` writes the files, `cargo run -- --check` compares them and writes nothing.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use prost::Message;
use sha2::{Digest, Sha256};

const PROTO: &str = "envoy/service/ratelimit/v3/rls.proto";
const GENERATED: &str = "src/grpc/generated";
const DIGESTS: &str = "proto/generated.sha256";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write(),
        ["--check"] => check(),
        _ => Err("unknown option, use --check or none".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the crate tollgate-server.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes the generated files and their digests.
fn write() -> Result<(), Box<dyn Error>> {
    let out = root().join(GENERATED);
    fs::remove_dir_all(&out)?;
    generate(&out)?;
    fs::write(root().join(DIGESTS), digests(&out)?)?;
    Ok(())
}

/// Fails if the checked-in files are not those that [`write`] would write.
fn check() -> Result<(), Box<dyn Error>> {
    let (old, new) = (root().join(GENERATED), std::env::temp_dir().join("tollgate-generated"));
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    generate(&new)?;
    let digests = digests(&new)?;
    for file in files(&new)? {
        let name = file.strip_prefix(&new)?;
        if fs::read(old.join(name)).ok() != fs::read(&file).ok() {
            return Err(format!("{} is out of date, run `cargo run`", name.display()).into());
        }
    }
    fs::remove_dir_all(&new)?;
    match fs::read_to_string(root().join(DIGESTS))? == digests {
        true => Ok(()),
        false => Err(format!("{DIGESTS} is out of date, run `cargo run`").into()),
    }
}

/// Compiles the `.proto` files into `out`.
fn generate(out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let set = protox::compile([PROTO], [root().join("proto")])?;
    fs::write(out.join("descriptors.bin"), set.encode_to_vec())?;
    let build = tonic_prost_build::configure().build_client(false).include_file("mod.rs");
    build.out_dir(out).compile_fds(set)?;
    Ok(())
}

/// The SHA-256 of the `.proto` files and of the generated files in `out`, as `sha256sum` writes
/// them.
fn digests(out: &Path) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let folders = [(root().join("proto/envoy"), "proto/envoy"), (out.to_owned(), GENERATED)];
    for (folder, name) in folders {
        for file in files(&folder)? {
            let digest = Sha256::digest(fs::read(&file)?);
            let path = file.strip_prefix(&folder)?.to_string_lossy().replace('\\', "/");
            text += &format!("{digest:x}  {name}/{path}\n");
        }
    }
    Ok(text)
}

/// All files of a folder and its folders, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}
