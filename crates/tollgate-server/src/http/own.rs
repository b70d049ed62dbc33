//! Limits that a request brings with it.

use axum::response::Response;
use http::StatusCode;
use tollgate::{Decision as Decided, Outcome};

use super::body::{Asked, Own};
use super::check::{Denied, EXAMPLE};
use super::decision::{Decision, tell};
use super::problem::Problem;
use crate::app::App;
use crate::client_limits::{ClientLimiter, ClientLimits, Listed};
use crate::metrics::Transport;

pub(super) const LIMITS_EXAMPLE: &str =
    r#"{"key": "42", "limits": ["10/s burst 5", "1000/h"], "cost": 1}"#;

/// A request with limits of its own, which are known to be right.
pub(super) struct Ready<'a> {
    own: Own<'a>,
    limiters: Vec<ClientLimiter>,
}

impl App {
    /// The limits that the request brings, if it does; nothing is taken yet.
    pub(super) fn own<'a>(&self, asked: &'a Asked<'_>) -> Result<Option<Ready<'a>>, Problem> {
        let wrong = |detail| Problem::new(StatusCode::BAD_REQUEST, detail).example(LIMITS_EXAMPLE);
        let Some(own) = asked.own().map_err(wrong)? else { return Ok(None) };
        let limiters = self.limits.listed(own.limits).map_err(wrong)?;
        Ok(Some(Ready { own, limiters }))
    }

    pub(super) async fn check_own(&self, ready: &Ready<'_>) -> Listed {
        let listed = self.limits.check(&ready.limiters, ready.own.key, ready.own.cost).await;
        let counts = self.metrics.client_limits(Transport::Http);
        let is_error = |(_, of): &(_, Decided)| matches!(of.outcome(), Outcome::Invalid(_));
        let error = listed.each.iter().find(|of| is_error(of));
        let outcome = match (listed.allowed, error) {
            (true, _) => Outcome::Allowed,
            (false, Some((_, error))) => error.outcome(),
            (false, None) => Outcome::Denied,
        };
        counts.decided(outcome, listed.degraded);
        if let Some((_, decision)) = listed.deciding() {
            let of = (Transport::Http, ready.own.cost);
            self.watch_own(of, decision, |seen| seen(&[("key", ready.own.key)]));
        }
        listed
    }

    pub(super) async fn peek_own(&self, ready: &Ready<'_>) -> Listed {
        ClientLimits::peek(&ready.limiters, ready.own.key, ready.own.cost).await
    }

    /// The answer to who brought limits.
    pub(super) fn answer_own(&self, listed: &Listed, denied: Denied) -> Response {
        let Some((limit, decision)) = listed.deciding() else {
            // There is at least one, or it would not have been read.
            return Decision::of_own(listed).response();
        };
        let (style, name) = (&self.settings.style, limit.to_string());
        let fields = style.for_decision((&name, limit), decision, self.backend.clock());
        let mut response = match denied {
            Denied::Enforced if !listed.allowed => {
                Problem::of_own(listed, decision, &fields, style.verbosity()).response()
            }
            _ => Decision::of_own(listed).response(),
        };
        tell(response.headers_mut(), &fields);
        response
    }
}

/// Where limits of one's own are not for.
pub(super) fn none_of_its_own(asked: &Asked<'_>) -> Result<(), Problem> {
    let wrong = |detail| Problem::new(StatusCode::BAD_REQUEST, detail).example(EXAMPLE);
    match asked.own().map_err(&wrong)? {
        None => Ok(()),
        Some(_) => {
            let detail = "\"limits\" are for /v1/check, /v1/check/batch and /v1/peek";
            Err(wrong(detail.to_owned()))
        }
    }
}
