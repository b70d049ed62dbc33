//! Rulings of a gate in memory and of one over Redis, in the same terms.

use std::time::Duration;

use tollgate::{Reason, Ruling};

/// Everything that a ruling says, waits in whole microseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) allowed: bool,
    pub(crate) reason: Reason,
    pub(crate) error: Option<String>,
    pub(crate) decided: Decided,
    pub(crate) delay: Duration,
    pub(crate) rules: Vec<OfRule>,
}

/// What the deciding rule says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) rule: Option<String>,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) reset_after: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfRule {
    pub(crate) rule: String,
    pub(crate) numbers: Option<String>,
    pub(crate) shadow: bool,
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) reset_after: Duration,
    pub(crate) delay: Duration,
    pub(crate) blocked: Option<Duration>,
}

/// Rounded up to whole microseconds.
fn tick(wait: Duration) -> Duration {
    Duration::from_nanos(u64::try_from(wait.as_nanos().div_ceil(1000) * 1000).unwrap_or(u64::MAX))
}

impl Said {
    pub(crate) fn of(ruling: &Ruling) -> Said {
        assert!(!ruling.is_degraded(), "the server answers");
        let rules = ruling.rules().map(|of| OfRule {
            rule: of.rule().to_owned(),
            numbers: of.limit_config().map(ToString::to_string),
            shadow: of.is_shadow(),
            allowed: of.is_allowed(),
            limit: of.limit(),
            remaining: of.remaining(),
            retry_after: of.retry_after().map(tick),
            reset_after: tick(of.reset_after()),
            delay: tick(of.delay()),
            blocked: of.blocked_for().map(tick),
        });
        Said {
            allowed: ruling.is_allowed(),
            reason: ruling.reason(),
            error: ruling.error().map(|error| error.to_string()),
            decided: Decided {
                rule: ruling.decided_by_name().map(str::to_owned),
                limit: ruling.limit(),
                remaining: ruling.remaining(),
                retry_after: ruling.retry_after().map(tick),
                reset_after: tick(ruling.reset_after()),
            },
            delay: tick(ruling.delay()),
            rules: rules.collect(),
        }
    }

    /// Whether, why, and for how long each rule blocks.
    pub(crate) fn verdict(&self) -> (bool, Reason, Option<String>, Vec<Option<Duration>>) {
        let blocked = self.rules.iter().map(|of| of.blocked).collect();
        (self.allowed, self.reason, self.error.clone(), blocked)
    }

    /// Whether two say the same. Of denials whose waits differ by less than a microsecond, another may
    /// be the longest.
    pub(crate) fn agrees(&self, other: &Said) -> bool {
        let wait = |of: &Said, rule: &Option<String>| {
            let found = of.rules.iter().find(|of| Some(&of.rule) == rule.as_ref());
            found.map(|of| of.retry_after)
        };
        let (own, its) = (&self.decided, &other.decided);
        let as_long = own.rule != its.rule
            && own.retry_after == its.retry_after
            && wait(self, &own.rule) == wait(self, &its.rule);
        let decided = if as_long { its.clone() } else { own.clone() };
        Said { decided, ..self.clone() } == *other
    }
}
