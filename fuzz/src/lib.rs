//! The fuzz targets of Tollgate for libFuzzer. Each takes any bytes and panics if a claim is false.
//!
//! The functions are next to the tests of the crate they concern, where a quick form runs with the
//! other tests.

#[path = "../../crates/tollgate/tests/it/fuzz_keys.rs"]
mod fuzz_keys;
#[path = "../../crates/tollgate/tests/it/fuzz_limit_text.rs"]
mod fuzz_limit_text;
#[path = "../../crates/tollgate-lab/tests/it/fuzz_log_line.rs"]
mod fuzz_log_line;
#[path = "../../crates/tollgate/tests/it/fuzz_policy_file.rs"]
mod fuzz_policy_file;
#[path = "../../crates/tollgate-server/tests/it/fuzz_resp.rs"]
mod fuzz_resp;
#[path = "../../crates/tollgate/tests/it/fuzz_snapshot.rs"]
mod fuzz_snapshot;
#[path = "../../crates/tollgate-cli/tests/it/fuzz_test_file.rs"]
mod fuzz_test_file;
#[path = "../../crates/tollgate/tests/it/fuzz_traffic.rs"]
mod fuzz_traffic;

/// Compares two keys of any parts.
pub fn keys(data: &[u8]) {
    fuzz_keys::keys(data);
}

/// Reads any text as a limit.
pub fn limit_text(data: &[u8]) {
    fuzz_limit_text::limit_text(data);
}

/// Reads any bytes as an access log.
pub fn log_line(data: &[u8]) {
    fuzz_log_line::log_line(data);
}

/// Reads any text as a policy file.
pub fn policy_file(data: &[u8]) {
    fuzz_policy_file::policy_file(data);
}

/// Answers any bytes on the Redis-protocol port.
pub fn resp(data: &[u8]) {
    fuzz_resp::resp(data);
}

/// Restores any bytes as a snapshot.
pub fn snapshot(data: &[u8]) {
    fuzz_snapshot::snapshot(data);
}

/// Reads any bytes as a test file.
pub fn test_file(data: &[u8]) {
    fuzz_test_file::test_file(data);
}

/// Compares any traffic on any limit with the model.
pub fn traffic(data: &[u8]) {
    fuzz_traffic::traffic(data);
}

/// Calls `body` with the files named on the command line, to repeat a crash that libFuzzer found.
///
/// # Errors
/// If a file cannot be read.
pub fn replay(body: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        body(&std::fs::read(path)?);
    }
    Ok(())
}
