//! What is wrong with a file and what is odd in it, gathered as it is read.

use super::yaml::{YamlEntry, shown};
use crate::bounds::MAX_FINDINGS;
use crate::policy::check::closest;
use crate::policy::{Diagnostic, PolicyFileError};

/// Errors and warnings of one file, in the order in which they were found.
pub(super) struct EnvoyDiagnostics {
    file: String,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

/// Where something is: a line, and the descriptor it belongs to by the name its rule has or
/// would have.
#[derive(Clone, Copy)]
pub(super) struct SourceLine<'a> {
    pub(super) line: usize,
    pub(super) rule: Option<&'a str>,
}

impl SourceLine<'_> {
    /// Another line of the same descriptor.
    pub(super) fn at(self, line: usize) -> Self {
        SourceLine { line, ..self }
    }
}

impl EnvoyDiagnostics {
    pub(super) fn new(file: &str) -> EnvoyDiagnostics {
        EnvoyDiagnostics { file: file.to_owned(), errors: Vec::new(), warnings: Vec::new() }
    }

    /// What it calls the file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn error(&mut self, spot: SourceLine<'_>, message: impl Into<String>) {
        if self.errors.len() < MAX_FINDINGS {
            let finding = self.finding(spot, message.into());
            self.errors.push(finding);
        } else if self.errors.len() == MAX_FINDINGS {
            let message = "more errors follow, mend these first".to_owned();
            let finding = self.finding(spot, message);
            self.errors.push(finding);
        }
    }

    pub(super) fn warning(&mut self, spot: SourceLine<'_>, message: impl Into<String>) {
        if self.warnings.len() < MAX_FINDINGS {
            let finding = self.finding(spot, message.into());
            self.warnings.push(finding);
        }
    }

    /// What to say of a key that does not belong where it is. `elsewhere` is keys that belong
    /// under another one.
    pub(super) fn unknown_key(
        &mut self,
        spot: SourceLine<'_>,
        entry: &YamlEntry,
        known: &[&str],
        elsewhere: &[(&[&str], &str)],
    ) {
        let key = shown(&entry.key);
        let home = elsewhere.iter().find(|(keys, _)| keys.contains(&entry.key.as_str()));
        // Comparing takes time by the length: no key is long.
        let near = (entry.key.len() <= 64).then(|| closest(&entry.key, known.iter().copied()));
        let message = match (home, near.flatten()) {
            (Some((_, place)), _) => format!("`{key}` does not belong here, put it {place}"),
            (None, Some(near)) => format!("unknown key `{key}`, did you mean `{near}`?"),
            (None, None) => format!("unknown key `{key}`, known are {}", list(known)),
        };
        self.error(spot.at(entry.line), message);
    }

    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The warnings, or all that is wrong.
    pub(super) fn finish(self) -> Result<Vec<Diagnostic>, PolicyFileError> {
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(PolicyFileError { diagnostics: self.errors })
        }
    }

    fn finding(&self, spot: SourceLine<'_>, message: String) -> Diagnostic {
        Diagnostic {
            file: self.file.clone(),
            line: spot.line,
            rule: spot.rule.map(str::to_owned),
            message,
        }
    }
}

/// `a`, `b` and `c`.
pub(super) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
