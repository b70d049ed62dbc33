//! What a step came to, as figures with the names of `expect`.

use tollgate::{Reason, RuleDecision, Ruling};

use super::expect::Seen;
use super::value::Value;

impl Seen {
    /// The figures of a ruling.
    pub(super) fn of(ruling: &Ruling) -> Seen {
        let error = ruling.error().map(|error| error.to_string());
        Seen {
            figures: vec![
                ("allowed", Value::Flag(ruling.is_allowed())),
                ("remaining", Value::Number(ruling.remaining())),
                ("retry_after", Value::wait(ruling.retry_after())),
                ("reset_after", Value::Length(ruling.reset_after())),
                ("delay", Value::Length(ruling.delay())),
                ("limit", Value::Number(ruling.limit())),
                ("rule", Value::text(ruling.decided_by_name())),
                ("reason", Value::Text(reason(ruling.reason()).to_owned())),
                ("error", Value::text(error)),
            ],
            rules: ruling.rules().map(|rule| (rule.rule().to_owned(), figures(&rule))).collect(),
        }
    }

    /// What cannot even be asked.
    pub(super) fn refused(error: &str) -> Seen {
        Seen::default()
            .with("allowed", Value::Flag(false))
            .with("retry_after", Value::Never)
            .with("reason", Value::Text("error".to_owned()))
            .with("error", Value::Text(error.to_owned()))
    }

    /// Something was done that decides nothing; `stands` is how the request's keys are then.
    pub(super) fn done(stands: Option<&Ruling>) -> Seen {
        stands.map(Seen::of).unwrap_or_default().with("allowed", Value::Flag(true))
    }

    /// With another figure.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Seen {
        self.figures.retain(|(known, _)| *known != name);
        self.figures.push((name, value));
        self
    }
}

fn figures(rule: &RuleDecision<'_>) -> Vec<(&'static str, Value)> {
    vec![
        ("allowed", Value::Flag(rule.is_allowed())),
        ("remaining", Value::Number(rule.remaining())),
        ("retry_after", Value::wait(rule.retry_after())),
        ("reset_after", Value::Length(rule.reset_after())),
        ("delay", Value::Length(rule.delay())),
        ("limit", Value::Number(rule.limit())),
        ("shadow", Value::Flag(rule.is_shadow())),
        ("blocked", rule.blocked_for().map_or(Value::Nothing, Value::Length)),
    ]
}

/// The word for a reason in test files and JSON.
pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoRule => "no_rule",
        Reason::Limits => "limits",
        Reason::AllowList => "allow_list",
        Reason::DenyList => "deny_list",
        Reason::Blocked => "block",
        Reason::InvalidRequest => "error",
        _ => "other",
    }
}
