//! A folder of Envoy files, as the rate limit service has its configuration.

use std::io;
use std::path::{Path, PathBuf};

use crate::bounds::MAX_ENVOY_FILES;
use crate::policy::{FileError, Loaded, Policy, read};

impl Policy {
    /// The policy of a folder of Envoy ratelimit files: of every file in it, not below it, whose
    /// name ends with `.yaml` or `.yml` and does not begin with a dot. Each has a domain of its own.
    ///
    /// # Errors
    /// Everything that is wrong with any of the files, and a folder without any.
    pub fn load_envoy_folder(folder: impl AsRef<Path>) -> Result<Loaded, FileError> {
        let folder = folder.as_ref();
        let shown = folder.display().to_string();
        let whole = |message: String| FileError::whole(&shown, message);
        let files = Policy::envoy_files(folder)
            .map_err(|error| whole(format!("cannot be read as a folder: {error}")))?;
        if files.is_empty() {
            let message =
                "has no file whose name ends with .yaml or .yml, must have one for each domain";
            return Err(whole(message.to_owned()));
        }
        if files.len() > MAX_ENVOY_FILES {
            let given = files.len();
            return Err(whole(format!("has {given} files, must be at most {MAX_ENVOY_FILES}")));
        }
        let (mut texts, mut findings) = (Vec::new(), Vec::new());
        for path in files {
            let file = path.display().to_string();
            match read(&path, &file) {
                Ok(text) => texts.push((file, text)),
                Err(error) => findings.extend(error.findings),
            }
        }
        let texts = texts.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        match Policy::from_envoy_files(texts) {
            Ok(loaded) if findings.is_empty() => return Ok(loaded),
            Ok(_) => {}
            Err(error) => findings.extend(error.findings),
        }
        Err(FileError { findings })
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
