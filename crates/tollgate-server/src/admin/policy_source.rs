//! Where the policy is from, to be read again.

use std::fmt;
use std::path::PathBuf;

use tollgate::{Diagnostic, EnvoyFolder, LoadedPolicy, Policy, PolicyFileError};

use crate::operate::{AdminFailure, blocking};
use crate::reload::log_rejected_files;

/// Where the policy is from.
#[derive(Clone, Debug)]
pub(super) enum PolicySource {
    /// A policy file.
    File(PathBuf),
    /// A folder of Envoy's files.
    EnvoyFolder(EnvoyFolder),
}

/// A policy that was read from its source.
pub(super) struct SourceRead {
    pub(super) loaded: LoadedPolicy,
    /// The errors of files that are not part of it.
    pub(super) rejected: Vec<Diagnostic>,
    /// Whether a file is rejected that was not before.
    pub(super) rejects_more: bool,
}

impl PolicySource {
    /// Reads what it holds now.
    pub(super) async fn load(self) -> Result<Result<SourceRead, PolicyFileError>, AdminFailure> {
        blocking(move || match self {
            PolicySource::File(path) => Policy::load(path).map(|loaded| SourceRead {
                loaded,
                rejected: Vec::new(),
                rejects_more: false,
            }),
            PolicySource::EnvoyFolder(folder) => folder.load().map(|read| {
                log_rejected_files(&read);
                SourceRead {
                    loaded: read.loaded,
                    rejects_more: read.rejected.iter().any(|file| file.is_new),
                    rejected: read.rejected.into_iter().flat_map(|file| file.findings).collect(),
                }
            }),
        })
        .await
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySource::File(path) => path.display().fmt(f),
            PolicySource::EnvoyFolder(folder) => folder.path().display().fmt(f),
        }
    }
}
