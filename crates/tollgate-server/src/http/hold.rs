//! Reservations: units that are taken now and settled by their number later.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate::{Ruling, Timestamp};
use tollgate_redis::{DetachedReservation, StoreError};

use super::body::{Asked, parse};
use super::check::{Denied, no_query};
use super::decision::{Decision, Rules, json, millis, tell, written_json};
use super::own::none_of_its_own;
use super::problem::{Problem, cut};
use super::segment;
use super::written::Object;
use crate::app::App;
use crate::backend::Held;
use crate::bounds::{HOLD_TIME, MAX_HOLD_TIME, MAX_HOLDS};
use crate::metrics::Transport;

const EXAMPLE: &str = r#"{"attributes": {"user": "42"}, "cost": 500, "timeout_ms": 30000}"#;
const SETTLE_EXAMPLE: &str = r#"{"actual": 120}"#;

/// The reservations that are open, found by numbers that nobody can guess.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// Nothing of those that a store elsewhere keeps: they are counted here.
    by_id: HashMap<u128, (Timestamp, Option<Box<Held>>)>,
    /// In the order in which they time out.
    by_end: BTreeSet<(Timestamp, u128)>,
}

impl Holds {
    /// How many are open now.
    pub(super) fn len(&self, now: Timestamp) -> usize {
        // Dropped with no lock held, since that locks the store.
        let _timed_out = self.take_timed_out(now);
        self.0.lock().by_id.len()
    }

    /// Counts one that is open until then; false where there is no room.
    fn begin(&self, id: u128, (now, until): (Timestamp, Timestamp)) -> bool {
        // Dropped with no lock held, since that locks the store.
        let _timed_out = self.take_timed_out(now);
        let mut open = self.0.lock();
        let has_room = open.by_id.len() < MAX_HOLDS;
        if has_room {
            open.by_end.insert((until, id));
            open.by_id.insert(id, (until, None));
        }
        has_room
    }

    /// Keeps it here; gives it back where it has timed out meanwhile.
    fn keep(&self, id: u128, held: Held) -> Option<Held> {
        match self.0.lock().by_id.get_mut(&id) {
            Some((_, place)) => {
                *place = Some(Box::new(held));
                None
            }
            None => Some(held),
        }
    }

    /// Gives back all that is held, for the end: nobody can settle it any more, and whoever keeps the
    /// state would keep it charged for ever.
    pub(crate) async fn give_back(&self) {
        let open = std::mem::take(&mut *self.0.lock());
        // What a store elsewhere keeps is for another server to settle.
        for held in open.by_id.into_values().filter_map(|(_, held)| held) {
            // Where the store is away, it comes back when the hold times out.
            let _ = held.cancel().await;
        }
    }

    #[allow(clippy::vec_box, reason = "they are boxed already, and large")]
    fn take_timed_out(&self, now: Timestamp) -> Vec<Box<Held>> {
        let mut open = self.0.lock();
        let mut timed_out = Vec::new();
        while let Some(&(until, id)) = open.by_end.first().filter(|(until, _)| *until <= now) {
            open.by_end.remove(&(until, id));
            timed_out.extend(open.by_id.remove(&id).and_then(|(_, held)| held));
        }
        timed_out
    }

    /// The reservation of that number, if it is still open and kept here: nobody else gets it then.
    fn take(&self, id: u128, now: Timestamp) -> Option<Box<Held>> {
        let _timed_out = self.take_timed_out(now);
        let mut open = self.0.lock();
        let (until, held) = open.by_id.remove(&id)?;
        open.by_end.remove(&(until, id));
        held
    }
}

/// A reservation to be ended.
enum Ending {
    Here(Box<Held>),
    /// Whichever server made it.
    Kept(DetachedReservation),
}

impl Ending {
    fn cost(&self) -> u64 {
        match self {
            Ending::Here(held) => held.cost(),
            Ending::Kept(hold) => hold.cost(),
        }
    }

    async fn commit(self) -> Result<(), StoreError> {
        match self {
            Ending::Here(held) => held.commit().await,
            Ending::Kept(hold) => hold.commit().await,
        }
    }

    async fn cancel(self) -> Result<(), StoreError> {
        match self {
            Ending::Here(held) => held.cancel().await,
            Ending::Kept(hold) => hold.cancel().await,
        }
    }

    async fn settle(self, actual: u64) -> Result<(), StoreError> {
        match self {
            Ending::Here(held) => held.settle(actual).await,
            Ending::Kept(hold) => hold.settle(actual).await,
        }
    }
}

#[derive(Serialize)]
struct Settled {
    reserved: u64,
    charged: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Actual {
    actual: u64,
}

/// The answer to who has reserved.
fn reserved(id: u128, timeout: Duration, ruling: &Ruling) -> Response {
    let mut written = Vec::new();
    let mut object = Object::begin(&mut written);
    object.text("id", format!("{id:032x}").as_str());
    object.number("timeout_ms", millis(timeout));
    let rules: Rules<'_> = ruling.rules().collect();
    Decision::new(ruling, &rules).write_to(&mut object);
    object.end();
    written_json(written)
}

pub(super) async fn reserve(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let reserved = async {
        let denied = Denied::of(&uri)?;
        let body = app.body(body).await?;
        let asked: Asked<'_> = parse(&body, EXAMPLE)?;
        asked.check(&app.settings.bounds).map_err(|over| over.example(EXAMPLE))?;
        none_of_its_own(&asked)?;
        let timeout = timeout(asked.timeout_ms)?;
        let now = app.backend.clock().now();
        let request = asked.request();
        let held = match app.backend.reserve(&request, timeout).await {
            Ok(held) => held,
            Err(ruling) => {
                app.decided(Transport::Http, &request, &ruling);
                return Ok(app.answer(&ruling, denied));
            }
        };
        app.decided(Transport::Http, &request, held.ruling());
        let id = new_id()?;
        let mut response = reserved(id, timeout, held.ruling());
        tell(response.headers_mut(), &app.fields(held.ruling()));
        if !app.holds.begin(id, (now, now.saturating_add(timeout))) {
            // Where the store is away, they come back when the hold times out.
            let _ = held.cancel().await;
            return Ok(too_many(&app));
        }
        app.keep(id, held, timeout.saturating_sub(app.backend.clock().now().saturating_since(now)))
            .await?;
        Ok(response)
    };
    reserved.await.unwrap_or_else(|problem: Problem| app.bad(&problem))
}

fn timeout(said: Option<u64>) -> Result<Duration, Problem> {
    let most = millis(MAX_HOLD_TIME);
    match said {
        None => Ok(HOLD_TIME),
        Some(timeout) if (1..=most).contains(&timeout) => Ok(Duration::from_millis(timeout)),
        Some(timeout) => {
            let detail = format!("\"timeout_ms\" is {timeout}, must be between 1 and {most}");
            Err(Problem::new(StatusCode::BAD_REQUEST, detail).example(EXAMPLE))
        }
    }
}

fn new_id() -> Result<u128, Problem> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the system gives no random numbers")
    })?;
    Ok(u128::from_ne_bytes(id))
}

fn too_many(app: &App) -> Response {
    crate::metrics::add(&app.metrics.holds_refused);
    let detail = format!("{MAX_HOLDS} reservations are open, settle some or try again later");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).response()
}

fn settled(ended: Result<(), StoreError>, settled: Settled) -> Response {
    match ended {
        Ok(()) => json(&settled),
        Err(error) => {
            let detail = format!(
                "{error}: the reservation is no longer open here, and what the store has not heard \
                 of comes back when it times out"
            );
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).response()
        }
    }
}

pub(super) async fn commit(State(app): State<Arc<App>>, uri: Uri) -> Response {
    if let Err(problem) = no_query(&uri) {
        return app.bad(&problem);
    }
    let id = segment(&uri, 3);
    let held = match app.take(id).await {
        Ok(held) => held,
        Err(refused) => return app.bad(&refused),
    };
    let reserved = held.cost();
    settled(held.commit().await, Settled { reserved, charged: reserved })
}

pub(super) async fn cancel(State(app): State<Arc<App>>, uri: Uri) -> Response {
    if let Err(problem) = no_query(&uri) {
        return app.bad(&problem);
    }
    let id = segment(&uri, 3);
    let held = match app.take(id).await {
        Ok(held) => held,
        Err(refused) => return app.bad(&refused),
    };
    let reserved = held.cost();
    settled(held.cancel().await, Settled { reserved, charged: 0 })
}

pub(super) async fn settle(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Response {
    let id = segment(&uri, 3);
    let settled = async {
        no_query(&uri)?;
        let body = app.body(body).await?;
        let Actual { actual } = parse(&body, SETTLE_EXAMPLE)?;
        // Not before it is known that the rest is right: who gets it wrong may try again.
        let held = app.take(id).await?;
        let reserved = held.cost();
        Ok(settled(held.settle(actual).await, Settled { reserved, charged: actual }))
    };
    settled.await.unwrap_or_else(|problem: Problem| app.bad(&problem))
}

impl App {
    /// Keeps what is held where it can be ended.
    async fn keep(&self, id: u128, held: Held, timeout: Duration) -> Result<(), Problem> {
        let kept = self.backend.keep(id, held, timeout).await;
        let here = kept.map_err(|error| {
            drop(self.holds.take(id, self.backend.clock().now()));
            Problem::store_away(&error)
        })?;
        // One that has timed out meanwhile is given back.
        drop(here.and_then(|held| self.holds.keep(id, held)));
        Ok(())
    }

    /// The reservation, which nobody else gets then.
    async fn take(&self, text: &str) -> Result<Ending, Problem> {
        let unknown = || {
            let detail = format!(
                "no reservation {:?} is open: it was settled, it timed out, or it never was",
                cut(text)
            );
            Problem::new(StatusCode::NOT_FOUND, detail)
        };
        let id = u128::from_str_radix(text, 16).map_err(|_| unknown())?;
        if let Some(held) = self.holds.take(id, self.backend.clock().now()) {
            return Ok(Ending::Here(held));
        }
        let kept = self.backend.take_kept(id).await.map_err(|error| Problem::store_away(&error))?;
        kept.map(Ending::Kept).ok_or_else(unknown)
    }
}
