//! The `tollgate` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::run()
}
