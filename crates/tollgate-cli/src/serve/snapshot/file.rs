//! The file of a snapshot: always a whole one, and of one server.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tollgate::{MemoryStore, SnapshotSummary};
use tollgate_server::WrittenSnapshot;

use crate::Failure;

/// A file that this server alone writes snapshots to.
#[derive(Debug)]
pub(in crate::serve) struct SnapshotFile {
    path: PathBuf,
    /// Locked as long as it is open. The snapshot itself cannot be: each is another file.
    _lock: Option<File>,
}

/// The outcome of a snapshot that could be written.
#[derive(Debug)]
pub(super) enum SnapshotOutcome {
    Written(WrittenSnapshot),
    /// It equals the one in the file, which stays.
    Unchanged(SnapshotSummary),
}

impl SnapshotFile {
    /// Locks the file and checks that it can be written, before there is anything to lose. Removes
    /// what a crash has left of a snapshot that was being written.
    pub(in crate::serve) fn open(path: &Path) -> Result<SnapshotFile, Failure> {
        let cannot = |what: String| {
            Failure::Start(format!("cannot write the snapshot {}: {what}", path.display()))
        };
        if path.is_dir() {
            return Err(cannot("it is a folder, name a file in it".to_owned()));
        }
        let why = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(path).display();
                cannot(format!("there is no folder {folder}, make it first"))
            }
            ErrorKind::WouldBlock => {
                cannot("another server writes to it, give each a file of its own".to_owned())
            }
            _ => cannot(error.to_string()),
        };
        let lock = lock(path).map_err(why)?;
        let new = beside(path, ".new");
        create(&new).map(drop).and_then(|()| fs::remove_file(&new)).map_err(why)?;
        Ok(SnapshotFile { path: path.to_owned(), _lock: lock })
    }

    pub(in crate::serve) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the state of a store: as a whole, or the file stays as it was. It also stays if it
    /// equals `last`.
    pub(super) fn write(
        &self,
        store: &MemoryStore,
        last: Option<&SnapshotSummary>,
    ) -> io::Result<SnapshotOutcome> {
        let new = beside(&self.path, ".new");
        let written = self.write_as(&new, store, last);
        if !matches!(written, Ok(SnapshotOutcome::Written(_))) {
            // A part of a snapshot is of no use.
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn write_as(
        &self,
        new: &Path,
        store: &MemoryStore,
        last: Option<&SnapshotSummary>,
    ) -> io::Result<SnapshotOutcome> {
        let began = Instant::now();
        let file = create(new)?;
        let summary = store.snapshot(BufWriter::new(&file))?;
        if last.is_some_and(|last| last.has_same_content(&summary)) && self.path.exists() {
            return Ok(SnapshotOutcome::Unchanged(summary));
        }
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        fs::rename(new, &self.path)?;
        sync_folder(&self.path);
        Ok(SnapshotOutcome::Written(WrittenSnapshot { summary, bytes, duration: began.elapsed() }))
    }
}

/// Creates a file that only its owner can read: a snapshot names keys, and holds the seed of their
/// hash.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => private().write(true).create_new(true).open(path),
    }
}

fn private() -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Locks a file beside the snapshot. It stays there: if it were removed, a third server could lock
/// another file of this name.
///
/// # Errors
/// `WouldBlock` if another process has locked it.
#[cfg(unix)]
fn lock(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{FlockOperation, flock};

    let file = private().write(true).create(true).truncate(false).open(beside(path, ".lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(error.into()),
        Err(error) => {
            // Not every file system can lock.
            let file = path.display();
            tracing::warn!(%file, %error, "cannot lock the snapshot, let no other server write to it");
            Ok(None)
        }
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Makes the new name of a file outlive a power failure, on systems that can.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        let _ = folder.sync_all();
    }
}

/// A file of the same name with something after it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
