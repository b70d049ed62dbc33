//! Units held of several rules until it is known how many were needed.

use std::fmt;

use super::Ruling;
use crate::reservation::OpenReservation;

/// Units of every rule that applied to a request, taken until it is known how many were needed.
///
/// Dropped, it gives them back. One that is neither dropped nor ended gives them back when it
/// times out; what is committed or settled after that is charged anew, into debt if it must.
///
/// ```
/// use tollgate::{Gate, Limit, Policy, Request, Rule};
///
/// let policy = Policy::new().rule(Rule::new("tokens").key(["user"]).limit(Limit::per_hour(10_000)));
/// let gate = Gate::new(policy)?;
/// let request = Request::new().with("user", "ana");
/// let hold = gate.reserve(&request.clone().cost(4_000)).expect("a new key has all of it");
/// // … the model answers, and used fewer tokens than the estimate …
/// hold.settle(1_500);
/// assert_eq!(gate.status(&request).remaining(), 8_500);
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[must_use = "dropping a hold gives its units back"]
pub struct GateReservation {
    pub(super) ruling: Ruling,
    pub(super) cost: u64,
    pub(super) claims: Vec<ScaledReservation>,
}

/// A claim on one limit, and how many of its units one unit of the request is.
pub(super) struct ScaledReservation {
    pub(super) claim: OpenReservation,
    pub(super) per_unit: u64,
}

impl GateReservation {
    /// The ruling that took the units.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// How many units are held: the request's cost.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Raises what is held to `units` in all, if it is less: takes the difference now, into debt if
    /// it is not there. Rules that multiply the cost do so again; rules with a cost of their own
    /// keep it.
    pub fn raise_to(&mut self, units: u64) {
        self.cost = self.cost.max(units);
        for ScaledReservation { claim, per_unit } in &mut self.claims {
            claim.raise(units.saturating_mul(*per_unit));
        }
    }

    /// Keeps what was taken: the estimate was right.
    pub fn commit(self) {
        self.claims.iter().for_each(|scaled| scaled.claim.commit());
    }

    /// Gives everything back: nothing was used.
    pub fn cancel(self) {}

    /// Charges what was really used instead of what was taken: gives the difference back, or
    /// takes it, into debt if it is not there. Rules that multiply the cost do so again; rules
    /// with a cost of their own keep it.
    pub fn settle(self, actual: u64) {
        for ScaledReservation { claim, per_unit } in &self.claims {
            match per_unit {
                0 => claim.commit(),
                per_unit => claim.settle(actual.saturating_mul(*per_unit)),
            }
        }
    }
}

impl fmt::Debug for GateReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("cost", &self.cost).finish_non_exhaustive()
    }
}
