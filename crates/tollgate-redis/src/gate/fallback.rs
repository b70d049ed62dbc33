//! What is told of rulings that are made without the store though there is no outage. Outages are told
//! by the store: one line each when they begin and end, however many gates and requests there are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tollgate::port::key_name;
use tollgate::{Clock, Key, KeyPart, Timestamp};

use super::RedisGate;
use super::decide::{GateCall, RuleReply};
use crate::bounds::TOLD_AGAIN;
use crate::error::StoreError;

/// When it was last told, and how many there have been since.
pub(super) struct FallbackLog {
    clock: Clock,
    /// Held only to look at it or to change it.
    told: Mutex<Option<Timestamp>>,
    untold: AtomicU64,
}

impl FallbackLog {
    pub(super) fn new() -> FallbackLog {
        FallbackLog { clock: Clock::system(), told: Mutex::new(None), untold: AtomicU64::new(0) }
    }

    /// How many have not been told, if it is time to tell.
    pub(super) fn to_tell(&self) -> Option<u64> {
        let (now, untold) = (self.clock.now(), self.untold.fetch_add(1, Ordering::Relaxed) + 1);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| now.saturating_since(told) < TOLD_AGAIN) {
            return None;
        }
        *told = Some(now);
        self.untold.fetch_sub(untold, Ordering::Relaxed);
        Some(untold)
    }
}

/// What a gate keeps in memory for the times when the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FallbackCounts {
    /// Keys that are in memory now.
    pub keys: usize,
    /// Keys that were evicted because memory was full.
    pub evictions: u64,
    /// Requests that were denied because memory was full.
    pub turned_away: u64,
}

impl RedisGate {
    /// Keeps the blocks that the store has answered, so that they hold while it is unavailable, too.
    pub(super) fn keep_blocks(&self, call: &GateCall<'_>, told: &[RuleReply]) {
        let local = &self.0.local;
        for (rule, told) in call.planned.rules().iter().zip(told) {
            if told.blocked.is_zero() && !local.may_hold_blocks() {
                continue;
            }
            let mut values = Vec::new();
            key_name(&rule.key).parts(&mut |part| {
                if let KeyPart::Bytes(bytes) = part {
                    values.push(String::from_utf8_lossy(bytes).into_owned());
                }
            });
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            local.keep_block(&rule.rule(call.planned).name, &values, told.blocked);
        }
    }

    /// What is in memory for the times when the store is unavailable.
    pub fn fallback_counts(&self) -> FallbackCounts {
        let memory = self.0.local.store();
        FallbackCounts {
            keys: memory.len(),
            evictions: memory.evictions(),
            turned_away: memory.rejected_new_keys(),
        }
    }

    /// A request is decided without the store, since that has no answer.
    pub(super) fn note_fallback(&self, error: &StoreError) {
        let is_of_outage = match error {
            StoreError::Unavailable { .. } | StoreError::Connection(_) | StoreError::Timeout(_) => {
                true
            }
            _ => self.0.store.health().outage.is_some(),
        };
        if is_of_outage {
            return;
        }
        if let Some(rulings) = self.0.fallbacks.to_tell() {
            tracing::warn!(
                address = self.0.store.connection().address(),
                reason = %error,
                rulings,
                "redis has no answer, though it is there: rules do what on_store_error says"
            );
        }
    }
}
