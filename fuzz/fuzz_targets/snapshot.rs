//! `cargo +nightly fuzz run snapshot`, or on stable `cargo run --bin snapshot -- FILE` for one input.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::snapshot(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tollgate_fuzz::replay(tollgate_fuzz::snapshot)
}
