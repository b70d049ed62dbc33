//! State that outlives a restart: read at the start, written at the end.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use tollgate::{MemoryStore, MemoryStoreBuilder, SnapshotError};

use crate::Failure;

/// Sees that a snapshot can be written there, before there is anything to lose.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let new = beside(path, ".new");
    let tried = create(&new).map(drop).and_then(|()| fs::remove_file(&new));
    let why = match tried {
        Ok(()) if path.is_dir() => "it is a folder, name a file in it".to_owned(),
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path).display();
            format!("there is no folder {folder}, make it first")
        }
        Err(error) => error.to_string(),
    };
    Err(Failure::Start(format!("cannot write the snapshot {}: {why}", path.display())))
}

/// The store with the content of the file, or an empty one if there is no file yet.
///
/// A damaged file is renamed and reported, and the server starts without it.
pub(super) fn restore(path: &Path, builder: MemoryStoreBuilder) -> Result<MemoryStore, Failure> {
    let empty = || {
        let wrong = |error| Failure::Usage(vec![format!("--max-keys: {error}")]);
        builder.clone().build().map_err(wrong)
    };
    // What is wrong with the number of keys is not the snapshot's fault.
    let store = empty()?;
    let shown = path.display();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(store),
        Err(error) => return Err(Failure::Start(format!("cannot read {shown}: {error}"))),
    };
    match builder.restore(BufReader::new(file)) {
        Ok(store) => {
            tracing::info!(keys = store.len(), "read the snapshot {shown}");
            let evicted = store.evictions();
            if evicted > 0 {
                tracing::warn!(evicted, "max_keys is smaller than the snapshot {shown}");
            }
            Ok(store)
        }
        Err(SnapshotError::Io(error)) => {
            Err(Failure::Start(format!("cannot read {shown}: {error}")))
        }
        // Nothing is wrong with the file: it stays for a start with a larger bound.
        Err(error @ SnapshotError::StoreTooSmall { .. }) => {
            Err(Failure::Start(format!("cannot read {shown}: {error}")))
        }
        Err(error) => {
            let aside = beside(path, ".broken");
            let put = fs::rename(path, &aside);
            let put = put.map_err(|error| {
                Failure::Start(format!("cannot put {shown} aside, which is damaged: {error}"))
            });
            put?;
            let aside = aside.display();
            tracing::error!("{error}: starting with nothing, it is kept as {aside}");
            Ok(store)
        }
    }
}

/// Writes the store's state to the file: as a whole, or what was there stays.
pub(super) fn write(path: &Path, store: &MemoryStore) -> io::Result<()> {
    let new = beside(path, ".new");
    let written = write_to(&new, store).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // What is half is of no use to anybody.
        let _ = fs::remove_file(&new);
    }
    written
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    // It names keys, and holds the seed of their hash.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_to(path: &Path, store: &MemoryStore) -> io::Result<()> {
    let file = create(path)?;
    let mut buffered = BufWriter::new(&file);
    store.snapshot(&mut buffered)?;
    drop(buffered);
    file.sync_all()
}

/// A file of the same name with something after it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
