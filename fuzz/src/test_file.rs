//! Any bytes as a test file: refused, or run and reported.

/// Reads the bytes as a test file, TOML or JSON, and runs its tests.
pub fn test_file(data: &[u8]) {
    tollgate_cli::try_test_file(data);
}
