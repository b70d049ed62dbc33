//! Settings in a file that changes while the server runs: they need a restart, and that is told.

use std::path::{Path, PathBuf};

use super::file::ConfigFile;
use super::layers::{Configured, Given, Item};
use crate::policy_file;

/// The settings of the file that the policy is in, as they were seen last.
pub(crate) struct Reread {
    path: PathBuf,
    seen: Vec<(&'static str, Vec<String>)>,
}

impl Reread {
    pub(crate) fn new(path: &Path) -> Reread {
        Reread { path: path.to_owned(), seen: values(&ConfigFile::read(path).given) }
    }

    /// What is to be said of the settings now: what is wrong with them, and that they are others.
    pub(crate) fn look(&mut self) -> Vec<String> {
        let file = ConfigFile::read(&self.path);
        let seen = values(&file.given);
        let mut said = policy_file::lines(&file.wrong);
        said.extend(policy_file::lines(&Configured::wrong_in(file.given)));
        if std::mem::replace(&mut self.seen, seen) != self.seen {
            said.push("settings in [server] have changed, they need a restart".to_owned());
        }
        said
    }
}

/// Without the lines, which change with what stands before.
fn values(given: &[Given]) -> Vec<(&'static str, Vec<String>)> {
    let texts = |items: &[Item]| items.iter().map(|item| item.text.clone()).collect();
    given.iter().map(|given| (given.setting.name, texts(&given.items))).collect()
}
