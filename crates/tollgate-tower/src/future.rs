//! The future of an answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::GateBody;
use crate::fields::Told;
use crate::head::Head;
use crate::refuse::{self, Refused};
use crate::service::admit;
use crate::settings::{Pass, Settings};
use crate::tab::Tab;
use crate::wait::Wait;

pin_project! {
    /// The answer to a request, once it comes. Dropped before that, it settles what it holds and
    /// leaves the queue it waits in.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct GateFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        // With nothing held and nothing to tell: apart from the others, since it is the common one
        // and then needs no more than to pass on what the service says.
        Quiet {
            #[pin]
            future: S::Future,
        },
        Served {
            #[pin]
            future: S::Future,
            told: Told,
            tab: Option<Box<Tab>>,
        },
        Refused { response: Option<Response<Bytes>> },
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
    }
}

/// A request that waits, and the service it waits for.
struct Waiting<S, B> {
    wait: Wait,
    request: Request<B>,
    inner: S,
    settings: Arc<Settings>,
}

impl<S, B> GateFuture<S, B>
where
    S: Service<Request<B>>,
{
    #[inline]
    pub(crate) fn passing(future: S::Future, pass: Pass) -> GateFuture<S, B> {
        if pass.tab.is_none() && pass.told.is_nothing() {
            return GateFuture::quiet(future);
        }
        GateFuture { state: State::Served { future, told: pass.told, tab: pass.tab } }
    }

    /// [`passing`](Self::passing), with nothing held and nothing to tell.
    #[inline]
    pub(crate) fn quiet(future: S::Future) -> GateFuture<S, B> {
        GateFuture { state: State::Quiet { future } }
    }

    /// [`passing`](Self::passing), with nothing held.
    #[inline]
    pub(crate) fn served(future: S::Future, told: Told) -> GateFuture<S, B> {
        GateFuture { state: State::Served { future, told, tab: None } }
    }

    pub(crate) fn refused(response: Response<Bytes>) -> GateFuture<S, B> {
        GateFuture { state: State::Refused { response: Some(response) } }
    }

    pub(crate) fn waiting(
        wait: Wait,
        request: Request<B>,
        inner: S,
        settings: Arc<Settings>,
    ) -> GateFuture<S, B> {
        let waiting = Some(Box::new(Waiting { wait, request, inner, settings }));
        GateFuture { state: State::Waiting { waiting } }
    }
}

impl<S, B, R> Future for GateFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Body,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<GateBody<R>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        match state.as_mut().project() {
            StateProject::Quiet { future } => future.poll(context).map(plain),
            _ => state.poll_fully(context),
        }
    }
}

impl<S, B> State<S, B>
where
    S: Service<Request<B>>,
{
    /// [`poll`](Future::poll) where there is more to do than to pass on what the service says.
    fn poll_fully<R>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Response<GateBody<R>>, S::Error>>
    where
        S: Service<Request<B>, Response = Response<R>>,
        B: Body,
        R: Body<Data = Bytes>,
    {
        loop {
            let next = match self.as_mut().project() {
                StateProject::Quiet { future } => return future.poll(context).map(plain),
                StateProject::Served { future, told, tab } => {
                    let answer = ready!(future.poll(context));
                    return Poll::Ready(served(answer, std::mem::take(told), tab.take()));
                }
                StateProject::Refused { response } => {
                    // A future that is done and polled again never is: as all do, it stays pending.
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(GateBody::own)));
                }
                StateProject::Waiting { waiting } => {
                    let Some(open) = waiting else { return Poll::Pending };
                    let decided = ready!(open.wait.as_mut().poll(context));
                    let Some(waited) = waiting.take() else { return Poll::Pending };
                    let Waiting { mut request, mut inner, settings, .. } = *waited;
                    match decided {
                        Ok(mut pass) => {
                            admit(&mut request, &mut pass);
                            GateFuture::passing(inner.call(request), pass).state
                        }
                        Err(refusal) => {
                            let head = Head::of(&request);
                            let response = refuse::respond(&settings, &refusal, head);
                            State::Refused { response: Some(response) }
                        }
                    }
                }
            };
            self.set(next);
        }
    }
}

/// The service's answer, as it is.
#[inline]
fn plain<R, E>(answer: Result<Response<R>, E>) -> Result<Response<GateBody<R>>, E> {
    answer.map(|response| response.map(GateBody::plain))
}

/// The service's answer, with what the client is told, and settled.
fn served<R, E>(
    answer: Result<Response<R>, E>,
    told: Told,
    tab: Option<Box<Tab>>,
) -> Result<Response<GateBody<R>>, E> {
    let mut response = match answer {
        Ok(response) => response,
        Err(error) => {
            if let Some(tab) = tab {
                tab.failed();
            }
            return Err(error);
        }
    };
    if tab.is_none() && told.is_nothing() {
        return Ok(response.map(|body| GateBody::served(body, None)));
    }
    let meter = tab.and_then(|tab| tab.answered(&response));
    // Of a request that a layer beneath has refused, that layer tells.
    if response.extensions().get::<Refused>().is_none() {
        told.add(response.headers_mut());
    }
    Ok(response.map(|body| GateBody::served(body, meter)))
}

impl<S, B> fmt::Debug for GateFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Quiet { .. } | State::Served { .. } => "GateFuture(served)",
            State::Refused { .. } => "GateFuture(refused)",
            State::Waiting { .. } => "GateFuture(waiting)",
        })
    }
}
