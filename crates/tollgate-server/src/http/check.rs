//! Checks, peeks and refunds.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, Uri};
use tokio::time::sleep;
use tollgate::Ruling;

use super::body::{Asked, AskedMany, parse};
use super::decision::{Decision, Refunded, Rules, tell, written_json};
use super::own::{LIMITS_EXAMPLE, none_of_its_own};
use super::problem::{Problem, cut};
use crate::app::App;
use crate::bounds::Bounds;
use crate::metrics::Transport;

pub(super) const EXAMPLE: &str = r#"{"attributes": {"user": "42"}, "cost": 1}"#;
const BATCH_LIMITS_EXAMPLE: &str = r#"{"requests": [{"key": "42", "limits": ["10/s burst 5"]}]}"#;
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

/// Where a query says nothing.
pub(super) fn no_query(uri: &Uri) -> Result<(), Problem> {
    match uri.query() {
        None | Some("") => Ok(()),
        Some(other) => {
            let detail = format!("unknown query {:?}, there is none here", cut(other));
            Err(Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

impl App {
    /// The answer to who has asked about a request.
    pub(super) fn answer(&self, ruling: &Ruling, denied: Denied) -> Response {
        let rules: Rules<'_> = ruling.rules().collect();
        let fields = self.settings.style.for_rules(ruling, &rules, self.backend.clock());
        let mut response = match denied {
            Denied::Enforced if !ruling.is_allowed() => self.refusal(ruling, &fields).response(),
            _ => Decision::new(ruling, &rules).response(),
        };
        tell(response.headers_mut(), &fields);
        response
    }
}

/// `POST /v1/check`, as a router hands it on.
pub(super) async fn routed(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let too_late = sleep(app.settings.bounds.body_time);
    check(&app, &uri, (body, too_late)).await
}

/// Checks one request, if its body is there before it is too late. What a store elsewhere must be
/// waited for is in boxes, so that a check in memory moves little.
pub(super) async fn check<B>(
    app: &App,
    uri: &Uri,
    (body, too_late): (B, impl Future<Output = ()>),
) -> Response
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let checked = async {
        let denied = Denied::of(uri)?;
        let body = app.body_until(body, app.settings.bounds.body, too_late).await?;
        let asked = one(&body, &app.settings.bounds)?;
        if let Some(own) = app.own(&asked)? {
            let listed = Box::pin(app.check_own(&own)).await;
            return Ok(app.answer_own(&listed, denied));
        }
        let request = asked.request();
        let ruling = match app.backend.check_now(&request) {
            Some(ruling) => ruling,
            None => Box::pin(app.backend.check(&request)).await,
        };
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

pub(super) async fn batch(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let checked = async {
        no_query(&uri)?;
        let body = app.body(body).await?;
        let example = |of: Problem| match brings_limits(&body) {
            true => of.example(BATCH_LIMITS_EXAMPLE),
            false => of,
        };
        let asked: AskedMany<'_> = parse(&body, BATCH_EXAMPLE).map_err(example)?;
        let bounds = &app.settings.bounds;
        let requests = asked.requests.within(bounds).map_err(|of| of.example(BATCH_EXAMPLE))?;
        for asked in &requests {
            asked.check(bounds).map_err(|of| of.example(BATCH_EXAMPLE))?;
            not_reserving(asked)?;
        }
        let owns: Vec<_> = requests.iter().map(|of| app.own(of)).collect::<Result<_, _>>()?;
        // Written one by one: all of them at once would take many times as much.
        let mut written = br#"{"decisions":["#.to_vec();
        let mut turns = BatchTurns::default();
        for (number, (asked, own)) in requests.iter().zip(&owns).enumerate() {
            if number > 0 {
                turns.take(asked.size()).await;
                written.push(b',');
            }
            if let Some(own) = own {
                Decision::of_own(&app.check_own(own).await).write(&mut written);
                continue;
            }
            let request = asked.request();
            let ruling = app.backend.check(&request).await;
            app.decided(Transport::Http, &request, &ruling);
            let rules: Rules<'_> = ruling.rules().collect();
            Decision::new(&ruling, &rules).write(&mut written);
        }
        written.extend_from_slice(b"]}");
        Ok(written_json(written))
    };
    checked.await.unwrap_or_else(|problem| app.bad(&problem))
}

pub(super) async fn refund(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let refunded = async {
        no_query(&uri)?;
        let body = app.body(body).await?;
        let asked = one(&body, &app.settings.bounds).map_err(|of| of.example(EXAMPLE))?;
        none_of_its_own(&asked)?;
        let request = asked.request();
        app.backend.refund(&request).await.map_err(|error| Problem::store_away(&error))?;
        // How much that was cannot be told: each rule is given back to until it is full.
        Ok(Refunded::new(&app.backend.status(&request).await).response())
    };
    refunded.await.unwrap_or_else(|problem| app.bad(&problem))
}

/// Lets other tasks of the thread run between the requests of a batch: after each large one, and
/// after some small ones.
#[derive(Debug, Default)]
struct BatchTurns {
    bytes: usize,
}

impl BatchTurns {
    /// How many bytes of requests are decided before other tasks run.
    const MAX_BYTES: usize = 4096;

    /// Counts a request of so many bytes, and yields if it is time to.
    async fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= BatchTurns::MAX_BYTES {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

fn one<'b>(body: &'b [u8], bounds: &Bounds) -> Result<Asked<'b>, Problem> {
    let example = |of: Problem| match brings_limits(body) {
        true => of.example(LIMITS_EXAMPLE),
        false => of.example(EXAMPLE),
    };
    let asked: Asked<'_> = parse(body, EXAMPLE).map_err(example)?;
    asked.check(bounds).map_err(example)?;
    not_reserving(&asked)?;
    Ok(asked)
}

/// Whether a body that may be wrong is about limits of its own: then those are shown.
fn brings_limits(body: &[u8]) -> bool {
    let name = br#""limits""#;
    body.windows(name.len()).any(|part| part == name)
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn batch_yields_after_a_large_request_and_after_some_small_ones() {
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = BatchTurns::default();
        let mut yields = |bytes| pin!(turns.take(bytes)).poll(&mut context) == Poll::Pending;
        assert!(yields(BatchTurns::MAX_BYTES));
        let small = (0..200).filter(|_| yields(100)).count();
        assert_eq!(small, 200 / BatchTurns::MAX_BYTES.div_ceil(100));
    }
}
