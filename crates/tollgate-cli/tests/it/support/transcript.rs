//! Golden files of what commands print.

use std::path::Path;

use super::Said;

/// Compares a text with `tests/golden/NAME.txt`, without the numbers of the system's errors.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(format!("{name}.txt"));
    tollgate_testkit::assert_golden(&path, &without_error_numbers(text));
}

/// Compares commands and their whole output with `tests/golden/NAME.txt`.
#[track_caller]
pub(crate) fn assert_transcript(name: &str, all: impl IntoIterator<Item = Said>) {
    let mut transcript = Transcript::default();
    all.into_iter().for_each(|said| transcript.add(&said));
    transcript.assert_golden(name);
}

/// Commands and their whole output, for one golden file.
#[derive(Default)]
pub(crate) struct Transcript {
    text: String,
    placeholders: Vec<(String, String)>,
}

impl Transcript {
    /// Shows `placeholder` instead of a text that varies, in everything that is compared.
    pub(crate) fn hide(&mut self, text: &str, placeholder: impl Into<String>) {
        self.placeholders.push((text.to_owned(), placeholder.into()));
    }

    /// Adds a command with its output, its errors and its exit code.
    pub(crate) fn add(&mut self, said: &Said) {
        self.text += &format!("$ {}\n{}", said.line, said.out);
        for line in said.err.lines() {
            self.text += &format!("2> {line}\n");
        }
        let code = said.code.map_or("none".to_owned(), |code| code.to_string());
        self.text += &format!("[exit code {code}]\n\n");
    }

    #[track_caller]
    pub(crate) fn assert_golden(&self, name: &str) {
        let hide = |text: String, (varying, placeholder): &(String, String)| {
            text.replace(varying, placeholder)
        };
        let text = self.placeholders.iter().fold(self.text.clone(), hide);
        assert_golden(name, &text);
    }
}

/// A text without the numbers of the system's errors, which differ between systems.
fn without_error_numbers(text: &str) -> String {
    let mut parts = text.split("(os error ");
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        without += "(os error {number}";
        without += rest;
    }
    without
}

/// A command line as a shell takes it.
pub(super) fn command_line(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let variables = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    let arguments = arguments.iter().map(|argument| quoted(argument));
    let words = variables.chain(["tollgate".to_owned()]).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@%+=,-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.escape_debug().to_string().replace("\\\"", "\""))
}
