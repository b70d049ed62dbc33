//! The gate: policies over the memory store.

mod blocks;
mod canonical;
mod cost_zero;
mod costs;
mod decisions;
mod explain;
mod holds;
mod hostile;
mod inspect;
mod lists;
mod matching;
mod model;
mod operate;
mod overrides;
mod policies;
mod take_up_to;
mod threads;
mod tiers;

use std::time::Duration;

use tollgate::{Gate, Limit, ManualClock, MemoryStore, Policy, Request, Rule, Ruling};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A gate over a small store, and the clock it reads.
fn gate(policy: Policy) -> (Gate, ManualClock) {
    let clock = ManualClock::new();
    (gate_at(&clock, policy), clock)
}

fn gate_at(clock: &ManualClock, policy: Policy) -> Gate {
    let store = MemoryStore::builder().clock(clock.clone()).max_keys(10_000).build();
    Gate::with_store(store.expect("the bound is possible"), policy).expect("the policy is right")
}

fn user(name: &str) -> Request<'_> {
    Request::new().with("user", name)
}

/// A window of an hour from the first request on: whole units, nothing comes back meanwhile.
fn hourly(count: u64) -> Limit {
    Limit::fixed_window(count, HOUR).starting_at_first_request()
}

/// A rule of so many an hour for each user.
fn per_user(count: u64) -> Rule {
    Rule::new("per-user").key(["user"]).limit(hourly(count))
}

/// A rule of so many an hour for all together.
fn everybody(count: u64) -> Rule {
    Rule::new("everybody").limit(hourly(count))
}

/// How many of `tries` checks pass.
fn passed(gate: &Gate, request: &Request<'_>, tries: usize) -> usize {
    (0..tries).filter(|_| gate.check(request).is_allowed()).count()
}

/// What is left of a rule for a request.
fn left(gate: &Gate, rule: &str, request: &Request<'_>) -> u64 {
    figure(&gate.status(request), rule)
}

fn figure(ruling: &Ruling, rule: &str) -> u64 {
    let found = ruling.rules().find(|figures| figures.rule() == rule);
    found.unwrap_or_else(|| panic!("{rule} does not apply: {ruling:?}")).remaining()
}
