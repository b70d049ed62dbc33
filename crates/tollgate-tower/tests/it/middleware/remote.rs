//! A gate over a real Redis server behind the layer: what is held there is settled there.

use std::convert::Infallible;
use std::sync::Arc;

use super::support::{Endless, Own, from, send};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tollgate::{Limit, Policy, Request, Rule};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::{DEADLINE, RedisServer, eventually_async};
use tollgate_tower::{
    Bill, ClientIp, GateLayer, GateLayerBuilder, LayerError, RequestCost, Settle,
};
use tower::{Layer, Service};

const PEER: &str = "192.0.2.1";

/// A gate that allows each address 100 units an hour, in a namespace of the shared server.
fn gate(namespace: &str) -> RedisGate {
    let policy = Policy::new().rule(Rule::new("a").key(["ip"]).limit(Limit::per_hour(100)));
    let store = RedisStore::builder(RedisServer::shared().url());
    let store = store.timeout(DEADLINE).connect_timeout(DEADLINE).open().unwrap();
    RedisGate::builder(store).namespace(namespace).build(policy).unwrap()
}

fn by_peer(gate: &RedisGate) -> GateLayerBuilder {
    let builder = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer());
    builder.cost(RequestCost::units(10))
}

async fn used(gate: &RedisGate) -> u64 {
    100 - gate.status(&Request::new().with("ip", PEER)).await.remaining()
}

/// Returns when `units` units are used: a response does not wait until they are settled.
async fn comes_to(gate: &RedisGate, units: u64) {
    let poll = async || match used(gate).await {
        used if used == units => Ok(()),
        used => Err(used),
    };
    eventually_async(&format!("{units} used units"), poll).await;
}

#[tokio::test]
async fn only_failures_count_where_that_is_asked_for() {
    let gate = gate("only_failures");
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
    let gate = gate("body_without_end");
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
    let gate = gate("client_that_goes");
    // The last charge is given back, the earlier ones are not.
    for (bill, units) in [(Bill::Nothing, 0), (Bill::Estimate, 10), (Bill::Nothing, 10)] {
        let layer = by_peer(&gate).settle(Settle::only_failures()).if_cancelled(bill);
        let reached = Arc::new(Notify::new());
        let handler = Arc::clone(&reached);
        let mut service = layer.build().unwrap().layer(tower::service_fn(move |_| {
            handler.notify_one();
            std::future::pending::<Result<Response<Own>, Infallible>>()
        }));
        let mut answer = Box::pin(service.call(from(PEER)));
        tokio::select! {
            _ = &mut answer => panic!("the handler never answers"),
            () = reached.notified() => {}
        }
        drop(answer);
        comes_to(&gate, units).await;
    }
}

#[tokio::test]
async fn what_an_inner_layer_refuses_is_given_back() {
    let gate = gate("inner_layer");
    let outer = by_peer(&gate).stacked().build().unwrap();
    let inner = tollgate::Limiter::new(Limit::per_hour(1)).unwrap();
    let inner = GateLayer::builder(inner).client_ip(ClientIp::peer()).build().unwrap();
    let ask = async || {
        let service =
            tower::service_fn(async |_| Ok::<_, Infallible>(Response::new(Own::default())));
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
    let gate = gate("rule_that_would_never_apply");
    let error = GateLayer::builder(gate).method().build().unwrap_err();
    let (rule, attribute) = ("a".to_owned(), "ip".to_owned());
    assert_eq!(error, LayerError::NotGiven { rule, attribute });
}
