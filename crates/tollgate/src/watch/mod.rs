//! Hot reload: a policy that changes with its file.

mod eyes;
mod follow;
mod keeper;
mod places;
mod pulse;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use self::eyes::FileNotifier;
pub use self::follow::follow;
use self::keeper::ReloadState;
use self::pulse::PollTimer;
use crate::policy::{LoadedPolicy, PolicyFileError};

/// What has become of a policy file.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "there is one now and then, and it is moved once")]
pub enum ReloadEvent {
    /// It holds this policy now.
    Loaded(LoadedPolicy),
    /// What it holds now is no policy, or it is not there. Whatever policy was in force stays.
    Rejected(PolicyFileError),
}

/// Watches a policy file and says when it holds something else, until it is dropped.
///
/// It sees a file that is written anew, replaced by another, deleted and made again, and one that
/// is reached over symbolic links of which one is turned, as Kubernetes does with a ConfigMap. It
/// waits until a writer seems to be done, and reads in between where a file never rests. Where
/// the system cannot tell of changes, it looks once a second.
///
/// ```no_run
/// use tollgate::{ReloadEvent, PolicyWatcher};
///
/// let watch = PolicyWatcher::start("limits.toml", |reload| match reload {
///     ReloadEvent::Loaded(loaded) => println!("{} rules", loaded.policy.rules.len()),
///     ReloadEvent::Rejected(error) => eprintln!("{error}"),
///     _ => {}
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct PolicyWatcher {
    pulse: Arc<PollTimer>,
    thread: Option<JoinHandle<()>>,
}

impl PolicyWatcher {
    /// Starts to watch the file at `path`, which need not be there yet. `on_reload` is called
    /// with what the file holds at first, and again whenever that is something else; always on
    /// one thread, which is the watch's own.
    ///
    /// # Errors
    /// Where no thread can be had, or the current directory is not known.
    pub fn start(
        path: impl AsRef<Path>,
        on_reload: impl FnMut(ReloadEvent) + Send + 'static,
    ) -> io::Result<PolicyWatcher> {
        PolicyWatcher::with(path.as_ref(), Box::new(on_reload), FileNotifier::open)
    }

    fn with(
        path: &Path,
        on_reload: Box<dyn FnMut(ReloadEvent) + Send>,
        eyes: fn(&Arc<PollTimer>) -> FileNotifier,
    ) -> io::Result<PolicyWatcher> {
        let file = path.display().to_string();
        let path = std::path::absolute(path)?;
        let pulse = Arc::new(PollTimer::new());
        let eyes = eyes(&pulse);
        let mut keeper = ReloadState::new(path, file, eyes, Arc::clone(&pulse), on_reload);
        let thread = thread::Builder::new().name("tollgate-watch".to_owned());
        let thread = thread.spawn(move || keeper.run())?;
        Ok(PolicyWatcher { pulse, thread: Some(thread) })
    }
}

/// Waits until a call of `on_reload` that is under way has returned; there is none after.
impl Drop for PolicyWatcher {
    fn drop(&mut self) {
        self.pulse.stop();
        let thread = self.thread.take();
        // Dropped by `on_reload` itself, it cannot wait for its own end.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic in `on_reload` was reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn rule(name: &str) -> String {
        format!("[[rule]]\nname = \"{name}\"\nlimit = \"1/s\"\n")
    }

    #[test]
    fn without_a_word_from_the_system_changes_are_seen_by_looking() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("limits.toml");
        let (events, reloads) = mpsc::channel();
        std::fs::write(&path, rule("first")).unwrap();
        let on_reload = move |reload| events.send(reload).unwrap();
        let _watch =
            PolicyWatcher::with(&path, Box::new(on_reload), |_| FileNotifier::closed()).unwrap();
        for name in ["first", "second"] {
            let reload = reloads.recv_timeout(Duration::from_secs(60)).unwrap();
            let ReloadEvent::Loaded(loaded) = reload else { panic!("{reload:?}") };
            assert_eq!(loaded.policy.rules[0].name, name);
            std::fs::write(&path, rule("second")).unwrap();
        }
    }
}
