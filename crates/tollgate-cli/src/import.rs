//! `tollgate import`: a policy file from somebody else's.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::policy_file::read_or_fail;
use crate::{Failure, Found};

/// Turn an Envoy ratelimit file into a policy file
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate import ratelimit.yaml > tollgate.toml

What cannot be said as a policy is refused with the reason. Every command also reads such a file as
it is, by its name: tollgate validate ratelimit.yaml")]
pub(crate) struct Import {
    /// The file; .yaml and .yml are Envoy's
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Found, Failure> {
        out.write_all(read_or_fail(&self.file)?.to_toml().as_bytes())?;
        Ok(Found::Good)
    }
}
