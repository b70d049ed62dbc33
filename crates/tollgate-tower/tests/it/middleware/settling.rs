//! Costs that are known only from the answer, clients that go away, and bodies without end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use super::support::{Endless, Own, ask, by_peer, from, gate, hanging, limiter, send};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{Limit, Limiter, Policy, Rule};
use tollgate_tower::{
    Bill, ClientIp, GateLayer, IfMissing, LayerError, RequestCost, Settle, Source, Usage,
};
use tower::{Layer, Service, ServiceExt};

const PEER: &str = "192.0.2.1";

fn address() -> IpAddr {
    PEER.parse().unwrap()
}

fn used(limiter: &Limiter) -> u64 {
    limiter.status(address()).used()
}

fn layer(limiter: &Limiter, settle: Settle) -> GateLayer {
    by_peer(limiter).cost(RequestCost::units(10)).settle(settle).build().unwrap()
}

async fn answered(layer: &GateLayer, code: u16) {
    let answer = move |_| {
        let mut response = Response::new(Own::default());
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response
    };
    drop(send(layer, answer, from(PEER)).await);
}

#[tokio::test]
async fn only_failures_count_where_that_is_asked_for() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::only_failures());
    answered(&layer, 200).await;
    assert_eq!(used(&limiter), 0);
    answered(&layer, 401).await;
    assert_eq!(used(&limiter), 10);
}

#[tokio::test]
async fn failures_of_the_server_do_not_count_where_that_is_asked_for() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::except_server_errors());
    answered(&layer, 503).await;
    assert_eq!(used(&limiter), 0);
    answered(&layer, 404).await;
    assert_eq!(used(&limiter), 10);
    let broken = tower::service_fn(|_: Request<Own>| async { Err::<Response<Own>, _>("broken") });
    assert!(layer.layer(broken).oneshot(from(PEER)).await.is_err());
    assert_eq!(used(&limiter), 10, "failing without an answer is a failure of the server");
}

#[tokio::test]
async fn a_header_of_the_answer_says_what_was_used() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_header("x-tokens").unwrap());
    for (said, charged) in [("3", 3), ("25", 25), ("0", 0), ("many", 10)] {
        let before = used(&limiter);
        let answer = |_| {
            let mut response = Response::new(Own::default());
            response.headers_mut().insert("x-tokens", said.parse().unwrap());
            response
        };
        drop(send(&layer, answer, from(PEER)).await);
        assert_eq!(used(&limiter) - before, charged, "{said}");
    }
}

#[tokio::test]
async fn the_handler_says_what_was_used_until_the_body_is_sent() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_handler());
    let answer = |request: Request<Own>| {
        let usage = request.extensions().get::<Usage>().unwrap().clone();
        usage.set(2);
        usage.add(2);
        Response::new(Full::from("tokens").map_frame(move |frame| {
            usage.add(3);
            frame
        }))
    };
    let response = send(&layer, answer, from(PEER)).await;
    assert_eq!(used(&limiter), 10, "not settled before the body is sent");
    response.into_body().collect().await.unwrap();
    assert_eq!(used(&limiter), 7);
    let silent = |_| Response::new(Own::default());
    send(&layer, silent, from(PEER)).await.into_body().collect().await.unwrap();
    assert_eq!(used(&limiter), 17, "who says nothing is charged the estimate");
}

#[tokio::test]
async fn a_gate_settles_every_rule() {
    let policy = Policy::new()
        .rule(Rule::new("tokens").key(["ip"]).limit(Limit::per_hour(100)))
        .rule(Rule::new("all").limit(Limit::per_hour(1000)));
    let (gate, _) = gate(policy);
    let layer = GateLayer::builder(gate.clone())
        .client_ip(ClientIp::peer())
        .cost(RequestCost::units(10))
        .settle(Settle::by_response(|_| Bill::Units(4)))
        .build()
        .unwrap();
    answered(&layer, 200).await;
    let ruling = gate.status(&tollgate::Request::new().with("ip", PEER));
    let left: Vec<u64> = ruling.rules().map(|of| of.remaining()).collect();
    assert_eq!(left, [96, 996]);
}

#[tokio::test]
async fn bytes_are_charged_as_they_are_sent() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_bytes_sent(100));
    let answer = |_| Response::new(Full::from("x".repeat(250)));
    send(&layer, answer, from(PEER)).await.into_body().collect().await.unwrap();
    assert_eq!(used(&limiter), 3);
}

#[tokio::test]
async fn a_body_without_end_is_charged_while_it_is_sent_and_settled_when_the_client_goes() {
    let (limiter, clock) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_bytes_sent(100));
    let mut body = send(&layer, |_| Response::new(Endless), from(PEER)).await.into_body();
    for frames in 1..=60_u64 {
        body.frame().await.unwrap().unwrap();
        assert_eq!(used(&limiter), frames.max(10), "what outgrows the estimate is taken at once");
    }
    for _ in 0..1000 {
        body.frame().await.unwrap().unwrap();
    }
    assert!(!limiter.check(address()).is_allowed(), "in debt, as long as it goes on");
    clock.advance(std::time::Duration::from_secs(120));
    assert!(!limiter.check(address()).is_allowed(), "no time-out gives it back");
    drop(body);
    assert!(!limiter.check(address()).is_allowed());
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_served_pays_what_was_sent() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_bytes_sent(100));
    let mut body = send(&layer, |_| Response::new(Endless), from(PEER)).await.into_body();
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    assert_eq!(used(&limiter), 3);
}

#[tokio::test]
async fn a_client_that_goes_before_the_answer_is_charged_as_it_was_said() {
    for (bill, charged) in [(None, 10), (Some(Bill::Nothing), 0), (Some(Bill::Units(1)), 1)] {
        let (limiter, _) = limiter(Limit::per_hour(100));
        let layer = by_peer(&limiter).cost(RequestCost::units(10)).settle(Settle::only_failures());
        let layer = match bill {
            Some(bill) => layer.if_cancelled(bill),
            None => layer,
        };
        let mut service = hanging(&layer.build().unwrap());
        let mut future = Box::pin(service.ready().await.unwrap().call(from(PEER)));
        assert!(!super::support::is_ready(&mut future).await);
        assert_eq!(used(&limiter), 10, "while it is served");
        drop(future);
        assert_eq!(used(&limiter), charged, "{bill:?}");
    }
}

#[tokio::test]
async fn what_a_client_that_goes_is_charged_needs_no_settling_to_be_said() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = by_peer(&limiter).if_cancelled(Bill::Nothing).build().unwrap();
    let mut service = hanging(&layer);
    let mut future = Box::pin(service.ready().await.unwrap().call(from(PEER)));
    assert!(!super::support::is_ready(&mut future).await);
    assert_eq!(used(&limiter), 1, "while it is served");
    drop(future);
    assert_eq!(used(&limiter), 0);
    assert_eq!(ask(&layer, from(PEER)).await.status(), StatusCode::OK);
    assert_eq!(used(&limiter), 1, "who stays is charged");
}

#[tokio::test]
async fn a_panic_while_settling_gives_nothing_back() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = layer(&limiter, Settle::by_response(|_| panic!("as a test does")));
    let sent = tokio::spawn(async move { ask(&layer, from(PEER)).await.status() }).await;
    assert!(sent.unwrap_err().is_panic());
    assert_eq!(used(&limiter), 10);
}

#[tokio::test]
async fn a_handler_that_panics_is_charged_the_estimate_whatever_a_cancelled_one_is() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let layer = by_peer(&limiter).cost(RequestCost::units(10)).settle(Settle::only_failures());
    let layer = layer.if_cancelled(Bill::Nothing).build().unwrap();
    let panics = tower::service_fn(|_: Request<Own>| async {
        tokio::task::yield_now().await;
        let answered = std::hint::black_box(false);
        assert!(answered, "as a test does");
        Ok::<_, Infallible>(Response::new(Own::default()))
    });
    let sent = tokio::spawn(layer.layer(panics).oneshot(from(PEER))).await;
    assert!(sent.unwrap_err().is_panic());
    assert_eq!(used(&limiter), 10);
}

#[tokio::test]
async fn a_panic_while_reading_the_request_serves_nobody_and_charges_nobody() {
    let (limiter, _) = limiter(Limit::per_hour(100));
    let panics = || Source::from_fn(|_| panic!("as a test does"));
    let builders = [
        by_peer(&limiter).attribute("user", panics(), IfMissing::Absent),
        by_peer(&limiter).cost(RequestCost::from_fn(|_| panic!("as a test does"))),
        by_peer(&limiter).skip(|_| panic!("as a test does")),
        by_peer(&limiter).attribute(
            "user",
            Source::from_async(|_| async { panic!("as a test does") }),
            IfMissing::Absent,
        ),
    ];
    for builder in builders {
        let layer = builder.settle(Settle::only_failures()).build().unwrap();
        let served = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = served.clone();
        let answer = move |_| {
            seen.store(true, std::sync::atomic::Ordering::Relaxed);
            Response::new(Own::default())
        };
        let sent = tokio::spawn(async move { send(&layer, answer, from(PEER)).await.status() });
        assert!(AssertUnwindSafe(sent).0.await.unwrap_err().is_panic());
        assert!(!served.load(std::sync::atomic::Ordering::Relaxed), "never a free pass");
    }
    assert!(limiter.is_empty());
}

#[tokio::test]
async fn layers_on_top_of_each_other_charge_all_or_none() {
    let (outer, _) = limiter(Limit::per_hour(10));
    let (inner, _) = limiter(Limit::per_hour(2));
    let below = by_peer(&inner).build().unwrap();
    let above = by_peer(&outer).stacked().build().unwrap();
    let handler = tower::service_fn(|_: Request<Own>| async {
        Ok::<_, Infallible>(Response::new(Own::default()))
    });
    let service = above.layer(below.layer(handler));
    for (sent, code) in [(1, 200), (2, 200), (3, 429), (4, 429)] {
        let response = service.clone().oneshot(from(PEER)).await.unwrap();
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(used(&outer), sent.min(2), "what the inner one refuses the outer gives back");
        let told = response.headers().get_all("ratelimit").iter().count();
        assert_eq!(told, if code == 200 { 2 } else { 1 }, "who refuses tells, else both");
    }
}

#[tokio::test]
async fn an_outer_layer_decides_by_itself_where_the_inner_one_never_runs() {
    let (outer, _) = limiter(Limit::per_hour(1));
    let above = by_peer(&outer).stacked().build().unwrap();
    answered(&above, 404).await;
    assert_eq!(used(&outer), 1);
    assert_eq!(ask(&above, from(PEER)).await.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn what_waits_at_a_limiter_cannot_also_settle() {
    let (limiter, _) = limiter(Limit::per_hour(1));
    let waits = by_peer(&limiter).wait(super::support::SECOND);
    let error = waits.settle(Settle::only_failures()).build().unwrap_err();
    assert_eq!(error, LayerError::WaitsAndSettles);
    let waits = by_peer(&limiter).wait(super::support::SECOND);
    let error = waits.if_cancelled(Bill::Nothing).build().unwrap_err();
    assert_eq!(error, LayerError::WaitsAndSettles);
}
