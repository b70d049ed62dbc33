//! The service: decides, then calls the one beneath.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::body::GateBody;
use crate::future::GateFuture;
use crate::head::Head;
use crate::refuse::{self, Refusal};
use crate::settings::{Pass, Settings};
use crate::wait;

/// A service whose requests are limited, made by a [`GateLayer`](crate::GateLayer). Clones share
/// the limits.
#[derive(Clone, Debug)]
pub struct GateService<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> GateService<S> {
    pub(crate) fn new(inner: S, settings: Arc<Settings>) -> GateService<S> {
        GateService { inner, settings }
    }

    /// The service beneath.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for GateService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    B: Body,
    R: Body<Data = Bytes>,
{
    type Response = Response<GateBody<R>>;
    type Error = S::Error;
    type Future = GateFuture<S, B>;

    /// Charges nothing: only a request does.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> GateFuture<S, B> {
        let head = Head::of(&request);
        if self.settings.skips(&head) {
            return GateFuture::passing(self.inner.call(request), Pass::free());
        }
        if self.settings.waits() {
            return match wait::begin(&self.settings, &head) {
                Ok(wait) => self.wait(request, wait),
                Err(refusal) => self.refuse(&request, &refusal),
            };
        }
        match self.settings.decide(&head) {
            Ok(mut pass) if pass.delay.is_zero() => {
                admit(&mut request, &mut pass);
                GateFuture::passing(self.inner.call(request), pass)
            }
            Ok(pass) => self.wait(request, wait::turn(pass)),
            Err(refusal) => self.refuse(&request, &refusal),
        }
    }
}

impl<S> GateService<S> {
    fn refuse<B: Body>(&self, request: &Request<B>, refusal: &Refusal) -> GateFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        GateFuture::refused(refuse::respond(&self.settings, refusal, Head::of(request)))
    }

    fn wait<B>(&mut self, request: Request<B>, wait: wait::Wait) -> GateFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        // The one that was found ready goes with the request; its clone waits for the next.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        GateFuture::waiting(wait, request, inner, Arc::clone(&self.settings))
    }
}

/// Tells the request what was decided.
#[inline]
pub(crate) fn admit<B>(request: &mut Request<B>, pass: &mut Pass) {
    if let Some(answer) = pass.answer.take() {
        request.extensions_mut().insert(answer);
    }
    if let Some(usage) = pass.usage.take() {
        request.extensions_mut().insert(usage);
    }
}
