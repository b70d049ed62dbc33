//! `cargo +nightly fuzz run policy_file`, or on stable `cargo run --bin policy_file -- FILE` for one input.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::policy_file(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tollgate_fuzz::replay(tollgate_fuzz::policy_file)
}
