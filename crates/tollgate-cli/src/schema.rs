//! `tollgate schema`: the JSON Schema of a policy file.

use std::io::Write;

use crate::serve::schema;
use crate::{Failure, Found};
use clap::Args;

/// Print the JSON Schema of a policy file, for editors
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate schema > tollgate.schema.json

In an editor that knows Taplo, the first line of a policy then says where it is:
  #:schema ./tollgate.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Found, Failure> {
        writeln!(out, "{}", schema().trim_end())?;
        Ok(Found::Good)
    }
}
