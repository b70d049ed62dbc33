//! Leases: what a node may spend by itself, until when, and what it gives back.

mod bound;
mod fleet;
mod giving_back;
mod purse;
mod renewal;

use std::time::Duration;

use tollgate::port::{
    Borrower, Grant, LeaseRefund, LeaseTerms, Payment, ScriptPlan, ScriptState, Wallet,
};
use tollgate::{Limit, Timestamp};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// Where the store's clock begins: in microseconds, a multiple of every window up to a day.
const STORE: u64 = 946_684_800_000_000;

/// Where this node's clock begins: of no use to anybody else.
const NODE: Timestamp = Timestamp::from_secs(77);

fn terms(limit: &Limit, ttl: Duration) -> LeaseTerms {
    let ported = ScriptPlan::new(limit).expect("the limit fits");
    LeaseTerms::new(&ported, ttl, 100).expect("the terms are possible")
}

/// A lease of `units` of a new key, sent and charged when both clocks begin.
fn grant(units: u64) -> Grant {
    Grant { sent: NODE, at: STORE, met: ScriptState::New, units }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("a test is short")
}
