//! The answer for machines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::expect::Difference;
use super::report::{FileRun, count};
use super::run::{Failed, Ran};
use crate::duration::exact;

#[derive(Serialize)]
struct Answer<'a> {
    passed: usize,
    failed: usize,
    /// What is wrong with files that could not be understood.
    errors: &'a [String],
    files: Vec<FileAnswer<'a>>,
}

#[derive(Serialize)]
struct FileAnswer<'a> {
    file: &'a str,
    tests: Vec<TestAnswer<'a>>,
}

#[derive(Serialize)]
struct TestAnswer<'a> {
    name: &'a str,
    line: usize,
    passed: bool,
    steps: usize,
    failures: Vec<StepAnswer<'a>>,
}

#[derive(Serialize)]
struct StepAnswer<'a> {
    step: usize,
    line: usize,
    at: String,
    #[serde(rename = "do")]
    word: &'static str,
    times: u64,
    request: BTreeMap<&'a str, &'a str>,
    /// Why it could not be done; null where it was.
    message: Option<&'a str>,
    differences: &'a [Difference],
}

pub(super) fn write(
    out: &mut impl Write,
    runs: &[FileRun<'_>],
    errors: &[String],
) -> io::Result<()> {
    let (passed, failed) = count(runs);
    let files = runs
        .iter()
        .map(|run| FileAnswer { file: run.file, tests: run.tests.iter().map(test).collect() });
    let answer = Answer { passed, failed, errors, files: files.collect() };
    serde_json::to_writer_pretty(&mut *out, &answer)?;
    writeln!(out)
}

fn test<'a>(ran: &'a Ran<'_>) -> TestAnswer<'a> {
    TestAnswer {
        name: &ran.test.name,
        line: ran.test.line,
        passed: ran.passed(),
        steps: ran.test.steps.len(),
        failures: ran.failures.iter().map(step).collect(),
    }
}

fn step<'a>(failed: &'a Failed<'_>) -> StepAnswer<'a> {
    let attributes = failed.step.action.attributes().iter();
    StepAnswer {
        step: failed.number,
        line: failed.step.line,
        at: exact(failed.step.at),
        word: failed.step.action.word(),
        times: failed.step.times,
        request: attributes.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        message: failed.message.as_deref(),
        differences: &failed.differences,
    }
}
