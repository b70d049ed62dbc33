//! A gate whose policy changes with a file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{PolicyWatcher, ReloadEvent};
use crate::gate::Gate;
use crate::policy::{Diagnostic, Policy, PolicyError, PolicyFileError};

impl Gate {
    /// Puts in force what the policy file at `path` holds, now and whenever that is something
    /// else, until the watch is dropped. A file that is no policy leaves the one in force.
    /// `on_reload` hears of both, afterwards; not of the file as it is at first if its policy is
    /// in force already.
    ///
    /// ```no_run
    /// use tollgate::{Gate, Policy, ReloadEvent};
    ///
    /// let gate = Gate::new(Policy::load("limits.toml")?.policy)?;
    /// let watch = gate.watch_file("limits.toml", |reload| match reload {
    ///     ReloadEvent::Loaded(loaded) => println!("{} rules in force", loaded.policy.rules.len()),
    ///     ReloadEvent::Rejected(error) => eprintln!("the policy stays as it was:\n{error}"),
    ///     _ => {}
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Where no thread can be had, or the current directory is not known.
    pub fn watch_file(
        &self,
        path: impl AsRef<Path>,
        on_reload: impl FnMut(ReloadEvent) + Send + 'static,
    ) -> io::Result<PolicyWatcher> {
        let gate = self.clone();
        let policies = (self.policy(), move |policy| gate.replace(policy));
        follow(path.as_ref(), policies, on_reload)
    }
}

/// The same for what is told which policy is in force now, and how to replace it.
///
/// # Errors
/// As [`Gate::watch_file`].
pub fn follow(
    path: &Path,
    (in_force, mut replace): (
        Arc<Policy>,
        impl FnMut(Policy) -> Result<(), PolicyError> + Send + 'static,
    ),
    mut on_reload: impl FnMut(ReloadEvent) + Send + 'static,
) -> io::Result<PolicyWatcher> {
    let file = path.display().to_string();
    // Not what is in force by the time the file is read: somebody may have put that in force by hand.
    let mut at_first = Some(in_force);
    PolicyWatcher::start(path, move |reload| {
        let at_first = at_first.take();
        let reload = match reload {
            ReloadEvent::Loaded(loaded)
                if at_first.is_some_and(|policy| *policy == loaded.policy) =>
            {
                return;
            }
            ReloadEvent::Loaded(loaded) => match replace(loaded.policy.clone()) {
                Ok(()) => ReloadEvent::Loaded(loaded),
                Err(error) => ReloadEvent::Rejected(refusal(&file, error)),
            },
            refused => refused,
        };
        on_reload(reload);
    })
}

/// What the gate has against a policy that the file's reader had nothing against.
fn refusal(file: &str, error: PolicyError) -> PolicyFileError {
    let finding = |message| Diagnostic { file: file.to_owned(), line: 0, rule: None, message };
    let findings = error.problems.iter().map(|problem| finding(problem.to_string())).collect();
    PolicyFileError { diagnostics: findings }
}
