//! The policy of a folder of Envoy ratelimit files, followed as the files change.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use tollgate::{FileError, Finding, Loaded, Policy, PolicyError, Problem, Reload};
use tollgate_server::{Backend, ReloadCounts};

use super::{cannot, tell_reload};
use crate::{Failure, policy_file};

/// How often to look at the folder, and for how long it must rest: whoever changes several files
/// is done by then.
const EVERY: Duration = Duration::from_millis(250);

/// A folder of Envoy ratelimit files, as it was when last looked at.
pub(super) struct EnvoyFolder {
    path: PathBuf,
    /// What the policy in force was made of, or what was refused.
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

impl EnvoyFolder {
    /// The folder, and the policy of its files.
    pub(super) fn open(path: &Path) -> Result<(EnvoyFolder, Loaded), Failure> {
        // Before they are read, so that no change goes unseen.
        let known = trace(path);
        let loaded = Policy::load_envoy_folder(path)
            .map_err(|error| Failure::Files(policy_file::lines(&error.findings)))?;
        Ok((EnvoyFolder { path: path.to_owned(), known }, loaded))
    }

    /// Puts in force what the files say whenever that is something else. Where any is wrong, what
    /// was in force stays.
    pub(super) fn follow(
        self,
        backend: &Backend,
        counts: ReloadCounts,
    ) -> Result<Following, Failure> {
        let (stop, stopped) = channel();
        let backend = backend.clone();
        let thread = std::thread::Builder::new().name("tollgate-envoy".to_owned());
        let thread = thread.spawn(move || self.look_until(&stopped, &backend, &counts));
        let thread = thread.map_err(cannot("watch the folder"))?;
        Ok(Following { stop: Some(stop), thread: Some(thread) })
    }

    fn look_until(mut self, stopped: &Receiver<()>, backend: &Backend, counts: &ReloadCounts) {
        let mut seen = self.known.clone();
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            let now = trace(&self.path);
            if now != self.known && now == seen {
                self.known.clone_from(&now);
                tell_reload(&reload(&self.path, backend), counts);
            }
            seen = now;
        }
    }
}

fn reload(path: &Path, backend: &Backend) -> Reload {
    match Policy::load_envoy_folder(path) {
        Ok(loaded) => match backend.replace(loaded.policy.clone()) {
            Ok(()) => Reload::Changed(loaded),
            Err(error) => Reload::Refused(of_gate(path, &error)),
        },
        Err(error) => Reload::Refused(error),
    }
}

/// What the gate has against a policy that the files' reader had nothing against.
fn of_gate(path: &Path, error: &PolicyError) -> FileError {
    let finding = |problem: &Problem| Finding {
        file: path.display().to_string(),
        line: 0,
        rule: None,
        message: problem.to_string(),
    };
    FileError { findings: error.problems.iter().map(finding).collect() }
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
