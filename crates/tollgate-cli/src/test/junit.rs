//! The answer for CI systems: JUnit XML.

use std::fmt::Write;
use std::time::Duration;

use super::report::{FileRun, failure, headline};
use super::run::Ran;

/// A file that could not be understood, and why.
pub(super) struct Unread {
    pub(super) file: String,
    pub(super) errors: Vec<String>,
}

/// The whole report.
pub(super) fn xml(runs: &[FileRun<'_>], unread: &[Unread]) -> String {
    let tests: usize = runs.iter().map(|run| run.tests.len()).sum::<usize>() + unread.len();
    let failures: usize = runs.iter().map(failed).sum();
    let took: Duration = runs.iter().flat_map(|run| &run.tests).map(|ran| ran.took).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{}\"", unread.len());
    let _ = writeln!(xml, "<testsuites name=\"tollgate\" {counts} time=\"{}\">", seconds(took));
    runs.iter().for_each(|run| suite(&mut xml, run));
    unread.iter().for_each(|file| error(&mut xml, file));
    xml + "</testsuites>\n"
}

fn suite(xml: &mut String, run: &FileRun<'_>) {
    let file = escaped(run.file);
    let (tests, failures) = (run.tests.len(), failed(run));
    let took: Duration = run.tests.iter().map(|ran| ran.took).sum();
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\"");
    let _ = writeln!(xml, "  <testsuite name=\"{file}\" {counts} time=\"{}\">", seconds(took));
    run.tests.iter().for_each(|ran| case(xml, run.file, ran));
    xml.push_str("  </testsuite>\n");
}

fn case(xml: &mut String, file: &str, ran: &Ran<'_>) {
    let name = escaped(&ran.test.name);
    let place = format!("file=\"{}\" line=\"{}\"", escaped(file), ran.test.line);
    let class = escaped(file);
    let time = seconds(ran.took);
    let case = format!("<testcase name=\"{name}\" classname=\"{class}\" {place} time=\"{time}\"");
    let Some(first) = ran.failures.first() else {
        let _ = writeln!(xml, "    {case}/>");
        return;
    };
    let _ = writeln!(xml, "    {case}>");
    let told: String = ran.failures.iter().map(|failed| failure(file, failed)).collect();
    let message = escaped(&headline(first));
    let told = escaped(&told);
    let _ = writeln!(xml, "      <failure message=\"{message}\" type=\"expect\">{told}</failure>");
    xml.push_str("    </testcase>\n");
}

/// A file that could not be understood counts as a test that had an error.
fn error(xml: &mut String, unread: &Unread) {
    let file = escaped(&unread.file);
    let counts = "tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0\"";
    let _ = writeln!(xml, "  <testsuite name=\"{file}\" {counts}>");
    let _ = writeln!(xml, "    <testcase name=\"{file}\" classname=\"{file}\" time=\"0\">");
    let message = unread.errors.first().map(|error| escaped(error)).unwrap_or_default();
    let told = escaped(&unread.errors.join("\n"));
    let _ = writeln!(xml, "      <error message=\"{message}\" type=\"file\">{told}</error>");
    xml.push_str("    </testcase>\n  </testsuite>\n");
}

fn failed(run: &FileRun<'_>) -> usize {
    run.tests.iter().filter(|ran| !ran.passed()).count()
}

fn seconds(length: Duration) -> String {
    format!("{}.{:06}", length.as_secs(), length.subsec_micros())
}

/// A text as XML may carry it; characters that XML has no way to write are shown as U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped += &format!("&#{};", u32::from(c)),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if c.is_control() && u32::from(c) < 0x80 => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_can_end_an_attribute_or_an_element() {
        assert_eq!(
            escaped("a<b>&\"\u{1b}\u{ffff}é\n"),
            "a&lt;b&gt;&amp;&quot;\u{fffd}\u{fffd}é&#10;"
        );
    }
}
