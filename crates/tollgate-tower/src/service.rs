//! The service: decides, then calls the one beneath.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tollgate::Decision;
use tower_service::Service;

use crate::body::GateBody;
use crate::door::Decided;
use crate::express::Passage;
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

    #[inline]
    fn call(&mut self, request: Request<B>) -> GateFuture<S, B> {
        if let Some(express) = &self.settings.express
            && express.is_quiet()
        {
            let mut decision = None;
            match (express.pass(&request, &mut decision), &decision) {
                (Passage::AtOnce, _) => return GateFuture::quiet(self.inner.call(request)),
                (Passage::Decided, Some(decision)) => return self.conclude(request, decision),
                (Passage::Decided, None) | (Passage::Unknown, _) => {}
            }
        }
        self.call_fully(request)
    }
}

impl<S> GateService<S> {
    /// [`call`](Service::call) where there is more to do than to go ahead.
    #[inline(never)]
    fn call_fully<B: Body>(&mut self, mut request: Request<B>) -> GateFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        if let Some(express) = &self.settings.express
            && !express.is_quiet()
            && let Some(decision) = &express.check(&request)
        {
            // Looked at where it lies: a copy of what was just written would wait for it.
            if !decision.is_allowed() || !decision.delay().is_zero() {
                return self.conclude(request, decision);
            }
            let told = express.told(decision);
            return GateFuture::served(self.inner.call(request), told);
        }
        let head = Head::of(&request);
        if self.settings.skips(&head) {
            return GateFuture::passing(self.inner.call(request), Pass::free());
        }
        let Some(local) = self.settings.at_once() else {
            return match wait::begin(&self.settings, &head) {
                Ok(wait) => self.wait(request, wait),
                Err(refusal) => self.refuse(&request, &refusal),
            };
        };
        match self.settings.decide(local, &head) {
            Ok(mut pass) if pass.delay.is_zero() => {
                admit(&mut request, &mut pass);
                GateFuture::passing(self.inner.call(request), pass)
            }
            Ok(pass) => self.wait(request, wait::turn(pass)),
            Err(refusal) => self.refuse(&request, &refusal),
        }
    }

    /// What follows from a limiter's decision where the request does not go ahead at once.
    #[cold]
    fn conclude<B: Body>(&mut self, request: Request<B>, decision: &Decision) -> GateFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        match self.settings.conclude(Decided::Decision(*decision), None) {
            Ok(pass) => self.wait(request, wait::turn(pass)),
            Err(refusal) => self.refuse(&request, &refusal),
        }
    }

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
