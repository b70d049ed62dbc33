//! The policy of a folder of Envoy ratelimit files, followed as the files change.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use tollgate::{
    Diagnostic, EnvoyFolder, LoadedPolicy, Policy, PolicyError, PolicyFileError, PolicyProblem,
    ReloadEvent,
};
use tollgate_server::{ReloadCounts, Reloader, log_rejected_files};

use super::config::Config;
use super::{cannot, tell_reload};
use crate::{Failure, policy_file};

/// How often to look at the folder, and for how long it must rest: whoever changes several files
/// is done by then.
const EVERY: Duration = Duration::from_millis(250);

/// A folder of Envoy ratelimit files, as it was when last looked at.
pub(super) struct FollowedFolder {
    folder: EnvoyFolder,
    /// The files of the active policy, or of the folder that was rejected.
    known: Trace,
}

/// What changes when a file of the folder is written, made, removed or swapped.
type Trace = Option<Vec<(PathBuf, u64, Option<SystemTime>)>>;

/// Follows a folder until it is dropped.
#[must_use = "dropping it ends it"]
pub(super) struct Following {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The folder at `path`, which is not read yet.
pub(super) fn folder(config: &Config, path: &Path) -> EnvoyFolder {
    let folder = EnvoyFolder::new(path);
    if config.strict { folder.strict() } else { folder }
}

impl FollowedFolder {
    /// Reads the folder. Returns it with the policy of its files, and logs those that are rejected.
    pub(super) fn open(folder: EnvoyFolder) -> Result<(FollowedFolder, LoadedPolicy), Failure> {
        // Before they are read, so that no change goes unseen.
        let known = trace(folder.path());
        let read = folder
            .load()
            .map_err(|error| Failure::Files(policy_file::lines(&error.diagnostics)))?;
        log_rejected_files(&read);
        Ok((FollowedFolder { folder, known }, read.loaded))
    }

    /// Returns the folder itself, which knows the rejected files.
    pub(super) fn folder(&self) -> EnvoyFolder {
        self.folder.clone()
    }

    /// Activates what the files say whenever that changes.
    pub(super) fn follow(
        self,
        reloader: Reloader,
        counts: ReloadCounts,
    ) -> Result<Following, Failure> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("tollgate-envoy".to_owned());
        let thread = thread.spawn(move || self.look_until(&stopped, &reloader, &counts));
        let thread = thread.map_err(cannot("watch the folder"))?;
        Ok(Following { stop: Some(stop), thread: Some(thread) })
    }

    fn look_until(mut self, stopped: &Receiver<()>, reloader: &Reloader, counts: &ReloadCounts) {
        let mut seen = self.known.clone();
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            let now = trace(self.folder.path());
            if now != self.known && now == seen {
                self.known.clone_from(&now);
                match reload(&self.folder, reloader, counts) {
                    Some(reload) => tell_reload(&reload, counts),
                    None => counts.unchanged(),
                }
            }
            seen = now;
        }
    }
}

/// Reads the folder and activates its policy. `None` if that is active already.
fn reload(folder: &EnvoyFolder, reloader: &Reloader, counts: &ReloadCounts) -> Option<ReloadEvent> {
    let read = match folder.load() {
        Ok(read) => read,
        Err(error) => return Some(ReloadEvent::Rejected(error)),
    };
    log_rejected_files(&read);
    if read.rejected.iter().any(|file| file.is_new) {
        counts.file_rejected();
    }
    if *reloader.policy() == read.loaded.policy {
        return None;
    }
    Some(match reloader.activate(read.loaded.policy.clone()) {
        Ok(()) => ReloadEvent::Loaded(read.loaded),
        Err(error) => ReloadEvent::Rejected(of_gate(folder.path(), &error)),
    })
}

/// The problems that the gate has with a policy that could be read.
fn of_gate(path: &Path, error: &PolicyError) -> PolicyFileError {
    let finding = |problem: &PolicyProblem| Diagnostic {
        file: path.display().to_string(),
        line: 0,
        rule: None,
        message: problem.to_string(),
    };
    PolicyFileError { diagnostics: error.problems.iter().map(finding).collect() }
}

/// The files with their sizes and times; nothing where the folder cannot be read.
fn trace(folder: &Path) -> Trace {
    let files = Policy::envoy_files(folder).ok()?.into_iter();
    let about = files.map(|path| {
        let about = std::fs::metadata(&path).ok();
        let length = about.as_ref().map_or(0, std::fs::Metadata::len);
        (path, length, about.and_then(|about| about.modified().ok()))
    });
    Some(about.collect())
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}
