//! Wrong passwords: an address may try a few in a minute, as operators' tokens.

use std::net::IpAddr;

use tollgate::{Limit, Limiter, Timestamp};

use crate::admin::network;
use crate::bounds::MAX_WRONG_TOKENS;
use crate::seldom::Seldom;

/// Who has given a wrong password lately.
#[derive(Debug)]
pub(super) struct Guesses {
    /// By address; `None` only if its own limit were impossible.
    wrong: Option<Limiter>,
    /// They are logged, and cannot fill the log.
    logged: Seldom,
}

impl Guesses {
    pub(super) fn new() -> Guesses {
        let limit = Limit::per_minute(MAX_WRONG_TOKENS);
        // As many addresses as an attacker may have at hand; beyond, the oldest are forgotten.
        let wrong = Limiter::builder(limit).max_keys(4096).build().ok();
        Guesses { wrong, logged: Seldom::default() }
    }

    /// Whether a password is looked at; else, what to say. Also the right one is not, or the answer
    /// would tell that it is.
    pub(super) fn may_try(&self, peer: Option<IpAddr>) -> Result<(), String> {
        let (Some(wrong), Some(peer)) = (&self.wrong, peer) else { return Ok(()) };
        let wait = wrong.status(network(peer.to_canonical())).retry_after();
        if wait.is_zero() {
            return Ok(());
        }
        let seconds = wait.as_millis().div_ceil(1000);
        Err(format!("ERR too many wrong passwords, try again in {seconds} seconds"))
    }

    /// Counts a wrong one, and says so in the log.
    pub(super) fn count(&self, peer: Option<IpAddr>, now: Timestamp) {
        if let (Some(wrong), Some(peer)) = (&self.wrong, peer) {
            // Counted only: what it says was asked for before.
            let _ = wrong.check(network(peer.to_canonical())).is_allowed();
        }
        if let Some(left_out) = self.logged.may_log(now) {
            tracing::warn!(?peer, left_out, "a client of the Redis protocol gave a wrong password");
        }
    }
}
