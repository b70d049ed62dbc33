//! A policy as a TOML file: read with every mistake at once, and written back.

mod conditions;
mod document;
mod keys;
mod lists;
mod numbers;
mod pieces;
mod positions;
mod rules;
mod schema;
mod source;
mod tree;
mod values;
mod write;

pub(crate) use source::read;

use std::fmt;
use std::path::Path;

use super::Policy;

/// A policy that was read, and what is legal in it and probably wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedPolicy {
    /// The policy.
    pub policy: Policy,
    /// What is probably wrong, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// Something in a policy file that is wrong, or probably wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name.
    pub file: String,
    /// The line, from 1; 0 where it is about the file as a whole.
    pub line: usize,
    /// The name of the rule, if it is about one.
    pub rule: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Why a policy file was refused: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFileError {
    /// One for each mistake, in the order of the file; never empty.
    pub diagnostics: Vec<Diagnostic>,
}

impl Policy {
    /// Reads a policy file; with feature `envoy`, one whose name ends with `.yaml` or `.yml` is
    /// read as an Envoy ratelimit file.
    ///
    /// # Errors
    /// Where the file cannot be read or is not a policy, with every mistake in it.
    pub fn load(path: impl AsRef<Path>) -> Result<LoadedPolicy, PolicyFileError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let text = read(path, &file)?;
        Policy::of_file(path, &file, &text)
    }

    /// Reads the text of the file at `path`, which messages call `file`.
    pub(crate) fn of_file(
        path: &Path,
        file: &str,
        text: &str,
    ) -> Result<LoadedPolicy, PolicyFileError> {
        match path.extension().and_then(|ending| ending.to_str()) {
            #[cfg(feature = "envoy")]
            Some("yaml" | "yml") => Policy::from_envoy(file, text),
            _ => Policy::from_toml(file, text),
        }
    }

    /// Reads a policy from the text of a file, which messages call `file`.
    ///
    /// ```
    /// use tollgate::Policy;
    ///
    /// let text = "[[rule]]\nname = \"login\"\nkey = [\"ip\"]\nlimt = \"10/h\"\n";
    /// let error = Policy::from_toml("limits.toml", text).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "limits.toml:4: rule \"login\": unknown key `limt`, did you mean `limit`?"
    /// );
    /// ```
    ///
    /// # Errors
    /// Where it is not a policy, with every mistake in it.
    pub fn from_toml(file: &str, text: &str) -> Result<LoadedPolicy, PolicyFileError> {
        Policy::from_toml_at(file, text, &[])
    }

    /// Reads a policy from the table at `path` of a larger document; a number is a place in an
    /// array, as in `["test", "3", "policy"]`. Lines are the document's.
    ///
    /// # Errors
    /// Where there is no such table or it is not a policy, with every mistake in it.
    pub fn from_toml_at(
        file: &str,
        text: &str,
        path: &[&str],
    ) -> Result<LoadedPolicy, PolicyFileError> {
        document::read(file, text, path)
    }

    /// The text of a file that reads back as this policy, if it is valid and its lists have
    /// conditions. Conditions of one attribute are written, and so read back, side by side.
    ///
    /// ```
    /// use tollgate::{Limit, Policy, Rule};
    ///
    /// let policy = Policy::new().rule(Rule::new("api").key(["user"]).limit(Limit::per_second(5)));
    /// let text = "[[rule]]\nname = \"api\"\nkey = [\"user\"]\nlimit = \"5/s\"\n";
    /// assert_eq!(policy.to_toml(), text);
    /// ```
    pub fn to_toml(&self) -> String {
        write::policy(self)
    }

    /// The JSON Schema (2020-12) of a policy file, for editors.
    pub fn schema() -> String {
        schema::text()
    }
}

impl PolicyFileError {
    /// An error about the file as a whole.
    pub(crate) fn whole(file: &str, message: impl Into<String>) -> PolicyFileError {
        let file = file.to_owned();
        PolicyFileError {
            diagnostics: vec![Diagnostic { file, line: 0, rule: None, message: message.into() }],
        }
    }
}

/// As in `limits.toml:14: rule "login": period is 0s, must be at least 1ms`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if let Some(rule) = &self.rule {
            write!(f, ": rule {rule:?}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// One line for each mistake.
impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.diagnostics.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyFileError {}
