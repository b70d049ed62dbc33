//! `tollgate diff`: what a new policy changes, and for whom.

mod compare;
mod rules;
mod write;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::paint::Paint;
use crate::policy_file::read_or_fail;
use crate::{Failure, Found};

/// Say what a new policy changes, and for whom
///
/// Rules are the same where their names are: state is kept by name.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate diff tollgate.toml tollgate.new.toml
  tollgate diff old.toml new.toml --json

Exit codes: 0 both decide alike, 1 they differ, 2 a file is wrong")]
pub(crate) struct Diff {
    /// The policy in force
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The policy that replaces it
    #[arg(value_name = "NEW")]
    new: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Something that is not as it was.
#[derive(Debug, PartialEq, Serialize)]
struct Change {
    /// What it is: `rule`, `allow`, `deny`, `override` or `policy`.
    what: &'static str,
    name: String,
    kind: Kind,
    details: Vec<Detail>,
    /// What becomes of what was consumed, for rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    consumption: Option<Consumption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Added,
    Removed,
    Changed,
}

/// One setting, before and after.
#[derive(Debug, PartialEq, Serialize)]
struct Detail {
    setting: &'static str,
    /// Whose, where it is not the same for all.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    whose: Option<String>,
    old: Option<String>,
    new: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Consumption {
    /// As it is.
    Kept,
    /// The numbers change, and who had used a third still has.
    KeptInProportion,
    /// Something else counts together.
    StartsAnewOtherKey,
    /// State is kept by name, and the rule of this name is called otherwise now.
    StartsAnewRenamedFrom(String),
    /// There was no such rule.
    StartsAtNothing,
    /// There is no such rule any more.
    Forgotten,
}

#[derive(Serialize)]
struct Answer<'a> {
    equal: bool,
    changes: &'a [Change],
}

impl Diff {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        let old = read_or_fail(&self.old);
        let new = read_or_fail(&self.new);
        let (old, new) = match (old, new) {
            (Ok(old), Ok(new)) => (old, new),
            // Both files' mistakes at once.
            (Err(Failure::Files(mut wrong)), Err(Failure::Files(more))) => {
                wrong.extend(more);
                return Err(Failure::Files(wrong));
            }
            (Err(failure), _) | (_, Err(failure)) => return Err(failure),
        };
        let changes = compare::changes(&old, &new);
        if self.json {
            let answer = Answer { equal: changes.is_empty(), changes: &changes };
            serde_json::to_writer_pretty(&mut *out, &answer).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            write::changes(out, paint, &changes)?;
        }
        Ok(if changes.is_empty() { Found::Good } else { Found::Bad })
    }
}
