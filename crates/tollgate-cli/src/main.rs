//! The `tollgate` binary.

use std::process::ExitCode;

/// Large buffers that are used at their beginning alone, as every connection of HTTP/2 has three, take
/// up one page each, and what lies between connections that have gone is used again.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tollgate_cli::run()
}
