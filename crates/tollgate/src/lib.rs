//! Exact rate limiting, from a library call of tens of nanoseconds.
//!
//! ```
//! use tollgate::{Limit, Limiter};
//!
//! let limiter = Limiter::new(Limit::per_minute(100).burst(20))?;
//! if limiter.check("user-42").is_allowed() {
//!     // serve the request
//! }
//! # Ok::<(), tollgate::LimitError>(())
//! ```
//!
//! - A [`Limit`] says what is allowed, in one of five algorithms.
//! - A [`Limiter`] holds it over any number of keys, in bounded memory.
//! - A [`Decision`] is the answer, with exact figures.
//! - [`check_all`] decides several limits at once, all or nothing.
//! - [`Limiter::reserve`] takes units whose real number is known only later.
//! - [`Limiter::acquire`] waits its turn, in async code or in a thread.
//! - A [`HeaderStyle`] writes the RateLimit fields and Retry-After of an HTTP answer.
//! - A [`MemoryStore`] is shared by several limiters, and can be saved and restored.
//! - A [`ManualClock`] stands still until a test moves it.
//!
//! Every number is an integer and every decision exact to the nanosecond: a wait rounds up, what
//! is left rounds down, nothing drifts, nothing wraps. Nothing panics on any input.

mod algorithm;
mod bounds;
mod charge;
mod decision;
mod engine;
mod gate;
mod headers;
mod key;
mod limit;
mod limiter;
mod policy;
#[doc(hidden)]
pub mod port;
mod prefetch;
mod reservation;
mod store;
mod sync;
mod time;
mod waiting;
#[cfg(feature = "watch")]
mod watch;

pub use charge::{Charge, Decisions, check_all};
pub use decision::{CostError, Decision, DecisionError, KeyStatus, Outcome};
pub use gate::{
    Explanation, Gate, GateReservation, LimitSource, Reason, ReplaceOutcome, RequestError,
    RuleDecision, RuleExplanation, RuleMatch, Ruling, TierSource,
};
pub use headers::{Dialect, HeaderFields, HeaderStyle, ParseHeaderStyleError, Verbosity};
pub use key::{Key, KeyName, KeyPart};
pub use limit::{Algorithm, CalendarUnit, Limit, LimitError, WindowStart};
pub use limiter::{Limiter, LimiterBuilder, PartialGrant};
pub use policy::{
    AddressPrefix, BlockPolicy, Client, Condition, Cost, Glob, KeyAttribute, ListEntry,
    ListedOverride, OnStoreError, Override, OverrideRemoval, OverrideSource, Policy, PolicyError,
    PolicyLocation, PolicyProblem, Request, Rule, RuleLimits, SyncMode, normalize_path,
    normalize_path_within, uri_path,
};
#[cfg(feature = "file")]
pub use policy::{Diagnostic, LoadedPolicy, PolicyFileError};
#[cfg(feature = "envoy")]
pub use policy::{EnvoyDescriptor, EnvoyFolder, FolderLoaded, RejectedFile};
pub use reservation::{Reservation, ReserveError};
pub use store::memory::{
    MemoryStore, MemoryStoreBuilder, SnapshotError, SnapshotSummary, TooManyBlocks, WhenFull,
};
pub use time::{Clock, ManualClock, Timestamp};
pub use waiting::{Acquire, AcquireError};
#[cfg(feature = "watch")]
pub use watch::{PolicyWatcher, ReloadEvent};
