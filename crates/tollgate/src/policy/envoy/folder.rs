//! A folder of Envoy files, as the rate limit service has its configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::read_alone;
use crate::bounds::MAX_ENVOY_FILES;
use crate::policy::{Diagnostic, LoadedPolicy, Policy, PolicyFileError, read};

/// The warning about a folder without files, and the error where every file must be right.
const NO_FILES: &str = "has no file whose name ends with .yaml or .yml, so nothing is limited; add one for each domain";

/// A folder of Envoy ratelimit files that is loaded again whenever a file changes. Clones share
/// the last good versions.
///
/// A file that cannot be loaded is rejected by itself. Its last version that could be loaded stays
/// in the policy until the file is right again or is removed, and the other files are loaded.
///
/// ```no_run
/// use tollgate::EnvoyFolder;
///
/// let folder = EnvoyFolder::new("ratelimit/config");
/// let read = folder.load()?;
/// println!("{} rules", read.loaded.policy.rules.len());
/// for file in read.rejected {
///     file.findings.iter().for_each(|finding| eprintln!("{finding}"));
/// }
/// # Ok::<(), tollgate::PolicyFileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EnvoyFolder {
    path: PathBuf,
    is_strict: bool,
    shared: Arc<FolderState>,
}

/// A folder as it was when it was last loaded.
#[derive(Debug, Default)]
struct FolderState {
    /// The last version of each file that could be loaded. Locked while files are read, so that
    /// two readers do not report a file twice; before `rejected`.
    good: Mutex<BTreeMap<PathBuf, EnvoyFile>>,
    /// Locked briefly.
    rejected: Mutex<Arc<[RejectedFile]>>,
}

/// The text of a file that could be loaded.
#[derive(Clone, Debug)]
struct EnvoyFile {
    domain: String,
    text: String,
}

/// The policy of a folder, and the files that it could not be made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FolderLoaded {
    /// The policy of the files that could be loaded, and of the last good versions of others.
    pub loaded: LoadedPolicy,
    /// The files that are rejected, in order.
    pub rejected: Vec<RejectedFile>,
    /// The names of the files that were rejected before and no longer are.
    pub recovered: Vec<String>,
}

/// A file of a folder that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedFile {
    /// The name of the file in its folder.
    pub name: String,
    /// All errors in it; never empty.
    pub findings: Vec<Diagnostic>,
    /// `true` if its last good version is part of the policy. Otherwise nothing limits its domain.
    pub keeps_last: bool,
    /// `true` if it was not rejected for the same reasons before.
    pub is_new: bool,
}

impl EnvoyFolder {
    /// A folder, which is not read yet.
    pub fn new(path: impl Into<PathBuf>) -> EnvoyFolder {
        EnvoyFolder { path: path.into(), is_strict: false, shared: Arc::default() }
    }

    /// Rejects the folder as a whole if it has no file or any file cannot be loaded.
    #[must_use]
    pub fn strict(mut self) -> EnvoyFolder {
        self.is_strict = true;
        self
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that were rejected when the folder was last loaded.
    pub fn rejected(&self) -> Arc<[RejectedFile]> {
        Arc::clone(&self.shared.rejected.lock())
    }

    /// Reads the files of the folder.
    ///
    /// # Errors
    /// If the folder cannot be read or has too many files; of a strict one, also every error of
    /// every file.
    pub fn load(&self) -> Result<FolderLoaded, PolicyFileError> {
        if self.is_strict {
            let loaded = Policy::load_envoy_folder(&self.path)?;
            if Policy::envoy_files(&self.path).is_ok_and(|files| files.is_empty()) {
                return Err(PolicyFileError { diagnostics: loaded.warnings });
            }
            return Ok(FolderLoaded { loaded, rejected: Vec::new(), recovered: Vec::new() });
        }
        let mut last_good = self.shared.good.lock();
        let files = files_of(&self.path)?;
        let (mut good, mut rejected) = (BTreeMap::new(), Vec::new());
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for path in &files {
            match load_file(path, &owners) {
                Ok(file) => {
                    owners.insert(file.domain.clone(), path.display().to_string());
                    good.insert(path.clone(), file);
                }
                Err(error) => rejected.push((path, error.diagnostics)),
            }
        }
        let before = self.rejected();
        let rejected: Vec<RejectedFile> = rejected
            .into_iter()
            .map(|(path, findings)| {
                // A file that is right now comes before an old version with the same domain.
                let last = last_good.get(path).filter(|last| !owners.contains_key(&last.domain));
                let keeps_last = last.is_some();
                if let Some(last) = last {
                    owners.insert(last.domain.clone(), path.display().to_string());
                    good.insert(path.clone(), last.clone());
                }
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let same = |old: &RejectedFile| old.name == name && old.findings == findings;
                let is_new = !before.iter().any(same);
                RejectedFile { name, findings, keeps_last, is_new }
            })
            .collect();
        let names = good.iter().map(|(path, file)| (path.display().to_string(), &file.text));
        let texts: Vec<(String, &String)> = names.collect();
        let texts = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut loaded = Policy::from_envoy_files(texts)?;
        if files.is_empty() {
            loaded.warnings.push(no_files(&self.path));
        }
        let names_one = |old: &&RejectedFile| rejected.iter().all(|new| new.name != old.name);
        let recovered = before.iter().filter(names_one).map(|old| old.name.clone());
        // One that was removed has not recovered.
        let recovered =
            recovered.filter(|name| files.iter().any(|path| path.ends_with(name))).collect();
        *last_good = good;
        *self.shared.rejected.lock() = rejected.as_slice().into();
        Ok(FolderLoaded { loaded, rejected, recovered })
    }
}

impl Policy {
    /// The policy of a folder of Envoy ratelimit files: of every file in it, not below it, whose
    /// name ends with `.yaml` or `.yml` and does not begin with a dot. Each has a domain of its
    /// own. A folder without any is a policy without rules, with a warning. [`EnvoyFolder`] loads
    /// the files that are right if others are wrong.
    ///
    /// # Errors
    /// Everything that is wrong with any of the files.
    pub fn load_envoy_folder(folder: impl AsRef<Path>) -> Result<LoadedPolicy, PolicyFileError> {
        let folder = folder.as_ref();
        let files = files_of(folder)?;
        if files.is_empty() {
            return Ok(LoadedPolicy { policy: Policy::new(), warnings: vec![no_files(folder)] });
        }
        let (mut texts, mut findings) = (Vec::new(), Vec::new());
        for path in files {
            let file = path.display().to_string();
            match read(&path, &file) {
                Ok(text) => texts.push((file, text)),
                Err(error) => findings.extend(error.diagnostics),
            }
        }
        let texts = texts.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        match Policy::from_envoy_files(texts) {
            Ok(loaded) if findings.is_empty() => return Ok(loaded),
            Ok(_) => {}
            Err(error) => findings.extend(error.diagnostics),
        }
        Err(PolicyFileError { diagnostics: findings })
    }

    /// The files that [`load_envoy_folder`](Self::load_envoy_folder) reads, in order.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn envoy_files(folder: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
            // Also links to files, as Kubernetes has them.
            if is_yaml && !name.starts_with('.') && !path.is_dir() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The files of a folder, if they can be listed and are not too many.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, PolicyFileError> {
    let whole = |message: String| PolicyFileError::whole(&folder.display().to_string(), message);
    let files = Policy::envoy_files(folder)
        .map_err(|error| whole(format!("cannot be read as a folder: {error}")))?;
    if files.len() > MAX_ENVOY_FILES {
        let given = files.len();
        return Err(whole(format!("has {given} files, must be at most {MAX_ENVOY_FILES}")));
    }
    Ok(files)
}

/// Reads a file whose domain is none of `owners`, which are the files of the domains so far.
fn load_file(path: &Path, owners: &BTreeMap<String, String>) -> Result<EnvoyFile, PolicyFileError> {
    let name = path.display().to_string();
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        // Reading a pipe would wait for its writer.
        return Err(PolicyFileError::whole(&name, "is a pipe or a device, must be a plain file"));
    }
    let text = read(path, &name)?;
    let domain = read_alone(&name, &text)?;
    match owners.get(&domain) {
        Some(other) => Err(PolicyFileError::whole(&name, super::domain_is_taken(&domain, other))),
        None => Ok(EnvoyFile { domain, text }),
    }
}

fn no_files(folder: &Path) -> Diagnostic {
    let file = folder.display().to_string();
    Diagnostic { file, line: 0, rule: None, message: NO_FILES.to_owned() }
}
