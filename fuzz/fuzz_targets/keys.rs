//! `cargo +nightly fuzz run keys`, or on stable `cargo run --bin keys -- FILE` for one input.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::keys(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tollgate_fuzz::replay(tollgate_fuzz::keys)
}
