//! How a rule's state is kept in step across a fleet: asked for each time, or borrowed in batches.

use std::time::Duration;

use super::check::{PolicyLocation, PolicyProblem};
use super::{Policy, Rule, RuleLimits};
use crate::bounds::{MAX_LEASE_TTL, MIN_LEASE_TTL};
use crate::limit::{Algorithm, Limit};

/// How the nodes of a fleet share what a rule counts. A gate in memory has no fleet, and no use
/// for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncMode {
    /// Every decision asks the store: exact, one round trip each.
    #[default]
    Strict,
    /// Each node borrows units from the store, which charges them at once, and spends them by itself
    /// until the lease ends.
    Leased,
}

/// What the leases of a rule are like.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How long after they were borrowed units may be spent.
    pub ttl: Duration,
    /// The largest part of a limit that is borrowed at once, in percent.
    pub share: u8,
}

impl Policy {
    /// What the leases of `rule` are like; `None` where every decision asks the store. Blocks are
    /// the store's to know, and a rule that only reports must not hold units that count.
    #[doc(hidden)]
    pub fn lease_settings(&self, rule: &Rule) -> Option<LeaseSettings> {
        let is_leased = rule.sync.unwrap_or(self.sync) == SyncMode::Leased;
        let is_simple = !rule.shadow && rule.block.is_none();
        (is_leased && is_simple).then(|| LeaseSettings {
            ttl: rule.lease_ttl.unwrap_or(self.lease_ttl),
            share: rule.lease_share.unwrap_or(self.lease_share),
        })
    }

    /// Everything that is wrong with how the policy says that rules are leased.
    pub(super) fn lease_problems(&self) -> Vec<PolicyProblem> {
        let mut found = Vec::new();
        let mut add = |place: PolicyLocation, message: Option<String>| {
            found.extend(message.map(|message| PolicyProblem { place, message }));
        };
        add(PolicyLocation::Policy("lease_ttl"), ttl_problem(Some(self.lease_ttl)));
        add(PolicyLocation::Policy("lease_share"), share_problem(Some(self.lease_share)));
        for (number, rule) in self.rules.iter().enumerate() {
            let at = |setting| PolicyLocation::Rule(number, setting);
            add(at("lease_ttl"), ttl_problem(rule.lease_ttl));
            add(at("lease_share"), share_problem(rule.lease_share));
            add(at("sync"), self.sync_problem(rule));
        }
        found
    }

    /// Why a rule cannot be leased though it is to be.
    fn sync_problem(&self, rule: &Rule) -> Option<String> {
        let says_so = rule.sync == Some(SyncMode::Leased);
        if says_so && rule.block.is_some() {
            let message =
                "a rule with block_for asks the store each time, leave out sync or block_for";
            return Some(message.to_owned());
        }
        let lease = self.lease_settings(rule)?;
        let shared = self.tiers.values().filter_map(|rules| rules.get(&rule.name));
        let overrides = self.overrides.iter().filter_map(|own| own.limits.get(&rule.name));
        let all = std::iter::once(&rule.limits).chain(rule.tiers.values());
        let mut limits = all.chain(shared).chain(overrides).flat_map(RuleLimits::limits);
        limits.find_map(|limit| match limit.algorithm() {
            Algorithm::LeakyQueue => says_so.then(|| {
                format!("\"{limit}\" is a queue, whose turns cannot be leased: use sync = \"strict\"")
            }),
            _ => (!outlasts(limit, lease.ttl)).then(|| {
                format!(
                    "\"{limit}\" cannot be leased for {:?}: lease_ttl must be at most half of its window, or use sync = \"strict\"",
                    lease.ttl
                )
            }),
        })
    }
}

impl LeaseSettings {
    /// Whether units of `limit` may be borrowed so. A policy is checked for it, but an override at
    /// run time may bring any limit: it is then asked for each time.
    pub fn allow(self, limit: &Limit) -> bool {
        limit.algorithm() != Algorithm::LeakyQueue && outlasts(limit, self.ttl)
    }
}

/// Whether a log's window is long enough for its bound, which holds over the window less a lease, to
/// mean something. A bucket's bound only grows by what comes back in that time, and the windows of
/// others end their leases.
fn outlasts(limit: &Limit, ttl: Duration) -> bool {
    limit.algorithm() != Algorithm::SlidingLog || ttl.saturating_mul(2) <= limit.period()
}

fn ttl_problem(ttl: Option<Duration>) -> Option<String> {
    let ttl = ttl.filter(|ttl| !(MIN_LEASE_TTL..=MAX_LEASE_TTL).contains(ttl))?;
    Some(format!("lease_ttl is {ttl:?}, must be from {MIN_LEASE_TTL:?} to {MAX_LEASE_TTL:?}"))
}

fn share_problem(share: Option<u8>) -> Option<String> {
    let share = share.filter(|share| !(1..=100).contains(share))?;
    Some(format!("lease_share is {share}%, must be from 1% to 100%"))
}
