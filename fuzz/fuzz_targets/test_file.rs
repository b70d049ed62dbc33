//! `cargo +nightly fuzz run test_file`, or on stable `cargo run --bin test_file -- FILE` for one input.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::test_file(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tollgate_fuzz::replay(tollgate_fuzz::test_file)
}
