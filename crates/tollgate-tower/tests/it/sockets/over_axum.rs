//! The axum example.

#[path = "../../../examples/axum.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Gate, Limit, Limiter, ManualClock, MemoryStore, Policy, Rule};
use tollgate_tower::{ClientIp, GateLayer, IfMissing, Source};

use super::answer::Answer;
use example::ask;

async fn start(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The example, with a manual clock.
async fn example() -> SocketAddr {
    let store = MemoryStore::builder().clock(ManualClock::new()).build().unwrap();
    let gate = Gate::with_store(store, example::policy()).unwrap();
    start(example::app(gate).unwrap()).await
}

fn code(answer: &str) -> u16 {
    Answer::parse(answer).code
}

#[tokio::test]
async fn a_route_is_one_whatever_is_searched_for() {
    let address = example().await;
    for word in 0..5 {
        let request = format!("GET /search/{word}");
        let answer = Answer::parse(&ask(address, &request, "x-user: ana", "").await.unwrap());
        assert_eq!(answer.code, 200, "{answer:?}");
        let [searches, requests] = [4 - word, 99 - word];
        let told =
            format!("\"search-per-user\";r={searches};t=1, \"per-address\";r={requests};t=1");
        assert_eq!(answer.header("ratelimit"), Some(told.as_str()));
        assert_eq!(answer.body, format!("found nothing, and {searches} searches are left\n"));
    }
    let refused = Answer::parse(&ask(address, "GET /search/5", "x-user: ana", "").await.unwrap());
    assert_eq!((refused.code, refused.retry_after()), (429, 1));
    let problem: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["search-per-user"]));
    let other = ask(address, "GET /search/5", "x-user: ben", "").await.unwrap();
    assert_eq!(code(&other), 200);
}

#[tokio::test]
async fn logins_that_succeed_do_not_count() {
    let address = example().await;
    let login =
        async |password| code(&ask(address, "POST /login", "x: y", password).await.unwrap());
    for _ in 0..10 {
        assert_eq!(login("secret").await, 200);
    }
    assert_eq!([login("a").await, login("b").await, login("c").await], [401; 3]);
    assert_eq!(login("secret").await, 429, "also who knows the password by now");
}

#[tokio::test]
async fn what_the_layer_of_a_route_refuses_the_one_of_the_router_does_not_charge() {
    let (all, route) = (Limit::per_day(100), Limit::per_hour(2));
    let all = Limiter::builder(all).name("all").build().unwrap();
    let route = Limiter::builder(route).name("route").build().unwrap();
    let layer = |limiter: &Limiter| GateLayer::builder(limiter.clone()).everybody();
    let app = Router::new()
        .route("/", get(|| async { "hello" }).layer(layer(&route).build().unwrap()))
        .layer(layer(&all).stacked().build().unwrap());
    let address = start(app).await;
    for expected in [200, 200, 429, 429, 429] {
        assert_eq!(code(&ask(address, "GET /", "x: y", "").await.unwrap()), expected);
    }
    let used = || all.keys().map(|(_, status)| status.used()).sum::<u64>();
    assert_eq!(used(), 2);
    assert_eq!(code(&ask(address, "GET /nowhere", "x: y", "").await.unwrap()), 404);
    assert_eq!(used(), 3, "no route, no inner layer: the outer one decides by itself");
}

#[tokio::test]
async fn a_route_layer_does_not_see_what_no_route_matches_and_a_layer_does() {
    let limiter = Limiter::new(Limit::per_day(1000)).unwrap();
    let layer = || GateLayer::builder(limiter.clone()).everybody().build().unwrap();
    let used = || limiter.keys().map(|(_, status)| status.used()).sum::<u64>();
    let app = Router::new().route("/", get(|| async { "hello" })).route_layer(layer());
    let address = start(app).await;
    assert_eq!(code(&ask(address, "GET /nowhere", "x: y", "").await.unwrap()), 404);
    assert_eq!(used(), 0);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer());
    let address = start(app).await;
    assert_eq!(code(&ask(address, "GET /nowhere", "x: y", "").await.unwrap()), 404);
    assert_eq!(used(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_connections_share_one_limit() {
    let limiter = Limiter::new(Limit::per_day(100)).unwrap();
    let layer = GateLayer::builder(limiter.clone()).client_ip(ClientIp::peer()).build().unwrap();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let address = start(app).await;
    let asked = (0..300).map(|_| tokio::spawn(ask(address, "GET /", "x: y", "")));
    let mut served = 0;
    for answer in asked.collect::<Vec<_>>() {
        served += u32::from(code(&answer.await.unwrap().unwrap()) == 200);
    }
    assert_eq!(served, 100);
}

#[tokio::test]
async fn a_server_without_connect_info_refuses_instead_of_limiting_nobody() {
    let limiter = Limiter::new(Limit::per_day(100)).unwrap();
    let layer = GateLayer::builder(limiter).client_ip(ClientIp::peer()).build().unwrap();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    assert_eq!(code(&ask(address, "GET /", "x: y", "").await.unwrap()), 500);
}

#[tokio::test]
async fn a_spoofed_header_makes_no_new_client_over_a_socket() {
    let policy = Policy::new().rule(Rule::new("ip").key(["ip"]).limit(Limit::per_day(1)));
    let gate = Gate::new(policy).unwrap();
    let client_ip = ClientIp::x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let layer = GateLayer::builder(gate).client_ip(client_ip);
    let layer = layer.attribute("path", Source::path(), IfMissing::Absent).build().unwrap();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let address = start(app).await;
    let mut codes = Vec::new();
    for number in 0..20 {
        let spoofed = format!("x-forwarded-for: 198.51.100.{number}");
        codes.push(code(&ask(address, "GET /", &spoofed, "").await.unwrap()));
    }
    assert_eq!(codes[0], 200);
    assert!(codes[1..].iter().all(|code| *code == 429), "{codes:?}");
}
