//! `tollgate test`: unit tests for a policy, under a clock that stands still until they move it.

mod change;
mod data;
mod document;
#[cfg(test)]
mod documented;
mod door;
mod expect;
mod fields;
mod json;
mod junit;
mod policies;
mod report;
mod run;
mod seen;
mod start;
mod step;
mod suite;
mod value;
mod values;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use tollgate::Clock;

use crate::paint::{Paint, printable};
use crate::{Failure, Found};
use data::Suite;
pub(crate) use document::Document;
use door::Backend;
pub(crate) use fields::{closest, expected, unknown};
use junit::Unread;
use report::FileRun;
pub(crate) use seen::reason;

/// Run unit tests for a policy, under a clock that they move
///
/// A test file is TOML, or JSON with the same structure: a policy, and tests whose steps are done
/// on a gate that begins new. docs/testing-limits.md has every key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate test limits.test.toml
  tollgate test tests/*.toml --filter burst
  tollgate test limits.test.toml --json
  tollgate test limits.test.toml --junit report.xml

A test file:
  policy = \"tollgate.toml\"
  [[test]]
  name = \"a burst of ten, then one every six seconds\"
  [[test.step]]
  request = { user = \"42\", route = \"/search\" }
  times = 10
  expect = { allowed = true, remaining = 0 }
  [[test.step]]
  at = \"6s\"
  request = { user = \"42\", route = \"/search\" }
  expect = { allowed = true, remaining = 0 }

Exit codes: 0 every test passed, 1 some failed, 2 a file could not be understood or an option is wrong")]
pub(crate) struct Test {
    /// Test files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Run only tests whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Also write a report as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Where the state is kept, whatever the files say: memory, or redis://host:6379. On a server
    /// every test has a namespace of its own and leaves nothing behind
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

/// The files, those that could be read and those that could not.
#[derive(Default)]
struct Files {
    suites: Vec<Suite>,
    unread: Vec<Unread>,
    warnings: Vec<String>,
}

impl Test {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        if let Some(wrong) = self.store.as_deref().and_then(suite::unsupported) {
            return Err(Failure::Usage(vec![printable(&wrong)]));
        }
        let files = self.read();
        for warning in &files.warnings {
            crate::tell(format_args!("{}", printable(&format!("warning: {warning}"))));
        }
        let stopwatch = self.junit.is_some().then(Clock::system);
        let mut runs: Vec<FileRun<'_>> = Vec::new();
        for suite in &files.suites {
            let store = self.store.as_deref().or(suite.store.as_deref()).unwrap_or("memory");
            let backend = Backend::open(store);
            let backend = backend.map_err(|wrong| Failure::Usage(vec![printable(&wrong)]))?;
            let run = |test| run::run(test, &backend, stopwatch.as_ref());
            let tests: Vec<_> = self.chosen(suite).map(run).collect();
            if !tests.is_empty() {
                runs.push(FileRun { file: &suite.file, tests });
            }
        }
        let mut errors: Vec<String> =
            files.unread.iter().flat_map(|unread| unread.errors.clone()).collect();
        if errors.is_empty() && runs.is_empty() {
            let filter = self.filter.as_deref().unwrap_or_default();
            errors.push(printable(&format!("no test has a name that contains {filter:?}")));
        }
        if self.json {
            json::write(out, &runs, &errors)?;
        } else if !runs.is_empty() {
            report::write(out, paint, &runs)?;
        }
        if let Some(path) = &self.junit {
            let written = std::fs::write(path, junit::xml(&runs, &files.unread));
            errors.extend(written.err().map(|error| {
                printable(&format!("{}: cannot be written: {error}", path.display()))
            }));
        }
        match report::count(&runs) {
            _ if !errors.is_empty() => Err(Failure::Files(errors)),
            (_, 0) => Ok(Found::Good),
            _ => Ok(Found::Bad),
        }
    }

    fn read(&self) -> Files {
        let mut files = Files::default();
        for path in &self.files {
            let reading = match Document::read(path) {
                Ok(document) => suite::read(&document, self.store.as_deref()),
                Err(wrong) => {
                    suite::Reading { suite: Err(vec![printable(&wrong)]), warnings: Vec::new() }
                }
            };
            let unseen = |warning: &String| !files.warnings.contains(warning);
            let warnings: Vec<_> = reading.warnings.into_iter().filter(unseen).collect();
            files.warnings.extend(warnings);
            match reading.suite {
                Ok(suite) => files.suites.push(suite),
                Err(errors) => {
                    let mut errors: Vec<_> = errors.iter().map(|error| printable(error)).collect();
                    errors.dedup();
                    files.unread.push(Unread { file: path.display().to_string(), errors });
                }
            }
        }
        files
    }

    fn chosen<'a>(&'a self, suite: &'a Suite) -> impl Iterator<Item = &'a data::Test> {
        let filter = self.filter.as_deref().unwrap_or_default();
        suite.tests.iter().filter(move |test| test.name.contains(filter))
    }
}

/// Reads bytes as a test file and runs it; nobody sees what comes of it. For fuzzing.
pub(crate) fn try_bytes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let document = match text.starts_with('{') {
        true => Document::from_json("fuzz.json".to_owned(), text),
        false => Ok(Document::from_toml("fuzz.toml".to_owned(), text.to_owned())),
    };
    let Ok(document) = document else {
        return;
    };
    let Ok(suite) = suite::read(&document, Some("memory")).suite else {
        return;
    };
    let quick = |test: &&data::Test| test.steps.iter().map(|step| step.times).sum::<u64>() < 1000;
    let runs = FileRun {
        file: &suite.file,
        tests: suite
            .tests
            .iter()
            .filter(quick)
            .map(|test| run::run(test, &Backend::Memory, None))
            .collect(),
    };
    let _ = report::write(&mut std::io::sink(), Paint::Coloured, std::slice::from_ref(&runs));
    let _ = json::write(&mut std::io::sink(), std::slice::from_ref(&runs), &[]);
    let _ = junit::xml(std::slice::from_ref(&runs), &[]);
}
