//! The policies that a test file names or brings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::{LoadedPolicy, Policy, PolicyFileError, RuleLimits};
use toml::de::DeValue;

use super::document::Document;
use super::fields::{Fields, expected};
use super::values::{inline, quoted};

type Read = Result<Arc<Policy>, Vec<String>>;

/// Reads policies, each file once, and keeps what is probably wrong with them.
pub(super) struct Policies<'a> {
    document: &'a Document,
    /// Where the test file is: a policy's path begins there.
    folder: PathBuf,
    files: RefCell<HashMap<PathBuf, Read>>,
    warnings: RefCell<Vec<String>>,
}

impl<'a> Policies<'a> {
    pub(super) fn new(document: &'a Document) -> Policies<'a> {
        let folder = Path::new(&document.name).parent().unwrap_or(Path::new("")).to_owned();
        Policies { document, folder, files: RefCell::default(), warnings: RefCell::default() }
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings.into_inner()
    }

    /// The policy that `fields` has under `policy`: a file's path, or a table at `path` of the
    /// document. The errors say where they belong.
    pub(super) fn read(&self, fields: &Fields<'_>, path: &[&str]) -> Option<Read> {
        let read = match fields.value("policy")?.get_ref() {
            DeValue::String(file) => {
                let read = self.file(&self.folder.join(file.as_ref()));
                read.map_err(|mut wrong| {
                    wrong
                        .insert(0, fields.place_of("policy", &format!("policy {file:?} is wrong")));
                    wrong
                })
            }
            DeValue::Table(_) => {
                let path = self.document.path(path);
                let document = self.document;
                self.keep(Policy::from_toml_at(&document.name, &document.text, &path))
            }
            other => {
                let wanted = "the path of a policy or a table with its content";
                fields.wrong_in("policy", &format!("policy {}", expected(wanted, other)));
                return None;
            }
        };
        Some(read)
    }

    fn file(&self, path: &Path) -> Read {
        if let Some(read) = self.files.borrow().get(path) {
            return read.clone();
        }
        let read = self.keep(Policy::load(path));
        self.files.borrow_mut().insert(path.to_owned(), read.clone());
        read
    }

    fn keep(&self, loaded: Result<LoadedPolicy, PolicyFileError>) -> Read {
        match loaded {
            Ok(LoadedPolicy { policy, warnings, .. }) => {
                self.warnings.borrow_mut().extend(warnings.iter().map(ToString::to_string));
                Ok(Arc::new(policy))
            }
            Err(error) => Err(lines(&error)),
        }
    }

    /// A limit as a policy file may have it, behind `key` of `fields`; for messages, of `rule`.
    pub(super) fn numbers(
        &self,
        line: usize,
        rule: &str,
        value: &DeValue<'_>,
    ) -> Result<RuleLimits, Vec<String>> {
        let key = if matches!(value, DeValue::Array(_)) { "limits" } else { "limit" };
        // Read as a policy of its own that begins on the same line, so that there is one reader.
        let lines_before = "\n".repeat(line.saturating_sub(1));
        let rule = format!("{{ name = {}, {key} = {} }}", quoted(rule), inline(value));
        let text = format!("{lines_before}rule = [{rule}]");
        let mut loaded =
            Policy::from_toml(&self.document.name, &text).map_err(|error| lines(&error))?;
        Ok(loaded.policy.rules.remove(0).limits)
    }
}

fn lines(error: &PolicyFileError) -> Vec<String> {
    error.diagnostics.iter().map(ToString::to_string).collect()
}
