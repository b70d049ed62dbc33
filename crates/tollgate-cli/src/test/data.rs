//! A test file's content, once it is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Client, Policy, Request, RuleLimits, Timestamp};

use super::expect::Expect;

/// The tests of one file.
pub(super) struct Suite {
    /// The file, as it was named.
    pub(super) file: String,
    /// Where it says that the state is kept, if it does.
    pub(super) store: Option<String>,
    pub(super) tests: Vec<Test>,
}

/// Steps on a gate that begins new.
pub(super) struct Test {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) policy: Arc<Policy>,
    /// The wall clock at the beginning.
    pub(super) start: Timestamp,
    pub(super) steps: Vec<Step>,
}

/// Something that is done, and what must come of it.
pub(super) struct Step {
    pub(super) line: usize,
    /// When, since the start.
    pub(super) at: Duration,
    pub(super) action: Action,
    /// How often it is done.
    pub(super) times: u64,
    /// Of the last time, but for `allowed_count`.
    pub(super) expect: Expect,
}

/// What is done.
pub(super) enum Action {
    Check(Ask),
    Peek(Ask),
    TakeUpTo(Ask),
    /// Takes units until `End` says how many were needed.
    Reserve {
        ask: Ask,
        id: String,
        timeout: Option<Duration>,
    },
    End {
        id: String,
        how: End,
    },
    Refund(Ask),
    Reset(Target),
    ResetAll,
    Block {
        target: Target,
        /// The rule's own where it is not said.
        length: Option<Duration>,
    },
    Unblock(Target),
    Override(Change),
    /// Another policy, or why its file was refused where the step expects that.
    Policy(Result<Arc<Policy>, String>),
}

/// A request as a file gives it.
pub(super) struct Ask {
    pub(super) attributes: Vec<(String, String)>,
    pub(super) cost: Said,
}

/// What a step says of its cost.
#[derive(Clone, Copy)]
pub(super) enum Said {
    Nothing,
    Units(u64),
    /// For steps that expect an error.
    Negative,
}

/// How a reservation ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Commit,
    Cancel,
    /// With what was really used; `None` where it is negative.
    Settle(Option<u64>),
}

/// Whose state is meant.
pub(super) enum Target {
    /// The request's key, in every rule that applies.
    Request(Ask),
    /// The request's key in one rule.
    RequestIn(String, Ask),
    /// A key of a rule.
    Key(String, Vec<String>),
    /// All keys of a rule.
    Rule(String),
}

/// An override that is set or removed.
pub(super) struct Change {
    pub(super) client: Client,
    pub(super) tier: Option<String>,
    pub(super) numbers: BTreeMap<String, RuleLimits>,
    pub(super) until: Option<Until>,
    pub(super) remove: bool,
}

/// When an override ends.
#[derive(Clone, Copy)]
pub(super) enum Until {
    At(Timestamp),
    /// So long after the start.
    After(Duration),
}

impl Ask {
    /// The request, where its cost can be one.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        match self.cost {
            Said::Nothing => Some(self.plain()),
            Said::Units(cost) => Some(self.of_cost(cost)),
            Said::Negative => None,
        }
    }

    pub(super) fn of_cost(&self, cost: u64) -> Request<'_> {
        self.plain().cost(cost)
    }

    fn plain(&self) -> Request<'_> {
        let pairs = self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.collect()
    }
}

impl Action {
    /// The word for it in a file.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Action::Check(_) => "check",
            Action::Peek(_) => "peek",
            Action::TakeUpTo(_) => "take_up_to",
            Action::Reserve { .. } => "reserve",
            Action::End { how: End::Commit, .. } => "commit",
            Action::End { how: End::Cancel, .. } => "cancel",
            Action::End { how: End::Settle(_), .. } => "settle",
            Action::Refund(_) => "refund",
            Action::Reset(_) => "reset",
            Action::ResetAll => "reset_all",
            Action::Block { .. } => "block",
            Action::Unblock(_) => "unblock",
            Action::Override(_) => "override",
            Action::Policy(_) => "policy",
        }
    }

    /// The attributes of the request that is made or meant.
    pub(super) fn attributes(&self) -> &[(String, String)] {
        match self {
            Action::Check(ask) | Action::Peek(ask) | Action::TakeUpTo(ask) => &ask.attributes,
            Action::Reserve { ask, .. } | Action::Refund(ask) => &ask.attributes,
            Action::Reset(target) | Action::Unblock(target) | Action::Block { target, .. } => {
                target.ask().map_or(&[], |ask| &ask.attributes)
            }
            _ => &[],
        }
    }
}

impl Target {
    /// The request by which it is named, if it is.
    pub(super) fn ask(&self) -> Option<&Ask> {
        match self {
            Target::Request(ask) | Target::RequestIn(_, ask) => Some(ask),
            Target::Key(..) | Target::Rule(_) => None,
        }
    }
}
