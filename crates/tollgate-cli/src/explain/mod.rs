//! `tollgate explain`: which rules apply to a request, why the others do not, and what follows.

mod json;
mod table;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use tollgate::{
    Clock, Explanation, Gate, ManualClock, MemoryStore, Request, RuleMatch, Ruling, Timestamp,
};

use crate::paint::Paint;
use crate::policy_file::read_or_fail;
use crate::{Failure, Found, moment, words};

/// Say which rules apply to a request, why the others do not, and what follows
///
/// Attributes are given as name=value. The decision is what a gate that has seen nothing yet would
/// answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate explain tollgate.toml user=42 route=/search
  tollgate explain tollgate.toml user=42 tier=pro route=/search --cost 5 --json
  tollgate explain tollgate.toml user=42 --at 2026-12-24T18:00:00Z

Exit codes: 0 explained, 1 the answer could not be written, 2 the policy or an argument is wrong")]
pub(crate) struct Explain {
    /// A policy file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What is known of the request, such as user=42 route=/search
    #[arg(value_name = "NAME=VALUE", value_parser = read_attribute)]
    attributes: Vec<(String, String)>,

    /// How many units the request asks for [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,

    /// When the request comes, for overrides that end [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = moment::read)]
    at: Option<Timestamp>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A request and everything there is to say of it.
struct Explained<'a> {
    request: Request<'a>,
    at: Timestamp,
    explanation: Explanation,
    /// What a gate that has seen nothing yet answers.
    ruling: Ruling,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        let policy = read_or_fail(&self.file)?;
        let at = self.at.unwrap_or_else(this_second);
        let store = MemoryStore::builder().clock(ManualClock::at(at)).build();
        let wrong = |message: String| Failure::Files(vec![message]);
        let store = store.map_err(|error| wrong(error.to_string()))?;
        let gate = Gate::with_store(store, policy).map_err(|error| wrong(error.to_string()))?;
        let pairs = self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut request = pairs.collect::<Request<'_>>();
        if let Some(units) = self.cost {
            request = request.cost(units);
        }
        let explanation = gate.explain(&request);
        let ruling = gate.check(&request);
        let explained = Explained { request, at, explanation, ruling };
        if self.json {
            json::write(out, &explained)?
        } else {
            table::write(out, paint, &explained)?
        }
        Ok(Found::Good)
    }
}

/// The time now, in whole seconds, as `--at` gives it.
fn this_second() -> Timestamp {
    let now = Clock::system().now().as_nanos();
    Timestamp::from_secs(now / 1_000_000_000)
}

/// Why a rule does not apply; nothing where it does.
fn why(verdict: &RuleMatch) -> Option<String> {
    let is = |value: &Option<String>| match value {
        Some(value) => format!("is {value:?}"),
        None => "is absent".to_owned(),
    };
    match verdict {
        RuleMatch::Applies => None,
        RuleMatch::ConditionFailed { attribute, condition, value } => {
            Some(format!("{attribute} {}, {}", is(value), words::condition(condition)))
        }
        RuleMatch::KeyMissing { attribute } => {
            Some(format!("{attribute} is absent, which its key needs"))
        }
        RuleMatch::InvalidCost { attribute, value } => {
            Some(format!("{attribute} is {value:?}, its cost must be a whole number"))
        }
        other => Some(format!("{other:?}")),
    }
}

fn read_attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not name=value, such as user=42")),
    }
}
