//! Who changed what, and when.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::Value;

use super::by_clients::CLIENTS;
use super::change::Change;
use crate::bounds::{MAX_AUDIT, MAX_AUDIT_OF_CLIENTS};

/// The last changes, and the file that all of them are appended to.
#[derive(Debug, Default)]
pub(super) struct Audit {
    last: Mutex<VecDeque<Arc<Entry>>>,
    file: Option<AuditFile>,
}

/// Where changes are written down.
#[derive(Clone, Debug)]
pub(super) struct AuditFile {
    path: Arc<Path>,
    file: Arc<Mutex<File>>,
}

/// A change, with its time and its actor.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) at: String,
    /// The name of the token, or of what else has made the change.
    pub(super) actor: String,
    /// The address of the client.
    pub(super) address: Option<IpAddr>,
    #[serde(flatten)]
    pub(super) change: Change,
}

impl Entry {
    /// Logs the change. Fields that name a client are in the log only if the operator wants them.
    fn log(&self) {
        let Change { action, target, .. } = &self.change;
        let (actor, summary) = (&self.actor, self.change.summary());
        let peer = self.address.map(tracing::field::display);
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        let json = |name: &str| target.get(name).map(tracing::field::display);
        let (rule, policy) = (text("rule"), text("policy"));
        let (key, client, attributes) = (json("key"), json("client"), json("attributes"));
        match self.change.failure() {
            None => tracing::info!(
                rule,
                policy,
                key,
                client,
                attributes,
                peer,
                "admin action: {action} by {actor}{summary}"
            ),
            Some(reason) => tracing::warn!(
                rule,
                policy,
                key,
                client,
                attributes,
                peer,
                reason,
                "admin action failed: {action} by {actor}"
            ),
        }
    }
}

impl AuditFile {
    /// Opens it, or makes it for its owner alone.
    pub(super) fn open(path: &Path) -> io::Result<AuditFile> {
        let file = Arc::new(Mutex::new(opened(path)?));
        Ok(AuditFile { path: path.into(), file })
    }

    /// Appends a line, which is on the disk afterwards: in the file that has the name now, since
    /// whoever rotates logs gives the one before another name.
    fn append(&self, line: &[u8]) -> io::Result<()> {
        self.write(line)?.sync_data()
    }

    /// Appends a line that the system writes when it likes: nobody waits for the disk.
    fn append_soon(&self, line: &[u8]) -> io::Result<()> {
        self.write(line).map(drop)
    }

    fn write(&self, line: &[u8]) -> io::Result<MutexGuard<'_, File>> {
        let mut file = self.file.lock();
        if !is_same(&self.path, &file) {
            *file = opened(&self.path)?;
        }
        file.write_all(line)?;
        Ok(file)
    }
}

fn opened(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether the name still is that of the file.
#[cfg(unix)]
fn is_same(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |of: std::fs::Metadata| (of.dev(), of.ino());
    let named = std::fs::metadata(path).map(identity).ok();
    named.is_some() && named == file.metadata().map(identity).ok()
}

/// Elsewhere a file that is open keeps its name.
#[cfg(not(unix))]
fn is_same(_: &Path, _: &File) -> bool {
    true
}

impl Audit {
    pub(super) fn new(file: Option<AuditFile>) -> Audit {
        Audit { last: Mutex::default(), file }
    }

    /// Keeps a change. It is not undone where the file cannot be written: that is logged.
    pub(super) async fn add(&self, entry: Entry) {
        entry.log();
        let entry = Arc::new(entry);
        self.keep(Arc::clone(&entry));
        let Some(file) = self.file.clone() else { return };
        let written = tokio::task::spawn_blocking(move || file.append(&line(&entry)?));
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a change is not in the audit file"),
            Err(error) => tracing::error!(%error, "a change may not be in the audit file"),
        }
    }

    /// Keeps a change, and returns when it is in the file: for a thread that may wait for the disk.
    pub(super) fn add_blocking(&self, entry: Entry) {
        entry.log();
        let written = self.file.as_ref().map(|file| file.append(&line(&entry)?));
        if let Some(Err(error)) = written {
            tracing::error!(%error, "a change is not in the audit file");
        }
        self.keep(Arc::new(entry));
    }

    /// Keeps a change by a client, without waiting for the disk.
    pub(super) fn note(&self, entry: Entry) {
        tracing::info!(action = entry.change.action, "changed by a client");
        let written = self.file.as_ref().map(|file| file.append_soon(&line(&entry)?));
        if let Some(Err(error)) = written {
            tracing::error!(%error, "a change is not in the audit file");
        }
        self.keep(Arc::new(entry));
    }

    /// Clients have some of the places, and push nobody else out of the others.
    fn keep(&self, entry: Arc<Entry>) {
        let mut last = self.last.lock();
        let is_of_client = |entry: &Arc<Entry>| entry.actor == CLIENTS;
        let of_clients = last.iter().filter(|of| is_of_client(of)).count();
        if is_of_client(&entry) && of_clients >= MAX_AUDIT_OF_CLIENTS {
            let oldest = last.iter().position(is_of_client);
            oldest.and_then(|place| last.remove(place));
        } else if last.len() == MAX_AUDIT {
            last.pop_front();
        }
        last.push_back(entry);
    }

    /// The last `most` changes, the latest first.
    pub(super) fn list(&self, most: usize) -> Vec<Arc<Entry>> {
        self.last.lock().iter().rev().take(most).cloned().collect()
    }
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Entry {
        Entry {
            at: "2026-01-01T00:00:00Z".to_owned(),
            actor: format!("ana-{number}"),
            address: None,
            change: Change::new("reset", Value::Null),
        }
    }

    #[tokio::test]
    #[cfg(unix)]
    async fn a_file_that_was_given_another_name_is_left_alone_and_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::new(Some(AuditFile::open(&path).unwrap()));
        audit.add(entry(1)).await;
        std::fs::rename(&path, folder.path().join("audit.jsonl.1")).unwrap();
        audit.add(entry(2)).await;
        audit.add(entry(3)).await;
        let lines = |name: &str| {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, after) = (lines("audit.jsonl.1"), lines("audit.jsonl"));
        assert_eq!((before.len(), after.len()), (1, 2));
        assert!(before[0].contains("ana-1") && after[0].contains("ana-2"), "{before:?} {after:?}");
    }

    #[tokio::test]
    async fn the_last_changes_are_kept_and_all_are_written_down() {
        let path = std::env::temp_dir().join(format!("tollgate-audit-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, "earlier\n").unwrap();
        let audit = Audit::new(Some(AuditFile::open(&path).unwrap()));
        for number in 0..MAX_AUDIT + 3 {
            audit.add(entry(number)).await;
        }
        let kept = audit.list(usize::MAX);
        assert_eq!((kept.len(), kept[0].actor.as_str()), (MAX_AUDIT, "ana-1026"));
        assert_eq!(audit.list(2).len(), 2);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), MAX_AUDIT + 4);
        assert!(text.starts_with("earlier\n") && text.contains("\"actor\":\"ana-0\""));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn clients_push_only_each_other_out() {
        let audit = Audit::default();
        let by_client = |number| Entry { actor: CLIENTS.to_owned(), ..entry(number) };
        audit.keep(Arc::new(entry(0)));
        (0..5 * MAX_AUDIT).for_each(|number| audit.keep(Arc::new(by_client(number))));
        let kept = audit.list(usize::MAX);
        assert_eq!(
            (kept.len(), kept[MAX_AUDIT_OF_CLIENTS].actor.as_str()),
            (MAX_AUDIT_OF_CLIENTS + 1, "ana-0")
        );
        (0..2 * MAX_AUDIT).for_each(|number| audit.keep(Arc::new(entry(number))));
        let kept = audit.list(usize::MAX);
        assert!(kept.len() == MAX_AUDIT && kept.iter().all(|of| of.actor != CLIENTS));
    }
}
