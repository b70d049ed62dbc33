//! Sentences for people, compared with golden files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tollgate_testkit::assert_golden;

/// How much of what was asked a golden file shows.
const SHOWN: usize = 120;

/// Sentences that a test collects, each with what it answers.
#[derive(Default)]
pub(crate) struct Texts(String);

impl Texts {
    /// Adds the sentence that answers `asked`.
    pub(crate) fn add(&mut self, asked: &str, sentence: &str) {
        let cut: String = asked.chars().take(SHOWN).collect();
        let rest = if cut.len() < asked.len() { " …" } else { "" };
        let asked = format!("{}{rest}", on_one_line(&cut));
        writeln!(self.0, "{}\n    {}", asked.trim_end(), on_one_line(sentence)).unwrap();
    }

    /// Compares all of them with a section of `tests/golden/{file}.txt`. Each test has a section of
    /// its own.
    #[track_caller]
    pub(crate) fn assert_golden(&self, file: &str, section: &str) {
        /// Tests of a file that is written write it one after the other.
        static FILES: Mutex<()> = Mutex::new(());
        let _one_test = FILES.lock();
        let path = golden(&format!("{file}.txt"));
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert_golden(&path, &with_section(&known, section, &self.0));
    }
}

/// A golden file after one of its sections was added or replaced.
fn with_section(file: &str, section: &str, text: &str) -> String {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut name = "";
    for line in file.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(next) => name = next,
            None => *sections.entry(name).or_default() += &format!("{line}\n"),
        }
    }
    sections.insert(section, text.to_owned());
    let texts = sections.iter().map(|(name, text)| format!("# {name}\n\n{text}"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The path of a golden file.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A text without line breaks and other control characters.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}
