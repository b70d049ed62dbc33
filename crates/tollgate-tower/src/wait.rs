//! Requests that have to wait: for attributes that are looked up, or for their turn.
//!
//! A client that goes away drops the future, and with it the place in the queue and what was held.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{AcquireError, Limiter, RequestError};

use crate::attribute::Later;
use crate::bounds::SHORTEST_RETRY;
use crate::door::{Asked, Behind, Decided, Local};
use crate::head::Head;
use crate::refuse::{Refusal, Why};
use crate::settings::{Pass, Patience, Settings, Values};
use crate::value::Value;

/// A wait for a decision.
pub(crate) type Wait = Pin<Box<dyn Future<Output = Result<Pass, Box<Refusal>>> + Send>>;

/// Begins the wait of a request.
pub(crate) fn begin(settings: &Arc<Settings>, head: &Head<'_>) -> Result<Wait, Box<Refusal>> {
    let values = settings.values(head)?;
    let cost = settings.units(head)?;
    let owned = values.into_iter().map(|value| value.map(Value::into_owned)).collect();
    let look_up = |attribute: &crate::attribute::Attribute| attribute.source.look_up(head);
    let later = settings.attributes.iter().map(look_up).collect();
    let settings = Arc::clone(settings);
    Ok(Box::pin(async move { decide(&settings, owned, later, cost).await }))
}

/// Waits the turn of a request that was decided.
pub(crate) fn turn(pass: Pass) -> Wait {
    Box::pin(async move {
        tokio::time::sleep(pass.delay).await;
        Ok(pass)
    })
}

async fn decide(
    settings: &Settings,
    mut values: Values<'static>,
    later: Vec<Option<Later>>,
    cost: Option<u64>,
) -> Result<Pass, Box<Refusal>> {
    let attributes = settings.attributes.iter();
    for ((attribute, value), later) in attributes.zip(&mut values).zip(later) {
        if let Some(later) = later {
            *value = match later.await {
                Some(said) => Some(Value::Owned(said)),
                None => settings.missing(attribute, None)?,
            };
        }
    }
    let asked = Asked { attributes: &settings.attributes, values: &values, cost };
    match (&settings.door.0, settings.wait.filter(|_| !settings.shadow)) {
        (Behind::Local(Local::Limiter(limiter)), Some(patience)) => {
            acquire(settings, limiter, &asked, patience).await
        }
        (_, patience) => queue(settings, &asked, patience).await,
    }
}

/// Waits for units of a limiter, first come, first served.
async fn acquire(
    settings: &Settings,
    limiter: &Limiter,
    asked: &Asked<'_>,
    patience: Patience,
) -> Result<Pass, Box<Refusal>> {
    let (key, units) = (asked.key(), asked.units());
    let turn =
        limiter.acquire(key).cost(units).timeout(patience.within).max_waiters(patience.queue);
    let error = match turn.await {
        Ok(decision) => {
            // Its turn has come: there is nothing left to wait for.
            let mut pass = settings.conclude(Decided::Decision(decision), None)?;
            pass.delay = Duration::ZERO;
            return Ok(pass);
        }
        Err(error) => error,
    };
    let stands = Decided::Decision(limiter.peek_n(key, units));
    let (why, retry_after) = match error {
        AcquireError::Cost(error) => (Why::Wrong(RequestError::Cost(error)), None),
        AcquireError::DeadlineExceeded { ready_after } => (Why::Limited, Some(ready_after)),
        _ => (Why::Limited, Some(stands.retry_after().unwrap_or_default().max(SHORTEST_RETRY))),
    };
    Err(settings.refuse(stands, why, retry_after))
}

async fn ask(settings: &Settings, asked: &Asked<'_>) -> Result<Pass, Box<Refusal>> {
    match &settings.door.0 {
        Behind::Local(local) => settings.ask(local, asked),
        #[cfg(feature = "redis")]
        Behind::Redis(gate) => crate::remote::ask(settings, gate, asked).await,
    }
}

#[cfg_attr(not(feature = "redis"), allow(clippy::unused_async, reason = "a store is waited for"))]
async fn peek(settings: &Settings, asked: &Asked<'_>) -> Decided {
    match &settings.door.0 {
        Behind::Local(local) => local.peek(asked),
        #[cfg(feature = "redis")]
        Behind::Redis(gate) => Decided::Ruling(gate.peek(&asked.request()).await),
    }
}

/// Decides, and waits for the turn that leaky queues give, if it comes soon enough.
async fn queue(
    settings: &Settings,
    asked: &Asked<'_>,
    patience: Option<Patience>,
) -> Result<Pass, Box<Refusal>> {
    let mut pass = ask(settings, asked).await?;
    if pass.delay.is_zero() {
        return Ok(pass);
    }
    if let Some(tab) = &mut pass.tab {
        tab.waits();
    }
    let late = patience.map_or(Duration::ZERO, |of| pass.delay.saturating_sub(of.within));
    if !late.is_zero() {
        drop(pass);
        let stands = peek(settings, asked).await;
        return Err(settings.refuse(stands, Why::Limited, Some(late)));
    }
    tokio::time::sleep(pass.delay).await;
    if let Some(tab) = &mut pass.tab {
        tab.goes_ahead(settings.if_cancelled);
    }
    Ok(pass)
}
