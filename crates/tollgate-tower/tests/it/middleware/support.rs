//! What the tests share.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use tollgate::{Gate, Limit, Limiter, ManualClock, MemoryStore, Policy};
use tollgate_tower::{ClientIp, GateBody, GateLayer, GateLayerBuilder, GateService, PeerAddr};
use tower::{Layer, Service, ServiceExt};

pub(crate) type Own = Full<Bytes>;

/// A limiter whose time stands still until it is moved.
pub(crate) fn limiter(limit: Limit) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(limit).clock(clock.clone()).build().unwrap(), clock)
}

/// A gate whose time stands still until it is moved.
pub(crate) fn gate(policy: Policy) -> (Gate, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    (Gate::with_store(store, policy).unwrap(), clock)
}

/// A layer that counts by the peer's address.
pub(crate) fn by_peer(limiter: &Limiter) -> GateLayerBuilder {
    GateLayer::builder(limiter.clone()).client_ip(ClientIp::peer())
}

/// A request from this peer.
pub(crate) fn from(peer: &str) -> Request<Own> {
    let peer = SocketAddr::new(peer.parse::<IpAddr>().unwrap(), 4000);
    let mut request = Request::new(Own::default());
    request.extensions_mut().insert(PeerAddr(peer));
    request
}

/// With a header.
pub(crate) fn with(mut request: Request<Own>, name: &'static str, value: &str) -> Request<Own> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// Sends a request through the layer to a handler.
pub(crate) async fn send<H, R>(
    layer: &GateLayer,
    handler: H,
    request: Request<Own>,
) -> Response<GateBody<R>>
where
    H: Fn(Request<Own>) -> Response<R> + Clone,
    R: Body<Data = Bytes>,
{
    let service = tower::service_fn(move |request| {
        let response = handler(request);
        async move { Ok::<_, Infallible>(response) }
    });
    layer.layer(service).oneshot(request).await.unwrap()
}

/// Sends a request to a handler that says "served".
pub(crate) async fn ask(layer: &GateLayer, request: Request<Own>) -> Response<GateBody<Own>> {
    send(layer, |_| Response::new(Full::from("served")), request).await
}

/// The status of the answer to a request.
pub(crate) async fn status(layer: &GateLayer, request: Request<Own>) -> StatusCode {
    ask(layer, request).await.status()
}

/// A header of an answer.
pub(crate) fn header<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// The body of an answer, as text.
pub(crate) async fn text<B>(response: Response<B>) -> String
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Polls a service's future once: whether it is ready.
pub(crate) async fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    let poll = std::future::poll_fn(|context| {
        Poll::Ready(Pin::new(&mut *future).poll(context).is_ready())
    });
    poll.await
}

/// A service whose handler never answers.
pub(crate) fn hanging(
    layer: &GateLayer,
) -> GateService<
    impl Service<Request<Own>, Response = Response<Own>, Error = Infallible, Future: Send>
    + Clone
    + use<>,
> {
    layer.layer(tower::service_fn(|_: Request<Own>| {
        std::future::pending::<Result<Response<Own>, Infallible>>()
    }))
}

/// A body that never ends: 100 bytes in every frame.
pub(crate) struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 100])))))
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
