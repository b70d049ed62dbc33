//! `cargo +nightly fuzz run limit_text`, or on stable `cargo run --bin limit_text -- FILE` for one input.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::limit_text(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tollgate_fuzz::replay(tollgate_fuzz::limit_text)
}
