//! The layer asks the allocator for nothing where a request is allowed and headers are off.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use tollgate::{Dialect, Gate, Limit, Limiter, Policy, Rule};
use tollgate_tower::{ClientIp, GateLayer, IfMissing, PeerAddr, Source};
use tower::{Layer, Service};

thread_local! {
    /// How often this thread has asked.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A service that answers at once, and asks for nothing.
#[derive(Clone)]
struct Hello;

impl Service<Request<Full<Bytes>>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        // The request is not dropped here: freeing it is not the layer's work.
        std::mem::forget(request);
        ready(Ok(Response::new(Full::default())))
    }
}

fn request() -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    let peer = SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), 4000);
    request.extensions_mut().insert(PeerAddr(peer));
    request.headers_mut().insert("x-user", HeaderValue::from_static("ana"));
    request
}

/// How often a request that is served asks the allocator, on its way through the layer.
fn allocations(layer: &GateLayer) -> u64 {
    let mut service = layer.layer(Hello);
    let mut once = || {
        let request = request();
        let before = ASKED.get();
        let mut future = pin!(service.call(request));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(response)) = future.as_mut().poll(&mut context) else {
            panic!("the service answers at once");
        };
        let asked = ASKED.get() - before;
        assert_eq!(black_box(&response).status().as_u16(), 200);
        asked
    };
    // The first request adds its keys.
    once();
    once()
}

fn by_limiter() -> tollgate_tower::GateLayerBuilder {
    let limiter = Limiter::new(Limit::per_hour(1000)).expect("the limit is possible");
    GateLayer::builder(limiter).client_ip(ClientIp::peer())
}

#[test]
fn a_request_allowed_by_a_limiter_allocates_nothing() {
    let layer = by_limiter().headers(Dialect::Off).without_extension().build().unwrap();
    assert_eq!(allocations(&layer), 0);
}

#[test]
fn a_request_allowed_by_three_rules_of_a_gate_allocates_nothing() {
    let limit = || Limit::per_hour(1000);
    let policy = Policy::new()
        .rule(Rule::new("per-user").key(["user"]).limit(limit()))
        .rule(Rule::new("per-address").key(["ip", "method"]).limit(limit()))
        .rule(Rule::new("everybody").limit(limit()));
    let layer = GateLayer::builder(Gate::new(policy).unwrap())
        .client_ip(ClientIp::peer())
        .method()
        .attribute("user", Source::header("x-user").unwrap(), IfMissing::Absent)
        .attribute("host", Source::host(), IfMissing::text("none"))
        .headers(Dialect::Off)
        .without_extension()
        .build()
        .unwrap();
    assert_eq!(allocations(&layer), 0);
}

#[test]
fn what_headers_and_the_extension_cost_is_counted() {
    let off = by_limiter().headers(Dialect::Off).build().unwrap();
    assert_eq!(allocations(&off), 2, "the answer, and its place in the map");
    let on = by_limiter().without_extension().build().unwrap();
    assert_eq!(allocations(&on), 5, "what is told, its two values, and the map they are put in");
    let numbers = by_limiter().headers(Dialect::XSeconds).without_extension().build().unwrap();
    assert_eq!(allocations(&numbers), 3, "the map, and the limit of a thousand");
}
