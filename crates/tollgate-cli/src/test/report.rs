//! The answer for people.

use std::io::{self, Write};

use super::run::{Failed, Ran};
use crate::duration::exact;
use crate::paint::{Paint, Tone, printable};

/// How many failing steps of a test are told: what follows is often their consequence.
const MOST_STEPS: usize = 5;

/// What came of a file.
pub(super) struct FileRun<'a> {
    pub(super) file: &'a str,
    pub(super) tests: Vec<Ran<'a>>,
}

impl Ran<'_> {
    pub(super) fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// How many tests passed and how many failed.
pub(super) fn count(runs: &[FileRun<'_>]) -> (usize, usize) {
    let tests = || runs.iter().flat_map(|run| &run.tests);
    let passed = tests().filter(|ran| ran.passed()).count();
    (passed, tests().count() - passed)
}

pub(super) fn write(out: &mut impl Write, paint: Paint, runs: &[FileRun<'_>]) -> io::Result<()> {
    for run in runs {
        if runs.len() > 1 {
            writeln!(out, "{}", paint.text(Tone::Heading, &printable(run.file)))?;
        }
        for ran in &run.tests {
            test(out, paint, run.file, ran)?;
        }
    }
    let (passed, failed) = count(runs);
    writeln!(out, "{passed} passed, {failed} failed")
}

fn test(out: &mut impl Write, paint: Paint, file: &str, ran: &Ran<'_>) -> io::Result<()> {
    let mark = match ran.passed() {
        true => paint.text(Tone::Good, "✓"),
        false => paint.text(Tone::Bad, "✗"),
    };
    let steps = ran.test.steps.len();
    let steps = format!("({steps} {})", if steps == 1 { "step" } else { "steps" });
    let name = one_line(&ran.test.name);
    writeln!(out, "{mark} {name} {}", paint.text(Tone::Quiet, &steps))?;
    for failed in ran.failures.iter().take(MOST_STEPS) {
        for line in failure(file, failed).lines() {
            writeln!(out, "    {line}")?;
        }
    }
    match ran.failures.len().saturating_sub(MOST_STEPS) {
        0 => Ok(()),
        more => writeln!(out, "    and {more} more steps failed"),
    }
}

/// A failed step and its differences, on several lines.
pub(super) fn failure(file: &str, failed: &Failed<'_>) -> String {
    let mut text = format!("{file}:{}: {}\n", failed.step.line, headline(failed));
    if let Some(message) = &failed.message {
        text += &format!("  {message}\n");
    }
    let width = failed.differences.iter().map(|difference| difference.field.chars().count()).max();
    let width = width.unwrap_or(0);
    for difference in &failed.differences {
        let (field, wanted, got) = (&difference.field, &difference.expected, &difference.got);
        text += &format!("  {field:<width$}  expected {wanted}, got {got}\n");
    }
    printable(&text)
}

/// Which step it is: `step 2 at 6s: check user=42 route=/search, 3 times`.
pub(super) fn headline(failed: &Failed<'_>) -> String {
    let step = failed.step;
    let mut text = format!("step {} at {}: {}", failed.number, exact(step.at), step.action.word());
    for (name, value) in step.action.attributes() {
        text += &format!(" {}={}", one_line(name), one_line(value));
    }
    if step.times > 1 {
        text += &format!(", {} times", step.times);
    }
    text
}

/// A name as it may stand on a line.
fn one_line(text: &str) -> String {
    printable(&text.replace('\n', "\\n"))
}
