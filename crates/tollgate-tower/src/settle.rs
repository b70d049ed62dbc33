//! Settling: what a request is charged in the end, once its answer is known.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Extensions, HeaderMap, HeaderName, StatusCode};

use crate::error::LayerError;

/// What a request is charged in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bill {
    /// What was taken before it was served.
    Estimate,
    /// Nothing: all of it is given back.
    Nothing,
    /// So many units: the difference is given back, or taken, into debt if it is not there.
    Units(u64),
}

/// How the answer decides what a request is charged.
///
/// ```
/// use tollgate_tower::{Bill, Settle};
///
/// let failed_logins_only = Settle::only_failures();
/// let tokens = Settle::by_header("x-tokens-used")?;
/// let own = Settle::by_response(|answer| match answer.status().as_u16() {
///     200..=299 => Bill::Estimate,
///     402 => Bill::Units(5),
///     _ => Bill::Nothing,
/// });
/// # Ok::<(), tollgate_tower::LayerError>(())
/// ```
#[derive(Clone)]
pub struct Settle(pub(crate) By);

#[derive(Clone)]
pub(crate) enum By {
    Response(Closure),
    Bytes { per_unit: u64 },
    Handler,
}

type Closure = Arc<dyn Fn(&AnswerHead<'_>) -> Bill + Send + Sync>;

impl Settle {
    /// By the head of the answer. A service that fails without an answer counts as status 500.
    /// Should the function panic, what was taken stays taken.
    pub fn by_response(bill: impl Fn(&AnswerHead<'_>) -> Bill + Send + Sync + 'static) -> Settle {
        Settle(By::Response(Arc::new(bill)))
    }

    /// Only requests that fail count, those with a status of 400 or more: failed logins.
    pub fn only_failures() -> Settle {
        Settle::by_response(|answer| match answer.status().as_u16() {
            400.. => Bill::Estimate,
            _ => Bill::Nothing,
        })
    }

    /// Requests that the server fails do not count: those with a status of 500 or more.
    pub fn except_server_errors() -> Settle {
        Settle::by_response(|answer| match answer.status().as_u16() {
            500.. => Bill::Nothing,
            _ => Bill::Estimate,
        })
    }

    /// As many units as a header of the answer says; the estimate where it is missing or says no
    /// number.
    ///
    /// # Errors
    /// Where the name is none.
    pub fn by_header(name: &str) -> Result<Settle, LayerError> {
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| LayerError::HeaderName(name.into()))?;
        Ok(Settle::by_response(move |answer| {
            let said = answer.headers().get(&known).and_then(|value| value.to_str().ok());
            said.and_then(|text| text.parse().ok()).map_or(Bill::Estimate, Bill::Units)
        }))
    }

    /// A unit for every `per_unit` bytes of the answer's body that were sent, rounded up. What
    /// outgrows the estimate is charged while it is sent, so that an answer without end pays.
    pub fn by_bytes_sent(per_unit: u64) -> Settle {
        Settle(By::Bytes { per_unit })
    }

    /// What the handler says through the [`Usage`] in the request's extensions, by the time the
    /// body of the answer has been sent; the estimate if it says nothing.
    pub fn by_handler() -> Settle {
        Settle(By::Handler)
    }
}

impl fmt::Debug for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            By::Response(_) => "ByResponse",
            By::Bytes { .. } => "ByBytesSent",
            By::Handler => "ByHandler",
        })
    }
}

/// What an answer says before its body.
#[derive(Clone, Copy)]
pub struct AnswerHead<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> AnswerHead<'r> {
    pub(crate) fn new(
        status: StatusCode,
        headers: &'r HeaderMap,
        extensions: &'r Extensions,
    ) -> AnswerHead<'r> {
        AnswerHead { status, headers, extensions }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// What the service has put beside the answer.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get::<T>()
    }
}

impl fmt::Debug for AnswerHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerHead").field("status", &self.status).finish_non_exhaustive()
    }
}

/// How a handler says what it really used: an extension of the request where the layer settles
/// [`by_handler`](Settle::by_handler). Clones say it to the same layer.
///
/// What it says counts until the body of the answer has been sent, so that a stream can go on
/// adding; what outgrows the estimate is charged while it is sent.
#[derive(Clone, Debug)]
pub struct Usage(Arc<AtomicU64>);

/// Nothing was said.
const UNSAID: u64 = u64::MAX;

impl Usage {
    pub(crate) fn new() -> Usage {
        Usage(Arc::new(AtomicU64::new(UNSAID)))
    }

    /// So many units were used in all; replaces what was said before.
    pub fn set(&self, units: u64) {
        self.0.store(units.min(UNSAID - 1), Ordering::Relaxed);
    }

    /// So many more units were used.
    pub fn add(&self, units: u64) {
        let more = |said| Some(if said == UNSAID { units } else { units.saturating_add(said) });
        // Relaxed: nothing else hangs on it. The update never refuses.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |said| {
            more(said).map(|units| units.min(UNSAID - 1))
        });
    }

    /// What was said.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|units| *units != UNSAID)
    }
}
