//! What became of the policy while the server runs, as whoever changes it tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::app::App;
use crate::metrics::add;

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
