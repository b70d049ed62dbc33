//! Reading files again while the server runs, and counting what became of them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate::{
    Diagnostic, FolderLoaded, Policy, PolicyError, PolicyWatcher, RejectedFile, ReloadEvent,
};

use crate::app::App;
use crate::metrics::add;
use crate::tls::Acceptor;

/// Reads again, at once, what a server has from files: the policy, the certificates, and the
/// tokens of operators. Clones are of the same server.
#[derive(Clone, Debug)]
pub struct Reloader {
    app: Arc<App>,
    tls: Option<Arc<Acceptor>>,
}

impl Reloader {
    pub(crate) fn new(app: Arc<App>, tls: Option<Arc<Acceptor>>) -> Reloader {
        Reloader { app, tls }
    }

    /// The active policy.
    pub fn policy(&self) -> Arc<Policy> {
        self.app.backend.policy()
    }

    /// Activates what a policy file holds, now and whenever that changes, as [`Gate::watch_file`] does.
    /// The audit log has each change.
    ///
    /// # Errors
    /// Where no thread can be had, or the current directory is not known.
    ///
    /// [`Gate::watch_file`]: tollgate::Gate::watch_file
    pub fn follow_policy(
        &self,
        path: &Path,
        on_reload: impl FnMut(ReloadEvent) + Send + 'static,
    ) -> io::Result<PolicyWatcher> {
        let reloader = self.clone();
        let activate = move |policy| reloader.activate(policy);
        tollgate::port::follow(path, (self.app.backend.policy(), activate), on_reload)
    }

    /// Activates a policy that was read from its source again, keeping what was consumed. The audit
    /// log has the change. May wait for the disk.
    ///
    /// # Errors
    /// Everything that is wrong with the policy; the active one stays.
    pub fn activate(&self, policy: Policy) -> Result<(), PolicyError> {
        crate::admin::activate_followed(&self.app, policy)
    }

    /// Reads everything again, and says in the log what came of it. What is wrong leaves what was in
    /// force. The audit log has the policy's change under the name `who`.
    pub async fn reload(&self, who: &str) {
        let (app, who) = (Arc::clone(&self.app), who.to_owned());
        if app.operators.has_policy_source() {
            // By itself, so that a server that stops meanwhile waits for it.
            let reloading = async move { crate::admin::reload_as(app, &who).await };
            let _ = self.app.tasks.spawn(reloading).await;
        }
        self.app.operators.read_tokens_again().await;
        if let Some(tls) = &self.tls {
            tls.read_again(&self.app.metrics.tls_reloads).await;
        }
    }
}

/// Logs the files of a folder that are rejected and were not before, with all their errors, and
/// those that are accepted again.
pub fn log_rejected_files(read: &FolderLoaded) {
    for file in read.rejected.iter().filter(|file| file.is_new) {
        file.findings.iter().for_each(|finding| tracing::error!("{}", harmless(finding)));
        let (name, errors) = (&file.name, file.findings.len());
        let outcome = outcome(file);
        tracing::error!(file = %name.escape_debug(), errors, "Envoy file rejected, {outcome}");
    }
    for name in &read.recovered {
        tracing::info!(file = %name.escape_debug(), "Envoy file accepted again");
    }
}

/// Control characters of a file's text must not reach a terminal.
fn harmless(finding: &Diagnostic) -> String {
    let text = finding.to_string();
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The consequence for the domain of a rejected file.
pub(crate) fn outcome(file: &RejectedFile) -> &'static str {
    match file.keeps_last {
        true => "its last good version applies",
        false => "nothing limits its domain",
    }
}

/// Counts what becomes of policies, for `/metrics`. Clones count for the same server.
#[derive(Clone, Debug)]
pub struct ReloadCounts(Arc<App>);

impl ReloadCounts {
    pub(crate) fn new(app: Arc<App>) -> ReloadCounts {
        ReloadCounts(app)
    }

    /// Another policy is in force.
    pub fn changed(&self) {
        self.0.count_policy_change();
    }

    /// The policy that was read is active already.
    pub fn unchanged(&self) {
        self.count().unchanged()
    }

    /// What was given could not be put in force.
    pub fn refused(&self) {
        self.count().refused()
    }

    /// Files of a folder were rejected, and the policy is made of the others.
    pub fn file_rejected(&self) {
        self.count().file_rejected()
    }

    fn count(&self) -> &crate::metrics::Reloads {
        &self.0.metrics.reloads
    }
}

impl crate::metrics::Reloads {
    pub(crate) fn changed(&self) {
        add(&self.changed);
        self.last_refused.store(false, Ordering::Relaxed);
    }

    pub(crate) fn unchanged(&self) {
        self.last_refused.store(false, Ordering::Relaxed);
    }

    /// The folder says whether a file is rejected now.
    pub(crate) fn file_rejected(&self) {
        add(&self.refused);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused);
        self.last_refused.store(true, Ordering::Relaxed);
    }
}
