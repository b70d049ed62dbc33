//! Reading files again while the server runs, and counting what became of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// Counts what becomes of policies, for `/metrics`. Clones count for the same server.
#[derive(Clone, Debug)]
pub struct ReloadCounts(Arc<App>);

impl ReloadCounts {
    pub(crate) fn new(app: Arc<App>) -> ReloadCounts {
        ReloadCounts(app)
    }

    /// Another policy is in force.
    pub fn changed(&self) {
        self.count().changed()
    }

    /// What was given could not be put in force.
    pub fn refused(&self) {
        self.count().refused()
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

    pub(crate) fn refused(&self) {
        add(&self.refused);
        self.last_refused.store(true, Ordering::Relaxed);
    }
}
