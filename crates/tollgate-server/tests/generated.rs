//! The code in `src/grpc/generated/` is what the files in `proto/` say. It is checked in, so that a
//! build needs no compiler of them.

use std::path::Path;

use prost::Message;

/// Writes anew what is out of date instead of failing: `TOLLGATE_GENERATE=1 cargo test --test generated`.
const GENERATE: &str = "TOLLGATE_GENERATE";

#[test]
fn the_generated_code_is_up_to_date_with_the_proto_files() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = here.join("src/grpc/generated");
    let proto = "envoy/service/ratelimit/v3/rls.proto";
    let set = protox::compile([proto], [here.join("proto")]).expect("the files are right");
    let out = here.join("src/grpc/generated");
    let out = if std::env::var_os(GENERATE).is_some() {
        out
    } else {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
        std::fs::create_dir_all(&fresh).expect("a folder");
        fresh
    };
    std::fs::write(out.join("descriptors.bin"), set.encode_to_vec()).expect("it can be written");
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("mod.rs")
        .out_dir(&out)
        .compile_fds(set)
        .expect("code");
    let mut files: Vec<_> = std::fs::read_dir(&out)
        .expect("a folder")
        .map(|file| file.expect("a file").file_name())
        .collect();
    files.sort();
    for file in files {
        let (old, new) = (generated.join(&file), out.join(&file));
        let same = std::fs::read(&old).ok() == std::fs::read(&new).ok();
        assert!(same, "{} is out of date, see {GENERATE} in this test", old.display());
    }
}
