//! Getting the text of a file, within bounds.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::{Diagnostic, PolicyFileError};
use crate::bounds::MAX_FILE;

/// The text of the file at `path`, which messages call `file`.
pub(crate) fn read(path: &Path, file: &str) -> Result<String, PolicyFileError> {
    let refuse = |message: String| PolicyFileError::whole(file, message);
    let unreadable = |error: std::io::Error| {
        refuse(match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::IsADirectory => "is a directory, name a file in it".to_owned(),
            _ => format!("cannot be read: {error}"),
        })
    };
    let opened = File::open(path).map_err(unreadable)?;
    let about = opened.metadata().map_err(unreadable)?;
    if about.is_dir() {
        return Err(refuse("is a directory, name a file in it".to_owned()));
    }
    let too_large =
        || refuse(format!("is larger than {} MiB, a policy must be smaller", MAX_FILE >> 20));
    if about.len() > MAX_FILE {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // What is not a plain file says nothing of its length.
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE) {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| not_utf8(file, error.as_bytes(), error.utf8_error()))
}

fn not_utf8(file: &str, bytes: &[u8], error: std::str::Utf8Error) -> PolicyFileError {
    let good = &bytes[..error.valid_up_to()];
    let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = "not UTF-8, save the file in that encoding".to_owned();
    PolicyFileError {
        diagnostics: vec![Diagnostic { file: file.to_owned(), line, rule: None, message }],
    }
}
