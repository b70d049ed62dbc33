//! `tollgate validate`: whether policy files are right, and what in them is probably wrong.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tollgate::{Diagnostic, LoadedPolicy, Policy};

use crate::paint::{Paint, Tone, printable};
use crate::policy_file::lines;
use crate::serve::read_both;
use crate::{Failure, Found};

/// Check policy files, and name what is legal and probably wrong
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate validate tollgate.toml
  tollgate validate policies/*.toml --strict
  tollgate validate tollgate.toml --json

Exit codes: 0 every file is right, 1 there are warnings and --strict was said, 2 a file is wrong")]
pub(crate) struct Validate {
    /// Policy files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Fail also where something is only probably wrong
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    ok: bool,
    files: Vec<FileAnswer>,
}

#[derive(Serialize)]
struct FileAnswer {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
    errors: Vec<FindingAnswer>,
    warnings: Vec<FindingAnswer>,
}

/// How much is in a policy.
#[derive(Serialize)]
struct Counts {
    rules: usize,
    tiers: usize,
    overrides: usize,
    allow: usize,
    deny: usize,
}

#[derive(Serialize)]
struct FindingAnswer {
    file: String,
    /// From 1; 0 where it is about the whole file.
    line: usize,
    rule: Option<String>,
    message: String,
}

impl Validate {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        let read: Vec<_> = self
            .files
            .iter()
            .map(|path| (printable(&path.display().to_string()), read_both(path)))
            .collect();
        if self.json {
            let files: Vec<_> = read.iter().map(|(file, result)| answer(file, result)).collect();
            let answer = Answer { ok: files.iter().all(|file| file.ok), files };
            serde_json::to_writer_pretty(&mut *out, &answer).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            for (file, result) in &read {
                write(out, paint, file, result)?;
            }
        }
        let errors: Vec<String> = read
            .iter()
            .filter_map(|(_, result)| result.as_ref().err())
            .flat_map(|findings| lines(findings))
            .collect();
        let warns = |(_, result): &(_, Result<LoadedPolicy, _>)| {
            result.as_ref().is_ok_and(|loaded| !loaded.warnings.is_empty())
        };
        match read.iter().any(warns) && self.strict {
            _ if !errors.is_empty() => Err(Failure::Files(errors)),
            true => Ok(Found::Bad),
            false => Ok(Found::Good),
        }
    }
}

/// Errors are told apart from the answer, all at once.
fn write(
    out: &mut impl Write,
    paint: Paint,
    file: &str,
    result: &Result<LoadedPolicy, Vec<Diagnostic>>,
) -> io::Result<()> {
    match result {
        Ok(loaded) => {
            let ok = paint.text(Tone::Good, "ok");
            writeln!(out, "{file}: {ok}, {}", summary(&Counts::of(&loaded.policy)))?;
            for line in lines(&loaded.warnings) {
                writeln!(out, "warning: {line}")?;
            }
            Ok(())
        }
        Err(findings) => {
            let wrong = paint.text(Tone::Bad, "wrong");
            writeln!(out, "{file}: {wrong}, {}", plural(findings.len(), "error"))
        }
    }
}

impl Counts {
    fn of(policy: &Policy) -> Counts {
        let own = policy.rules.iter().flat_map(|rule| rule.tiers.keys());
        let tiers: std::collections::BTreeSet<&String> = policy.tiers.keys().chain(own).collect();
        Counts {
            rules: policy.rules.len(),
            tiers: tiers.len(),
            overrides: policy.overrides.len(),
            allow: policy.allow.len(),
            deny: policy.deny.len(),
        }
    }
}

fn summary(counts: &Counts) -> String {
    let rest = [
        (counts.tiers, "tier"),
        (counts.overrides, "override"),
        (counts.allow, "allow list"),
        (counts.deny, "deny list"),
    ];
    let rest = rest.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = std::iter::once(plural(counts.rules, "rule"))
        .chain(rest.map(|(count, what)| plural(*count, what)))
        .collect();
    parts.join(", ")
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn answer(file: &str, result: &Result<LoadedPolicy, Vec<Diagnostic>>) -> FileAnswer {
    let findings = |findings: &[Diagnostic]| findings.iter().map(finding).collect();
    let (ok, counts, errors, warnings) = match result {
        Ok(loaded) => {
            (true, Some(Counts::of(&loaded.policy)), Vec::new(), findings(&loaded.warnings))
        }
        Err(errors) => (false, None, findings(errors), Vec::new()),
    };
    FileAnswer { file: file.to_owned(), ok, counts, errors, warnings }
}

fn finding(finding: &Diagnostic) -> FindingAnswer {
    FindingAnswer {
        file: finding.file.clone(),
        line: finding.line,
        rule: finding.rule.clone(),
        message: finding.message.clone(),
    }
}
