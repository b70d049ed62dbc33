//! Any bytes as a test file: refused, or run and reported.

/// Reads the bytes as a test file, TOML or JSON, and runs its tests.
pub(crate) fn test_file(data: &[u8]) {
    tollgate_cli::try_test_file(data);
}

#[test]
fn any_test_file_is_rejected_or_run() {
    tollgate_testkit::fuzz("test_file", 60_000, test_file);
}
