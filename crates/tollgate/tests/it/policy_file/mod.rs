//! The policy file: what is read, every mistake that is named, what is warned of, and what is
//! written back.

mod arbitrary;
mod docs;
mod files;
mod mistakes;
mod mistakes_around;
mod reading;
mod schema;
mod speed;
mod syntax;
mod warnings;
mod writing;

use tollgate::{LoadedPolicy, Policy};

/// Reads `text`, which must be a policy.
#[track_caller]
fn loads(text: &str) -> LoadedPolicy {
    Policy::from_toml("t.toml", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Reads `text`, which must be refused with exactly these lines.
#[track_caller]
fn refuses(text: &str, lines: &[&str]) {
    let error = Policy::from_toml("t.toml", text).expect_err(text);
    assert_eq!(error.to_string().lines().collect::<Vec<_>>(), lines, "{text}");
}

/// Reads `text`, which must be a policy with exactly these warnings.
#[track_caller]
fn warns(text: &str, lines: &[&str]) {
    let warnings = loads(text).warnings;
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, lines, "{text}");
}
