//! The decision on a request, as handlers and others see it.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Limiter, Ruling};

use crate::door::Decided;

/// The decision on a request: in its extensions, for handlers to read.
///
/// ```
/// use tollgate_tower::Answer;
///
/// fn handler(request: http::Request<String>) -> String {
///     match request.extensions().get::<Answer>() {
///         Some(answer) => format!("{} of {} left", answer.remaining(), answer.limit()),
///         None => "not limited".to_owned(),
///     }
/// }
/// # handler(http::Request::default());
/// ```
#[derive(Clone)]
pub struct Answer(Arc<Inner>);

struct Inner {
    decided: Decided,
    limiter: Option<Limiter>,
}

impl Answer {
    pub(crate) fn new(decided: Decided, limiter: Option<Limiter>) -> Answer {
        Answer(Arc::new(Inner { decided, limiter }))
    }

    /// Whether the limits allow the request. A handler may see one that they do not, where the
    /// layer only watches.
    pub fn is_allowed(&self) -> bool {
        self.0.decided.is_allowed()
    }

    /// The name of the rule, list or limiter that decided.
    pub fn rule(&self) -> Option<&str> {
        match &self.0.decided {
            Decided::Ruling(ruling) => ruling.decided_by_name(),
            Decided::Decision(_) => self.0.limiter.as_ref().map(Limiter::name),
        }
    }

    /// The most that a new key admits at one instant; `u64::MAX` where nothing limits.
    pub fn limit(&self) -> u64 {
        match &self.0.decided {
            Decided::Ruling(ruling) => ruling.limit(),
            Decided::Decision(decision) => decision.limit(),
        }
    }

    /// How many units could be taken at that very instant; `u64::MAX` where nothing limits.
    pub fn remaining(&self) -> u64 {
        match &self.0.decided {
            Decided::Ruling(ruling) => ruling.remaining(),
            Decided::Decision(decision) => decision.remaining(),
        }
    }

    /// After how long the same request is allowed: zero where it was, `None` where it never will
    /// be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.decided.retry_after()
    }

    /// How long a leaky queue made the request wait.
    pub fn delay(&self) -> Duration {
        self.0.decided.delay()
    }

    /// The ruling, where a gate decided.
    pub fn ruling(&self) -> Option<&Ruling> {
        match &self.0.decided {
            Decided::Ruling(ruling) => Some(ruling),
            Decided::Decision(_) => None,
        }
    }

    /// The decision, where a limiter decided.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.0.decided {
            Decided::Ruling(_) => None,
            Decided::Decision(decision) => Some(decision),
        }
    }

    /// The public names of the rules, the list or the limiter that denied the request.
    pub(crate) fn violated_public(&self) -> Vec<&str> {
        let Decided::Ruling(ruling) = &self.0.decided else { return self.violated() };
        if self.is_allowed() {
            return Vec::new();
        }
        let mut denying =
            ruling.rules().filter(|of| !of.is_shadow() && !of.is_allowed()).peekable();
        match denying.peek() {
            Some(_) => denying.filter_map(|of| of.public_name()).collect(),
            None => ruling.public_rule().into_iter().collect(),
        }
    }

    /// The names of the rules, the list or the limiter that denied the request. Clients see their
    /// public names.
    pub fn violated(&self) -> Vec<&str> {
        if self.is_allowed() {
            return Vec::new();
        }
        let Decided::Ruling(ruling) = &self.0.decided else {
            return self.rule().into_iter().collect();
        };
        let denying = ruling.rules().filter(|of| !of.is_shadow() && !of.is_allowed());
        let denying: Vec<&str> = denying.map(|of| of.rule()).collect();
        if denying.is_empty() { self.rule().into_iter().collect() } else { denying }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("allowed", &self.is_allowed())
            .field("rule", &self.rule())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
