//! The bodies of the fuzz targets: each takes any bytes, and panics where a claim is false.

mod input;
mod keys;
mod limit_text;
mod log_line;
mod policy_file;
mod resp;
mod snapshot;
mod test_file;
mod traffic;

pub use keys::keys;
pub use limit_text::limit_text;
pub use log_line::log_line;
pub use policy_file::policy_file;
pub use resp::resp;
pub use snapshot::snapshot;
pub use test_file::test_file;
pub use traffic::traffic;

/// Feeds `body` the files named on the command line, for a crash that libFuzzer has found.
///
/// # Errors
/// Where a file cannot be read.
pub fn replay(body: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        body(&std::fs::read(path)?);
    }
    Ok(())
}
