//! What operators want to know of decisions afterwards.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;
use tollgate::{Decision, Outcome, Reason, Request, Ruling, Timestamp};

use crate::app::App;
use crate::client_limits::CLIENT_LIMITS;
use crate::denials::{Denials, Why};
use crate::http::reason;
use crate::metrics::Transport;
use crate::seldom::Seldom;
use crate::top::{Key, KeyCounts, KeySample, Top};

/// What is remembered of decisions. An allowed one costs a few instructions.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) top: Top,
    pub(crate) denials: Denials,
    logged: Seldom,
}

/// The attributes of a key, and their values as the key counts them.
type KeyValues<'k> = SmallVec<[(&'k str, Cow<'k, str>); 4]>;

fn borrowed<'k>(values: &'k KeyValues<'_>) -> Key<'k> {
    values.iter().map(|(name, value)| (*name, &**value)).collect()
}

/// A key as it is logged: `user="ana" path="/"`.
struct Shown<'k>(&'k [(&'k str, &'k str)]);

impl App {
    /// Counts a decision that was in earnest, and remembers whom it was about.
    pub(crate) fn decided(&self, transport: Transport, request: &Request<'_>, ruling: &Ruling) {
        self.metrics.decided(transport, ruling, ruling.tier(request));
        self.watch(transport, request, ruling);
    }

    /// Remembers whom a decision was about.
    #[inline]
    fn watch(&self, transport: Transport, request: &Request<'_>, ruling: &Ruling) {
        let allowed = ruling.is_allowed();
        let weight = self.watched.top.due(allowed);
        if weight > 0 {
            self.count_keys(request, ruling, weight);
        }
        if !allowed {
            let why = Why {
                reason: reason(ruling.reason()),
                transport,
                cost: request.units(),
                limit: ruling.limit(),
                retry_after: ruling.retry_after(),
            };
            let values: KeyValues<'_> = ruling.key(request).collect();
            let key = borrowed(&values);
            self.remember((ruling.decided_by_name().unwrap_or_default(), &key), why, 1);
        }
    }

    /// Counts a decision for the key of every rule that applies, or for the list that decided.
    #[cold]
    fn count_keys(&self, request: &Request<'_>, ruling: &Ruling, weight: u64) {
        let (top, now) = (&self.watched.top, self.backend.clock().now());
        let counts = |is_allowed| KeyCounts {
            seen: weight,
            denied: if is_allowed { 0 } else { weight },
            over: 0,
        };
        let is_listed = matches!(ruling.reason(), Reason::AllowList | Reason::DenyList);
        if is_listed && let Some(rule) = ruling.decided_by_name() {
            let values: KeyValues<'_> = ruling.key(request).collect();
            let sample = KeySample { rule, is_shadow: false, key: &borrowed(&values) };
            top.count(sample, counts(ruling.is_allowed()), now);
        }
        ruling.counted_keys(request, |rule, key| {
            let sample = KeySample { rule: rule.name(), is_shadow: rule.is_shadow(), key };
            top.count(sample, counts(rule.is_allowed()), now);
        });
    }

    /// Remembers whom a decision by a client's own limits was about. Busy threads ask `who`, which
    /// says the key to whom it is given, only now and then.
    #[inline]
    pub(crate) fn watch_own(
        &self,
        of: (Transport, u64),
        decision: &Decision,
        who: impl FnOnce(&dyn Fn(&[(&str, &str)])),
    ) {
        let weight = self.watched.top.due(decision.is_allowed());
        if weight > 0 {
            who(&|key| self.watch_own_closely(of, decision, (key, weight)));
        }
    }

    #[cold]
    fn watch_own_closely(
        &self,
        (transport, cost): (Transport, u64),
        decision: &Decision,
        (key, weight): (&[(&str, &str)], u64),
    ) {
        let (who, allowed) = ((CLIENT_LIMITS, key), decision.is_allowed());
        let sample = KeySample { rule: CLIENT_LIMITS, is_shadow: false, key };
        let denied = if allowed { 0 } else { weight };
        let counts = KeyCounts { seen: weight, denied, over: 0 };
        self.watched.top.count(sample, counts, self.backend.clock().now());
        if !allowed {
            let is_error = matches!(decision.outcome(), Outcome::Invalid(_));
            let why = Why {
                reason: if is_error { "error" } else { "limits" },
                transport,
                cost,
                limit: decision.limit(),
                retry_after: decision.retry_after(),
            };
            self.remember(who, why, weight);
        }
    }

    #[cold]
    fn remember(&self, who: (&str, &[(&str, &str)]), why: Why, times: u64) {
        let now = self.backend.clock().now();
        self.watched.denials.add(who, why, (now, times));
        self.log_denial(who, why, now);
    }

    /// Logs a denial, where the operator wants to see them. What is in `key` is left out by the log
    /// itself where the operator has not asked for it.
    fn log_denial(&self, (rule, key): (&str, &[(&str, &str)]), why: Why, now: Timestamp) {
        const TARGET: &str = "tollgate_server::denials";
        if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
            return;
        }
        let Some(left_out) = self.watched.logged.may_log(now) else { return };
        let (reason, transport, cost) = (why.reason, why.transport.word(), why.cost);
        let key = Shown(key);
        tracing::debug!(target: TARGET, rule, reason, transport, cost, %key, left_out, "denied");
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            write!(f, "{space}{name}={:?}", crate::http::cut(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_by_its_attributes_and_never_whole_where_it_is_long() {
        let long = "x".repeat(5000);
        let shown = Shown(&[("user", "a\"b\n"), ("path", &long)]).to_string();
        assert!(shown.starts_with("user=\"a\\\"b\\n\" path=\"xxx"), "{shown}");
        assert!(shown.len() < 200, "{shown}");
    }
}
