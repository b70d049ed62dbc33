//! What operators want to know of decisions afterwards.

use tollgate::{Request, Ruling};

use crate::app::App;
use crate::denials::{Denials, Why};
use crate::http::reason;
use crate::metrics::Transport;
use crate::top::{Key, Top};

/// What is remembered of decisions. An allowed one costs a few instructions.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) top: Top,
    pub(crate) denials: Denials,
}

impl App {
    /// Counts a decision that was in earnest, and remembers whom it was about.
    pub(crate) fn decided(&self, transport: Transport, request: &Request<'_>, ruling: &Ruling) {
        self.metrics.decided(transport, ruling);
        self.watch(transport, request, ruling);
    }

    /// Remembers whom a decision was about.
    #[inline]
    pub(crate) fn watch(&self, transport: Transport, request: &Request<'_>, ruling: &Ruling) {
        let allowed = ruling.is_allowed();
        self.watched.top.seen(allowed, || {
            Some((self.backend.clock().now(), ruling.rule()?, ruling.key(request).collect()))
        });
        if !allowed {
            self.remember(transport, request, ruling);
        }
    }

    #[cold]
    fn remember(&self, transport: Transport, request: &Request<'_>, ruling: &Ruling) {
        let why = Why {
            reason: reason(ruling.reason()),
            transport,
            cost: request.units(),
            limit: ruling.limit(),
            retry_after: ruling.retry_after(),
        };
        let key: Key<'_> = ruling.key(request).collect();
        let who = (ruling.rule().unwrap_or_default(), &*key);
        self.watched.denials.add(who, why, self.backend.clock().now());
    }
}
