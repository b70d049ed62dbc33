//! Where the policy is from, to be read again.

use std::fmt;
use std::path::PathBuf;

use tollgate::{FileError, Loaded, Policy};

use crate::operate::{AdminFailure, blocking};

/// Where the policy is from.
#[derive(Clone, Debug)]
pub(super) enum PolicySource {
    /// A policy file.
    File(PathBuf),
    /// A folder of Envoy's files.
    EnvoyFolder(PathBuf),
}

impl PolicySource {
    /// What it holds now.
    pub(super) async fn load(self) -> Result<Result<Loaded, FileError>, AdminFailure> {
        blocking(move || match self {
            PolicySource::File(path) => Policy::load(path),
            PolicySource::EnvoyFolder(path) => Policy::load_envoy_folder(path),
        })
        .await
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PolicySource::File(path) | PolicySource::EnvoyFolder(path)) = self;
        path.display().fmt(f)
    }
}
