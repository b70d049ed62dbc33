//! A gate over a real Redis server behind the layer: what is held there is settled there.

use std::time::Duration;

use crate::support::{Endless, Own, from, hanging, send};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use tollgate::{Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::RedisServer;
use tollgate_tower::{
    Bill, ClientIp, GateLayer, GateLayerBuilder, LayerError, RequestCost, Settle,
};
use tower::Service;

const PEER: &str = "192.0.2.1";

/// A server, and a gate over it that allows each address 100 units an hour.
fn rig() -> (RedisServer, RedisGate) {
    let server = RedisServer::start();
    let policy = Policy::new().rule(Rule::new("a").key(["ip"]).limit(Limit::per_hour(100)));
    let timeout = Duration::from_secs(5);
    let store = RedisStore::builder(server.url()).timeout(timeout).open().unwrap();
    let gate = RedisGate::on(store, policy).unwrap();
    (server, gate)
}

fn by_peer(gate: &RedisGate) -> GateLayerBuilder {
    let builder = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer());
    builder.cost(RequestCost::units(10))
}

async fn used(gate: &RedisGate) -> u64 {
    100 - gate.status(&Request::new().with("ip", PEER)).await.remaining()
}

/// Waits until so many units are used: what settles does not hold up the answer.
async fn comes_to(gate: &RedisGate, units: u64) {
    for _ in 0..500 {
        if used(gate).await == units {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(used(gate).await, units);
}

#[tokio::test]
async fn only_failures_count_where_that_is_asked_for() {
    let (_server, gate) = rig();
    let layer = by_peer(&gate).settle(Settle::only_failures()).build().unwrap();
    for (code, units) in [(200, 0), (401, 10), (204, 10), (500, 20)] {
        let answer = move |_| {
            let mut response = Response::new(Own::default());
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            response
        };
        drop(send(&layer, answer, from(PEER)).await);
        comes_to(&gate, units).await;
    }
}

#[tokio::test]
async fn a_body_without_end_pays_while_it_is_sent_and_in_the_end() {
    let (_server, gate) = rig();
    let layer = by_peer(&gate).settle(Settle::by_bytes_sent(100)).build().unwrap();
    let mut body = send(&layer, |_| Response::new(Endless), from(PEER)).await.into_body();
    for _ in 0..25 {
        body.frame().await.unwrap().unwrap();
    }
    // The estimate was ten, and was doubled once.
    comes_to(&gate, 20).await;
    for _ in 0..8 {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    comes_to(&gate, 33).await;
}

#[tokio::test]
async fn a_client_that_goes_before_the_answer_is_charged_as_it_was_said() {
    let (_server, gate) = rig();
    for (bill, units) in [(Bill::Nothing, 0), (Bill::Estimate, 10)] {
        let layer = by_peer(&gate).settle(Settle::only_failures()).if_cancelled(bill);
        let mut service = hanging(&layer.build().unwrap());
        let answer = tokio::time::timeout(Duration::from_millis(300), service.call(from(PEER)));
        assert!(answer.await.is_err());
        comes_to(&gate, units).await;
    }
}

#[tokio::test]
async fn what_an_inner_layer_refuses_is_given_back() {
    let (_server, gate) = rig();
    let outer = by_peer(&gate).stacked().build().unwrap();
    let inner = tollgate::Limiter::new(Limit::per_hour(1)).unwrap();
    let inner = GateLayer::builder(inner).client_ip(ClientIp::peer()).build().unwrap();
    let ask = async || {
        let service = tower::service_fn(async |_| {
            Ok::<_, std::convert::Infallible>(Response::new(Own::default()))
        });
        let service = tower::ServiceBuilder::new().layer(&outer).layer(&inner).service(service);
        tower::ServiceExt::oneshot(service, from(PEER)).await.unwrap().status()
    };
    assert_eq!(ask().await, StatusCode::OK);
    comes_to(&gate, 10).await;
    assert_eq!(ask().await, StatusCode::TOO_MANY_REQUESTS);
    comes_to(&gate, 10).await;
}

#[tokio::test]
async fn a_rule_that_would_never_apply_is_found_when_the_layer_is_built() {
    let (_server, gate) = rig();
    let error = GateLayer::builder(gate).method().build().unwrap_err();
    let (rule, attribute) = ("a".to_owned(), "ip".to_owned());
    assert_eq!(error, LayerError::NotGiven { rule, attribute });
}
