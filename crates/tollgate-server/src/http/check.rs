//! Checks, peeks and refunds.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Serialize;
use tollgate::Ruling;

use super::body::{Asked, AskedMany, parse};
use super::decision::{Decision, json, tell};
use super::own::none_of_its_own;
use super::problem::{Problem, cut};
use crate::app::App;
use crate::bounds::Bounds;
use crate::metrics::Transport;

pub(super) const EXAMPLE: &str = r#"{"attributes": {"user": "42"}, "cost": 1}"#;
const BATCH_EXAMPLE: &str = r#"{"requests": [{"attributes": {"user": "42"}, "cost": 1}]}"#;

/// What becomes of a request that is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The asker is told, with 200.
    Told,
    /// The answer is the refusal itself.
    Enforced,
}

impl Denied {
    /// As the query says.
    pub(super) fn of(uri: &Uri) -> Result<Denied, Problem> {
        match uri.query() {
            None | Some("" | "enforce=false") => Ok(Denied::Told),
            Some("enforce=true") => Ok(Denied::Enforced),
            Some(other) => {
                let detail = format!(
                    "unknown query {:?}, must be enforce=true or enforce=false",
                    cut(other)
                );
                Err(Problem::new(StatusCode::BAD_REQUEST, detail))
            }
        }
    }
}

#[derive(Serialize)]
struct Decisions {
    decisions: Vec<Decision>,
}

#[derive(Serialize)]
struct Refunded {
    refunded: u64,
}

impl App {
    /// The answer to who has asked about a request.
    pub(super) fn answer(&self, ruling: &Ruling, denied: Denied) -> Response {
        let fields = self.fields(ruling);
        let mut response = match denied {
            Denied::Enforced if !ruling.is_allowed() => self.refusal(ruling, &fields).response(),
            _ => json(&Decision::new(ruling)),
        };
        tell(response.headers_mut(), &fields);
        response
    }
}

pub(super) async fn check(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let checked = async {
        let denied = Denied::of(&uri)?;
        let body = app.body(body).await?;
        let asked = one(&body, &app.settings.bounds)?;
        if let Some(own) = app.own(&asked)? {
            return Ok(app.answer_own(&app.check_own(&own).await, denied));
        }
        let request = asked.request();
        let ruling = app.backend.check(&request).await;
        app.decided(Transport::Http, &request, &ruling);
        Ok(app.answer(&ruling, denied))
    };
    checked.await.unwrap_or_else(|problem| app.bad(&problem))
}

pub(super) async fn peek(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let peeked = async {
        let denied = Denied::of(&uri)?;
        let body = app.body(body).await?;
        let asked = one(&body, &app.settings.bounds)?;
        if let Some(own) = app.own(&asked)? {
            return Ok(app.answer_own(&app.peek_own(&own).await, denied));
        }
        let ruling = app.backend.peek(&asked.request()).await;
        Ok(app.answer(&ruling, denied))
    };
    peeked.await.unwrap_or_else(|problem| app.bad(&problem))
}

pub(super) async fn batch(State(app): State<Arc<App>>, body: Body) -> Response {
    let checked = async {
        let body = app.body(body).await?;
        let asked: AskedMany<'_> = parse(&body, BATCH_EXAMPLE)?;
        let bounds = &app.settings.bounds;
        let requests = asked.requests.within(bounds).map_err(|of| of.example(BATCH_EXAMPLE))?;
        for asked in &requests {
            asked.check(bounds).map_err(|of| of.example(BATCH_EXAMPLE))?;
            not_reserving(asked)?;
        }
        let owns: Vec<_> = requests.iter().map(|of| app.own(of)).collect::<Result<_, _>>()?;
        let mut decisions = Vec::with_capacity(requests.len());
        for (asked, own) in requests.iter().zip(&owns) {
            if let Some(own) = own {
                decisions.push(Decision::of_own(&app.check_own(own).await));
                continue;
            }
            let request = asked.request();
            let ruling = app.backend.check(&request).await;
            app.decided(Transport::Http, &request, &ruling);
            decisions.push(Decision::new(&ruling));
        }
        Ok(json(&Decisions { decisions }))
    };
    checked.await.unwrap_or_else(|problem| app.bad(&problem))
}

pub(super) async fn refund(State(app): State<Arc<App>>, body: Body) -> Response {
    let refunded = async {
        let body = app.body(body).await?;
        let asked = one(&body, &app.settings.bounds)?;
        none_of_its_own(&asked)?;
        let request = asked.request();
        app.backend.refund(&request).await.map_err(|error| Problem::store_away(&error))?;
        Ok(json(&Refunded { refunded: request.units() }))
    };
    refunded.await.unwrap_or_else(|problem| app.bad(&problem))
}

fn one<'b>(body: &'b [u8], bounds: &Bounds) -> Result<Asked<'b>, Problem> {
    let asked: Asked<'_> = parse(body, EXAMPLE)?;
    asked.check(bounds).map_err(|over| over.example(EXAMPLE))?;
    not_reserving(&asked)?;
    Ok(asked)
}

fn not_reserving(asked: &Asked<'_>) -> Result<(), Problem> {
    match asked.timeout_ms {
        None => Ok(()),
        Some(_) => {
            let detail = "\"timeout_ms\" is of reservations, see /v1/reserve";
            Err(Problem::new(StatusCode::BAD_REQUEST, detail).example(EXAMPLE))
        }
    }
}
