//! Waiting instead of being refused.

use std::time::Duration;

use http::StatusCode;
use tollgate::{Limit, Policy, Rule};
use tollgate_tower::{ClientIp, GateLayer};
use tower::{Layer, Service, ServiceExt};

use super::support::{
    Own, SECOND, ask, by_peer, from, gate, hanging, header, is_ready, limiter, status,
};

const PEER: &str = "192.0.2.1";
const MILLI: Duration = Duration::from_millis(1);

fn serving(layer: &GateLayer) -> impl AsyncFn() -> StatusCode + Clone + use<> {
    let layer = layer.clone();
    async move || status(&layer, from(PEER)).await
}

#[tokio::test]
async fn a_request_waits_until_there_are_units_and_no_longer() {
    let (limiter, clock) = limiter(Limit::per_second(1));
    let layer = by_peer(&limiter).wait(5 * SECOND).build().unwrap();
    let send = serving(&layer);
    assert_eq!(send().await, StatusCode::OK);
    let mut second = Box::pin(send());
    assert!(!is_ready(&mut second).await);
    clock.advance(999 * MILLI);
    assert!(!is_ready(&mut second).await);
    clock.advance(MILLI);
    assert_eq!(second.await, StatusCode::OK);
}

#[tokio::test]
async fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).wait(5 * SECOND).build().unwrap();
    assert_eq!(status(&layer, from(PEER)).await, StatusCode::OK);
    let refused = ask(&layer, from(PEER)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&refused, "retry-after"), Some("60"));
}

#[tokio::test]
async fn only_so_many_may_wait() {
    let (limiter, _) = limiter(Limit::per_second(1));
    let layer = by_peer(&limiter).wait(60 * SECOND).queue(1).build().unwrap();
    let send = serving(&layer);
    assert_eq!(send().await, StatusCode::OK);
    let mut waits = Box::pin(send());
    assert!(!is_ready(&mut waits).await);
    let refused = ask(&layer, from(PEER)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&refused, "retry-after"), Some("1"));
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue() {
    let (limiter, clock) = limiter(Limit::per_second(1));
    let layer = by_peer(&limiter).wait(60 * SECOND).build().unwrap();
    let send = serving(&layer);
    assert_eq!(send().await, StatusCode::OK);
    let mut leaves = Box::pin(send());
    let mut stays = Box::pin(send());
    assert!(!is_ready(&mut leaves).await && !is_ready(&mut stays).await);
    drop(leaves);
    clock.advance(SECOND);
    assert_eq!(stays.await, StatusCode::OK, "the place of who left is the next one's");
}

fn queue() -> Policy {
    let limit = Limit::leaky_queue(1, SECOND).burst(5);
    Policy::new().rule(Rule::new("calls").key(["ip"]).limit(limit))
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_a_gate_lets_requests_out_one_by_one() {
    let (gate, _) = gate(queue());
    for patience in [None, Some(60 * SECOND)] {
        gate.reset_all();
        let builder = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer());
        let builder = match patience {
            Some(patience) => builder.wait(patience),
            None => builder,
        };
        let send = serving(&builder.build().unwrap());
        let begin = tokio::time::Instant::now();
        for turn in 0..3 {
            assert_eq!(send().await, StatusCode::OK);
            // The gate's clock stands still, so that each turn is counted from the beginning.
            assert_eq!(begin.elapsed().as_secs(), [0, 1, 3][turn], "{patience:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_is_refused_and_given_back() {
    let (gate, _) = gate(queue());
    let layer = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer()).wait(SECOND);
    let send = serving(&layer.build().unwrap());
    assert_eq!([send().await, send().await], [StatusCode::OK; 2]);
    assert_eq!(send().await, StatusCode::TOO_MANY_REQUESTS, "two seconds ahead");
    let remaining = gate.status(&tollgate::Request::new().with("ip", PEER)).remaining();
    assert_eq!(remaining, 4, "only two turns are taken");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_gates_queue_gives_its_turn_back() {
    let (gate, _) = gate(queue());
    let layer = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer()).wait(60 * SECOND);
    let layer = layer.build().unwrap();
    let remaining = || gate.status(&tollgate::Request::new().with("ip", PEER)).remaining();
    assert_eq!(status(&layer, from(PEER)).await, StatusCode::OK);
    let mut service = hanging(&layer);
    let mut waits = Box::pin(service.ready().await.unwrap().call(from(PEER)));
    assert!(!is_ready(&mut waits).await);
    assert_eq!(remaining(), 4);
    drop(waits);
    assert_eq!(remaining(), 5);
}

#[tokio::test]
async fn to_be_ready_charges_nothing() {
    let (limiter, _) = limiter(Limit::per_second(1));
    let layer = by_peer(&limiter).build().unwrap();
    let mut service = layer.layer(tower::service_fn(|_: http::Request<Own>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(Own::default()))
    }));
    for _ in 0..100 {
        service.ready().await.unwrap();
    }
    assert!(limiter.is_empty());
    assert_eq!(service.call(from(PEER)).await.unwrap().status(), StatusCode::OK);
}
