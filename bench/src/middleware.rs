//! The layer in front of a service, beside the same by hand and beside tower_governor.
//!
//! Every contender makes the same request, with the peer's address where axum's server puts it, and
//! calls the same service, which does nothing; what the service costs alone is taken off.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderValue, Request, Response};
use tollgate::{Dialect, Gate, HeaderStyle, Limit, Limiter, Policy, Rule};
use tollgate_tower::{ClientIp, GateLayer, GateLayerBuilder};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::measure::{Pace, interleave, quantile};
use crate::peers::Run;
use crate::stream::{RequestKey, Spread, Stream};

const KEYS: usize = 1000;

/// A service that does nothing.
#[derive(Clone)]
struct Hello;

impl Service<Request<Body>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        black_box(&request);
        ready(Ok(Response::new(Body::empty())))
    }
}

/// A request of a client, with its address where axum's server puts it.
fn request(client: u64) -> Request<Body> {
    let address = Ipv4Addr::from(0x0a00_0000 | u32::try_from(client % (1 << 24)).unwrap_or(0));
    let peer = SocketAddr::new(IpAddr::V4(address), 4000);
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

fn answer<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the service answers at once"),
    }
}

/// A service that is called, however it is made.
struct Called<S>(S);

impl<S, B> Run for Called<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Debug> + Clone + Send + Sync,
{
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        let mut service = self.0.clone();
        for client in &u64::of(stream)[range] {
            let response = answer(service.call(request(*client))).expect("it does not fail");
            assert!(response.status().is_success());
            black_box(&response);
        }
    }
}

/// `Gate::check` and the headers, without a layer.
struct ByHand {
    gate: Gate,
    style: Option<HeaderStyle>,
}

thread_local! {
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Run for ByHand {
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        let mut service = Hello;
        for client in &u64::of(stream)[range] {
            let request = request(*client);
            let found = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let ConnectInfo(peer) = found.expect("it was put there");
            let ruling = TEXT.with_borrow_mut(|text| {
                use std::fmt::Write;
                text.clear();
                write!(text, "{}", peer.ip()).expect("writing to a string does not fail");
                self.gate.check(&tollgate::Request::new().with("ip", text))
            });
            assert!(ruling.is_allowed());
            let mut response = answer(service.call(request)).expect("it does not fail");
            if let Some(style) = self.style {
                let fields = style.for_ruling(&ruling, self.gate.store().clock());
                for (name, value) in fields.iter() {
                    let value = HeaderValue::from_str(value).expect("it is plain text");
                    response.headers_mut().insert(name, value);
                }
            }
            black_box(&response);
        }
    }
}

fn limit() -> Limit {
    Limit::per_second(1).burst(1_000_000_000)
}

fn gate() -> Gate {
    let policy = Policy::new().rule(Rule::new("per-address").key(["ip"]).limit(limit()));
    Gate::new(policy).expect("the policy is right")
}

fn layered(builder: GateLayerBuilder) -> Box<dyn Run> {
    let layer = builder.client_ip(ClientIp::peer()).build().expect("the layer is right");
    Box::new(Called(layer.layer(Hello)))
}

fn contenders() -> Vec<(&'static str, Box<dyn Run>)> {
    let by_gate = || GateLayer::builder(gate());
    let by_limiter = || GateLayer::builder(Limiter::new(limit()).expect("the limit is possible"));
    let by_hand = |style| Box::new(ByHand { gate: gate(), style }) as Box<dyn Run>;
    let draft_11 = HeaderStyle::new();
    vec![
        ("the service alone", Box::new(Called(Hello))),
        ("by hand: Gate::check", by_hand(None)),
        ("by hand: Gate::check and headers", by_hand(Some(draft_11))),
        ("layer, Gate, no headers", layered(by_gate().headers(Dialect::Off).without_extension())),
        ("layer, Gate, x-headers", layered(by_gate().headers(Dialect::XSeconds).without_extension())),
        ("layer, Gate, headers", layered(by_gate().without_extension())),
        ("layer, Gate, headers, extension", layered(by_gate())),
        (
            "layer, Limiter, no headers",
            layered(by_limiter().headers(Dialect::Off).without_extension()),
        ),
        (
            "layer, Limiter, x-headers",
            layered(by_limiter().headers(Dialect::XSeconds).without_extension()),
        ),
        ("layer, Limiter, headers", layered(by_limiter().without_extension())),
        ("tower_governor, no headers", governor()),
        ("tower_governor, x-headers", governor_with_headers()),
    ]
}

fn governor() -> Box<dyn Run> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_second(1).burst_size(1_000_000_000).finish().expect("it is right");
    let layer = GovernorLayer::new(config);
    Box::new(Called(layer.layer(Hello)))
}

fn governor_with_headers() -> Box<dyn Run> {
    let mut config = GovernorConfigBuilder::default();
    let mut config = config.per_second(1).burst_size(1_000_000_000).use_headers();
    let config = config.finish().expect("it is right");
    let layer = GovernorLayer::new(config);
    Box::new(Called(layer.layer(Hello)))
}

/// Runs one contender, for an instruction count: `valgrind --tool=callgrind`.
pub(crate) fn one(number: usize, requests: usize) {
    let stream = Stream::sample(KEYS, requests);
    let (name, contender) = contenders().into_iter().nth(number).expect("there is such a row");
    contender.run(&stream, 0..requests);
    println!("{name}: {requests} requests");
}

/// Prints what each contender adds to the service.
pub(crate) fn run(pace: &Pace) {
    let stream = Stream::new(KEYS, Spread::Uniform);
    let contenders = contenders();
    let runs: Vec<&dyn Run> = contenders.iter().map(|(_, run)| &**run).collect();
    let nanos = interleave(&runs, &stream, 1, pace);
    let over = |index: usize, round: usize| (nanos[index][round] - nanos[0][round]).max(0.1);
    let ratio = |index: usize, to: usize| {
        let ratios: Vec<f64> =
            (0..pace.rounds).map(|round| over(index, round) / over(to, round)).collect();
        [0.1, 0.5, 0.9].map(|share| quantile(&ratios, share))
    };
    println!("What a layer adds to a service, one rule, 1 k clients, one thread");
    println!("{:<36} {:>7} {:>9}", "", "ns", "added ns");
    for (index, (name, _)) in contenders.iter().enumerate() {
        let rounds: Vec<f64> = (0..pace.rounds).map(|round| over(index, round)).collect();
        let added = if index == 0 { 0.0 } else { quantile(&rounds, 0.5) };
        println!("{name:<36} {:>7.1} {added:>9.1}", quantile(&nanos[index], 0.5));
    }
    println!();
    let goals = [
        ("layer with headers / Gate::check and headers by hand, at most 1.5", 5, 2),
        ("layer without headers / Gate::check by hand", 3, 1),
        ("layer, Limiter / tower_governor, no headers, below 1", 7, 10),
        ("layer, Limiter / tower_governor, x-headers, below 1", 8, 11),
        ("layer, Gate / tower_governor, no headers", 3, 10),
        ("layer, Gate / tower_governor, x-headers", 4, 11),
    ];
    for (name, index, to) in goals {
        let [p10, median, p90] = ratio(index, to);
        println!("{name:<68} {median:>5.2}  ({p10:.2}-{p90:.2})");
    }
}
