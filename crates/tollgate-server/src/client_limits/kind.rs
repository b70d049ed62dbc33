//! The ways in which clients bring limits, and what each way accepts.

use tollgate::Limit;

use crate::bounds::{DATABASES, MAX_CLIENT_PERIOD};
use crate::metrics::Transport;

/// The interface that a limit came from: each counts separate keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// redis-cell's `CL.THROTTLE`.
    Cell(Database),
    /// throttlecrab's `THROTTLE`.
    Crab(Database),
    /// The limit of a descriptor of Envoy's, by its unit of time: each counts apart.
    Descriptor(&'static str),
    /// `limits` of a request, by its place among them: another place is another limit.
    Listed(u8),
}

/// A database of the Redis protocol, which has separate keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Database(u8);

impl Database {
    /// The database of a connection that has chosen none.
    pub(crate) const FIRST: Database = Database(0);

    /// The database of that number; `None` if there is no such database.
    pub(crate) fn new(number: i64) -> Option<Database> {
        let number = u8::try_from(number).ok()?;
        (number < DATABASES).then_some(Database(number))
    }

    /// The end of the names under which the store keeps its keys; none for the first, whose names
    /// are older than the others.
    fn suffix(self) -> String {
        if self == Database::FIRST { String::new() } else { format!(".{}", self.0) }
    }
}

impl Kind {
    pub(super) fn transport(self) -> Transport {
        match self {
            Kind::Cell(_) | Kind::Crab(_) => Transport::Resp,
            Kind::Descriptor(_) => Transport::Grpc,
            Kind::Listed(_) => Transport::Http,
        }
    }

    /// Under which name the store keeps its keys. Names of rules hold no control characters, so
    /// that no rule meets these.
    pub(super) fn name(self) -> String {
        match self {
            Kind::Cell(database) => format!("\u{1f}cl.throttle{}", database.suffix()),
            Kind::Crab(database) => format!("\u{1f}throttle{}", database.suffix()),
            Kind::Descriptor(unit) => format!("\u{1f}rls.{unit}"),
            Kind::Listed(place) => format!("\u{1f}limits.{place}"),
        }
    }

    /// Rejects a period over a month. Of Envoy's units of time the longest is a year, and no client
    /// can say a longer one.
    pub(super) fn check_period(self, limit: &Limit) -> Result<(), String> {
        let is_unit = matches!(self, Kind::Descriptor(_));
        if is_unit || limit.period() <= MAX_CLIENT_PERIOD {
            return Ok(());
        }
        Err(format!(
            "period is {:?}, must be at most {MAX_CLIENT_PERIOD:?} (31 days): {INSTEAD}",
            limit.period()
        ))
    }

    /// Rejects a bucket that takes more than a month to refill.
    pub(super) fn check_refill(self, limit: &Limit) -> Result<(), String> {
        let units = u128::from(limit.capacity());
        // Both products are below 2^118: a period is at most a month, or a year for a descriptor.
        let longest = MAX_CLIENT_PERIOD.as_nanos() * u128::from(limit.count());
        let is_unit = matches!(self, Kind::Descriptor(_));
        if is_unit || units * limit.period().as_nanos() <= longest {
            return Ok(());
        }
        Err(format!(
            "a burst of {units} at {} per {:?} takes more than {MAX_CLIENT_PERIOD:?} (31 days) to \
             refill, lower the burst or raise the count: {INSTEAD}",
            limit.count(),
            limit.period()
        ))
    }
}

/// Ends the message to a client whose limit takes too long.
const INSTEAD: &str = "a rule of the policy may have a longer one";
