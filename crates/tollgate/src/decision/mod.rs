//! `Decision`, the answer of one limit, and `KeyStatus`, the state of a key without a charge.

mod figures;
mod numbers;

use std::fmt;
use std::time::Duration;

pub(crate) use figures::{BucketFigures, CounterFigures, Figures, PlainFigures};
use numbers::{FigureForm, FigureWords};

/// The answer to a check.
///
/// ```
/// use tollgate::{Limit, Limiter, Outcome};
///
/// let limiter = Limiter::new(Limit::per_minute(60).burst(2))?;
/// let decision = limiter.check("ana");
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (2, 1));
///
/// match limiter.check_n("ana", 2).outcome() {
///     Outcome::Allowed => unreachable!("one unit was taken above"),
///     Outcome::Denied => {}
///     Outcome::Invalid(error) => unreachable!("{error}"),
/// }
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Decision {
    numbers: FigureWords,
    form: FigureForm,
    kind: DecisionKind,
}

// A cache line, or less where numbers are aligned to less.
const _: () = assert!(size_of::<Decision>() <= 64);

/// What was decided, small: what is wrong with a cost is worked out when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecisionKind {
    Allowed,
    Denied,
    Invalid,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Go ahead; the units were taken.
    Allowed,
    /// Not now; nothing was taken. [`Decision::retry_after`] says when.
    Denied,
    /// Never: the cost itself is wrong; nothing was taken.
    Invalid(CostError),
}

/// Why a cost can never be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// The cost is larger than what a new key admits.
    ExceedsCapacity {
        /// What was asked for.
        cost: u64,
        /// The most that can be.
        limit: u64,
    },
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl Decision {
    /// Where nothing is counted.
    pub(crate) const UNLIMITED: Decision =
        Decision::plain(DecisionKind::Allowed, [u64::MAX, 1, u64::MAX, 0, 0, 0, 0]);

    /// Where the store is away and nobody knows more: ask again in a second.
    pub(crate) const AWAY: Decision =
        Decision::plain(DecisionKind::Denied, [0, 1, 0, SECOND, SECOND, SECOND, 0]);

    const fn plain(kind: DecisionKind, numbers: FigureWords) -> Decision {
        Decision { numbers, form: FigureForm::Plain, kind }
    }

    #[inline(always)]
    pub(crate) fn new(figures: Figures, cost: u64) -> Decision {
        // A cost of 0 is allowed in every state, also in debt, and waits for no turn.
        if cost == 0 {
            return Decision::of(figures.without_delay(), DecisionKind::Allowed);
        }
        let kind = if cost > figures.limit() {
            DecisionKind::Invalid
        } else if figures.allowed() {
            DecisionKind::Allowed
        } else {
            DecisionKind::Denied
        };
        Decision::of(figures, kind)
    }

    #[inline(always)]
    fn of(figures: Figures, kind: DecisionKind) -> Decision {
        let (form, numbers) = figures.into_numbers();
        Decision { numbers, form, kind }
    }

    #[inline]
    fn figures(&self) -> Figures {
        Figures::from_numbers(self.is_allowed(), self.form, self.numbers)
    }

    /// Of a charge that its own limit allows; where another kept it from being taken, `figures` are of
    /// no cost.
    #[inline(always)]
    pub(crate) fn allowed(figures: Figures) -> Decision {
        Decision::of(figures, DecisionKind::Allowed)
    }

    /// How the same key stands to a cost that can never be.
    pub(crate) fn never(self, cost: u64) -> Decision {
        Decision::of(self.figures().with_cost(cost), DecisionKind::Invalid)
    }

    /// Whether to go ahead.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.kind == DecisionKind::Allowed
    }

    /// Whether the cost itself is wrong.
    #[inline]
    pub(crate) fn is_invalid(&self) -> bool {
        self.kind == DecisionKind::Invalid
    }

    /// What was decided, to match on.
    pub fn outcome(&self) -> Outcome {
        let (cost, limit) = (self.figures().cost(), self.limit());
        match self.kind {
            DecisionKind::Allowed => Outcome::Allowed,
            DecisionKind::Denied => Outcome::Denied,
            DecisionKind::Invalid => Outcome::Invalid(CostError::ExceedsCapacity { cost, limit }),
        }
    }

    /// Returns the decision if it allows the request, and an error that carries it otherwise: to
    /// use `?`.
    ///
    /// # Errors
    /// If the request is denied, or its cost can never be taken.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// fn serve(limiter: &Limiter, user: &str) -> Result<(), Box<dyn std::error::Error>> {
    ///     limiter.check(user).into_result()?;
    ///     Ok(())
    /// }
    ///
    /// let limiter = Limiter::new(Limit::per_minute(1))?;
    /// assert!(serve(&limiter, "ana").is_ok());
    /// assert!(serve(&limiter, "ana").is_err());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn into_result(self) -> Result<Decision, DecisionError> {
        if self.is_allowed() { Ok(self) } else { Err(DecisionError(self)) }
    }

    /// The most that a new key admits at one instant.
    pub fn limit(&self) -> u64 {
        self.figures().limit()
    }

    /// How many units could be taken at this very instant, after this decision.
    pub fn remaining(&self) -> u64 {
        self.figures().remaining()
    }

    /// After how long the same request is allowed if nothing else arrives: zero where it was
    /// allowed, `None` where it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            DecisionKind::Allowed => Some(Duration::ZERO),
            DecisionKind::Denied => Some(Duration::from_nanos(self.figures().retry_after())),
            DecisionKind::Invalid => None,
        }
    }

    /// After how long the key is as good as new if nothing else arrives.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.figures().reset_after())
    }

    /// After how long more units can be taken than now if nothing else arrives: a bucket's next
    /// unit, the end of a fixed window, the moment a log's oldest units leave. Zero where the key
    /// is as good as new.
    pub fn next_unit_after(&self) -> Duration {
        Duration::from_nanos(self.figures().next_after())
    }

    /// How long to wait before going ahead: a leaky queue's turn, zero for every other algorithm.
    #[inline]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(if self.is_allowed() { self.figures().delay() } else { 0 })
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("outcome", &self.outcome())
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}

/// A decision that does not allow a request, as an error.
#[derive(Clone, Copy, Debug)]
pub struct DecisionError(Decision);

impl DecisionError {
    pub(crate) fn of(decision: Decision) -> DecisionError {
        DecisionError(decision)
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.0
    }
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.outcome(), self.0.retry_after()) {
            (Outcome::Invalid(error), _) => error.fmt(f),
            (_, Some(wait)) => {
                write!(f, "denied by a limit of {}; retry after {wait:?}", self.0.limit())
            }
            (_, None) => write!(f, "denied by a limit of {}", self.0.limit()),
        }
    }
}

impl std::error::Error for DecisionError {}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostError::ExceedsCapacity { cost, limit } => {
                write!(f, "cost exceeds capacity: {cost} units can never pass a limit of {limit}")
            }
        }
    }
}

impl std::error::Error for CostError {}

/// How a key stands, without taking anything.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_hour(10))?;
/// assert!(limiter.check_n("ana", 4).is_allowed());
/// let status = limiter.status("ana");
/// assert_eq!((status.used(), status.remaining(), status.limit()), (4, 6, 10));
/// assert!(limiter.status("ben").is_fresh());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy)]
pub struct KeyStatus {
    /// Of a decision on nothing: how the key stands.
    stands: Figures,
    /// Of a decision on one unit: when the next one passes.
    next: Figures,
}

impl KeyStatus {
    /// From the figures of decisions on no unit and on one, neither taken.
    pub(crate) fn new([stands, next]: [Figures; 2]) -> KeyStatus {
        KeyStatus { stands, next }
    }

    /// Whether the key is as good as one never seen.
    pub fn is_fresh(&self) -> bool {
        self.stands.reset_after() == 0
    }

    /// The most that a new key admits at one instant.
    pub fn limit(&self) -> u64 {
        self.stands.limit()
    }

    /// How many units could be taken now.
    pub fn remaining(&self) -> u64 {
        self.stands.remaining()
    }

    /// How many units could not be taken now though a new key could: part of a unit counts whole.
    pub fn used(&self) -> u64 {
        self.limit() - self.remaining()
    }

    /// After how long one unit can be taken: zero if now.
    pub fn retry_after(&self) -> Duration {
        Duration::from_nanos(if self.next.allowed() { 0 } else { self.next.retry_after() })
    }

    /// After how long the key is as good as new if nothing arrives.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.stands.reset_after())
    }
}

impl fmt::Debug for KeyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("limit", &self.limit())
            .field("used", &self.used())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}
