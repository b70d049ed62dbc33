//! What clients and handlers are told.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::support::{
    Own, SECOND, ask, by_peer, from, gate, header, limiter, send, status, text, with,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate::{Dialect, Gate, Limit, ListEntry, Policy, Rule, Verbosity};
use tollgate_testkit::assert_golden;
use tollgate_tower::{
    Answer, ClientIp, GateBody, GateLayer, IfMissing, IfUnsaid, LayerError, RequestCost, Settle,
    Source, Why,
};

/// The body of a refusal.
async fn problem(refused: Response<GateBody<Own>>) -> serde_json::Value {
    serde_json::from_str(&text(refused).await).unwrap()
}

#[tokio::test]
async fn a_refused_request_is_an_answer_and_not_an_error() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).build().unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::OK);
    let refused = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&refused, "retry-after"), Some("60"));
    assert_eq!(header(&refused, "cache-control"), Some("no-store"));
    assert_eq!(header(&refused, "content-type"), Some("application/problem+json"));
    assert_eq!(header(&refused, "ratelimit"), Some("\"limit\";r=0;t=60"));
    assert_eq!(
        problem(refused).await,
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": "too many requests, try again in 60 seconds",
            "violated-policies": ["limit"],
        })
    );
    assert_eq!(status(&layer, from("192.0.2.2")).await, StatusCode::OK, "somebody else");
}

#[tokio::test]
async fn an_allowed_answer_is_told_how_it_stands_in_the_chosen_dialect() {
    let (limiter, _) = limiter(Limit::per_minute(60));
    let layer = by_peer(&limiter).build().unwrap();
    let served = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(header(&served, "ratelimit"), Some("\"limit\";r=59;t=1"));
    assert_eq!(header(&served, "ratelimit-policy"), Some("\"limit\";q=60;w=60"));
    let layer = by_peer(&limiter).headers(Dialect::XSeconds).build().unwrap();
    let served = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(header(&served, "x-ratelimit-remaining"), Some("58"));
    assert_eq!(header(&served, "ratelimit"), None);
    assert_eq!(text(served).await, "served");
}

#[tokio::test]
async fn who_is_to_be_told_nothing_is_told_nothing() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).verbosity(Verbosity::None).build().unwrap();
    assert!(ask(&layer, from("192.0.2.1")).await.headers().is_empty());
    let refused = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(header(&refused, "retry-after"), None);
    assert_eq!(header(&refused, "ratelimit"), None);
    let told = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
    });
    assert_eq!(problem(refused).await, told);
}

#[tokio::test]
async fn the_answer_is_in_the_extensions_for_handlers_to_read() {
    let (limiter, _) = limiter(Limit::per_minute(5));
    let layer = by_peer(&limiter).build().unwrap();
    let read = |request: Request<Own>| {
        let answer = request.extensions().get::<Answer>().unwrap();
        assert_eq!((answer.rule(), answer.limit()), (Some("limit"), 5));
        Response::new(Full::from(answer.remaining().to_string()))
    };
    assert_eq!(text(send(&layer, read, from("192.0.2.1")).await).await, "4");
    assert_eq!(text(send(&layer, read, from("192.0.2.1")).await).await, "3");
    let without = by_peer(&limiter).without_extension().build().unwrap();
    let none = |request: Request<Own>| {
        assert!(request.extensions().get::<Answer>().is_none());
        Response::new(Own::default())
    };
    send(&without, none, from("192.0.2.1")).await;
}

#[tokio::test]
async fn an_answer_of_ones_own_still_says_when_to_come_again() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).respond_with(|refusal, head| {
        assert_eq!(*refusal.why(), Why::Limited);
        let text = format!("{} not now", head.path());
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let layer = layer.build().unwrap();
    ask(&layer, from("192.0.2.1")).await;
    let refused = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&refused, "retry-after"), Some("60"));
    assert_eq!(text(refused).await, "/ not now");
}

fn api() -> Policy {
    Policy::new()
        .allow(ListEntry::new("health").matches("path", "/healthz"))
        .deny(ListEntry::new("banned").matches("user", "mallory"))
        .rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(2)))
        .rule(Rule::new("everybody").limit(Limit::per_minute(100)))
}

fn by_user(policy: Policy) -> GateLayer {
    let (gate, _) = gate(policy);
    GateLayer::builder(gate)
        .attribute("path", Source::path(), IfMissing::Absent)
        .attribute("user", Source::header("x-user").unwrap(), IfMissing::text("anonymous"))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_gate_decides_by_all_rules_and_tells_of_them() {
    let layer = by_user(api());
    let ana = || with(from("192.0.2.1"), "x-user", "ana");
    let served = ask(&layer, ana()).await;
    assert_eq!(header(&served, "ratelimit"), Some("\"per-user\";r=1;t=30, \"everybody\";r=99;t=1"));
    ask(&layer, ana()).await;
    let refused = ask(&layer, ana()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(problem(refused).await["violated-policies"], serde_json::json!(["per-user"]));
}

#[tokio::test]
async fn names_that_are_hidden_from_clients_are_still_there_for_handlers() {
    let rule = Rule::new("secret").public_name("").limit(Limit::per_minute(1));
    let shown = Rule::new("internal").public_name("shown").limit(Limit::per_minute(1));
    let layer = by_user(Policy::new().rule(rule).rule(shown));
    let allowed = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(header(&allowed, "ratelimit"), Some("\"limit-1\";r=0;t=60, \"shown\";r=0;t=60"));
    let denied = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(problem(denied).await["violated-policies"], serde_json::json!(["shown"]));
}

#[tokio::test]
async fn who_is_on_the_list_of_those_who_never_pass_gets_a_403() {
    let layer = by_user(api());
    let refused = ask(&layer, with(from("192.0.2.1"), "x-user", "mallory")).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert_eq!(header(&refused, "retry-after"), None);
}

#[tokio::test]
async fn each_attribute_says_what_happens_where_it_is_missing() {
    let missing = |missing| {
        let (limiter, _) = limiter(Limit::per_minute(1));
        let user = Source::header("x-user").unwrap();
        GateLayer::builder(limiter).attribute("user", user, missing).build().unwrap()
    };
    let layer = missing(IfMissing::Refuse(StatusCode::BAD_REQUEST));
    let refused = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(problem(refused).await["detail"], "the request lacks \"user\"");
    for layer in [missing(IfMissing::Absent), missing(IfMissing::text("anonymous"))] {
        assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::OK);
        assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::TOO_MANY_REQUESTS);
    }
    let layer = missing(IfMissing::text("ana"));
    assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::OK);
    let ana = with(from("192.0.2.1"), "x-user", "ana");
    assert_eq!(status(&layer, ana).await, StatusCode::TOO_MANY_REQUESTS, "one and the same");
}

#[tokio::test]
async fn a_header_that_is_repeated_or_no_text_is_missing() {
    let (limiter, _) = limiter(Limit::per_minute(10));
    let refuse = IfMissing::Refuse(StatusCode::BAD_REQUEST);
    let user = Source::header("x-user").unwrap();
    let layer = GateLayer::builder(limiter).attribute("user", user, refuse).build().unwrap();
    let twice = with(with(from("192.0.2.1"), "x-user", "ana"), "x-user", "ben");
    let refused = ask(&layer, twice).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(problem(refused).await["detail"], "the header x-user was sent twice, send it once");
    let mut bytes = from("192.0.2.1");
    bytes.headers_mut().insert("x-user", http::HeaderValue::from_bytes(b"\xff").unwrap());
    assert_eq!(status(&layer, bytes).await, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_server_that_does_not_know_its_peer_refuses_instead_of_letting_everybody_pass() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).build().unwrap();
    let refused = ask(&layer, Request::new(Own::default())).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    // The response does not say what is wrong.
    let told = serde_json::json!({
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
    });
    assert_eq!(problem(refused).await, told);
}

#[test]
fn a_layer_that_would_never_limit_is_not_built() {
    let (gate, _) = gate(api());
    let error = GateLayer::builder(gate.clone()).client_ip(ClientIp::peer()).build().unwrap_err();
    let expected = LayerError::NotGiven { rule: "per-user".into(), attribute: "user".into() };
    assert_eq!(error, expected);
    let allowed = GateLayer::builder(gate).may_lack("user").may_lack("path").build();
    assert!(allowed.is_ok());
    let (limiter, _) = limiter(Limit::per_minute(1));
    assert_eq!(GateLayer::builder(limiter.clone()).build().unwrap_err(), LayerError::NoKey);
    assert!(GateLayer::builder(limiter.clone()).everybody().build().is_ok());
    let twice = by_peer(&limiter).client_ip(ClientIp::peer()).build().unwrap_err();
    assert_eq!(twice, LayerError::Repeated("ip".into()));
    let nothing = by_peer(&limiter).cost(RequestCost::units(0)).build().unwrap_err();
    assert_eq!(nothing, LayerError::NoCost);
    let free = by_peer(&limiter).settle(Settle::by_bytes_sent(0)).build().unwrap_err();
    assert_eq!(free, LayerError::NoCost);
}

#[test]
fn every_error_of_a_layer_says_what_to_write() {
    let errors = [
        LayerError::Network("10.0.0.0/33".into()),
        LayerError::TrustsEverybody("0.0.0.0/0".into()),
        LayerError::HeaderName("x user".into()),
        LayerError::Repeated("ip".into()),
        LayerError::NotGiven { rule: "per-user".into(), attribute: "user".into() },
        LayerError::NoKey,
        LayerError::WaitsAndSettles,
        LayerError::NoCost,
    ];
    let messages: String = errors.iter().map(|error| format!("{error}\n")).collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/layer-errors.txt");
    assert_golden(&golden, &messages);
}

#[tokio::test]
async fn a_cost_comes_from_a_constant_a_header_a_size_or_a_function() {
    let (limiter, _) = limiter(Limit::per_minute(100));
    let peek = || limiter.status(std::net::Ipv4Addr::new(192, 0, 2, 1)).used();
    let spend = async |cost, request| {
        let before = peek();
        let answer = status(&by_peer(&limiter).cost(cost).build().unwrap(), request).await;
        (answer.as_u16(), peek() - before)
    };
    let header = || RequestCost::header("x-cost", IfUnsaid::Units(2)).unwrap();
    let said = |cost| with(from("192.0.2.1"), "x-cost", cost);
    assert_eq!(spend(RequestCost::units(3), from("192.0.2.1")).await, (200, 3));
    assert_eq!(spend(header(), said("7")).await, (200, 7));
    assert_eq!(spend(header(), from("192.0.2.1")).await, (200, 2), "unsaid");
    for hostile in ["-1", "+1", "1.5", "", "18446744073709551616", "999999999999", "ten"] {
        assert_eq!(spend(header(), said(hostile)).await, (400, 0), "{hostile:?}");
    }
    assert_eq!(spend(header(), with(said("1"), "x-cost", "2")).await, (400, 0), "twice");
    assert_eq!(spend(header(), said("0")).await, (200, 0), "a cost of 0 takes nothing");
    let length = RequestCost::from_fn(|head| head.path().len() as u64);
    assert_eq!(spend(length, from("192.0.2.1")).await, (200, 1));
    let by_size = || RequestCost::body_size(10, IfUnsaid::Refuse(StatusCode::LENGTH_REQUIRED));
    assert_eq!(spend(by_size(), from("192.0.2.1")).await, (200, 1), "no body");
    let large = from("192.0.2.1").map(|_| Full::from("x".repeat(41)));
    assert_eq!(spend(by_size(), large).await, (200, 5));
}

#[tokio::test]
async fn cost_zero_passes_where_nothing_remains() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let by_path = || RequestCost::from_fn(|head| head.path().len() as u64 - 1);
    let layer = by_peer(&limiter).cost(by_path()).build().unwrap();
    let path = |path: &str| {
        let mut request = from("192.0.2.1");
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    for (request, wanted) in [
        (path("/"), StatusCode::OK),
        (path("/a"), StatusCode::OK),
        (path("/a"), StatusCode::TOO_MANY_REQUESTS),
        (path("/"), StatusCode::OK),
    ] {
        assert_eq!(status(&layer, request).await, wanted);
    }
    assert_eq!(limiter.status(std::net::Ipv4Addr::new(192, 0, 2, 1)).used(), 1);
    let policy = Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(1)));
    let gate = Gate::new(policy).unwrap();
    let layer = GateLayer::builder(gate).client_ip(ClientIp::peer()).cost(by_path()).build();
    let layer = layer.unwrap();
    assert_eq!(status(&layer, path("/a")).await, StatusCode::OK);
    assert_eq!(status(&layer, path("/a")).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&layer, path("/")).await, StatusCode::OK);
}

#[tokio::test]
async fn a_claim_that_is_looked_up_is_waited_for() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let claim = Source::from_async(|head| {
        let token = head.header("authorization").map(str::to_owned);
        async move {
            tokio::task::yield_now().await;
            token.map(|token| token.replace("Bearer ", "user of "))
        }
    });
    let refuse = IfMissing::Refuse(StatusCode::UNAUTHORIZED);
    let layer = GateLayer::builder(limiter.clone()).attribute("user", claim, refuse);
    let layer = layer.build().unwrap();
    let token = || with(from("192.0.2.1"), "authorization", "Bearer abc");
    assert_eq!(status(&layer, token()).await, StatusCode::OK);
    assert_eq!(status(&layer, token()).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(limiter.status(&["user of abc"][..]).used(), 1);
    assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn shadow_mode_counts_and_reports_and_refuses_nobody() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let denied = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&denied);
    let layer = by_peer(&limiter).shadow().observe(move |answer| {
        seen.fetch_add(u64::from(!answer.is_allowed()), Ordering::Relaxed);
    });
    let layer = layer.build().unwrap();
    for _ in 0..3 {
        let served = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(served.status(), StatusCode::OK);
        assert!(served.headers().is_empty(), "clients are not told");
    }
    assert_eq!(denied.load(Ordering::Relaxed), 2);
    assert_eq!(status(&layer, Request::new(Own::default())).await, StatusCode::OK, "no peer");
}

#[tokio::test]
async fn what_is_skipped_is_not_charged() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let layer = by_peer(&limiter).skip_path("/healthz").build().unwrap();
    let path = |path: &str| {
        let mut request = from("192.0.2.1");
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    for _ in 0..3 {
        assert_eq!(status(&layer, path("/healthz?full=1")).await, StatusCode::OK);
    }
    assert!(limiter.is_empty());
    assert_eq!(status(&layer, path("/healthz/")).await, StatusCode::OK, "another path");
    for spelling in ["//healthz", "/x/../healthz", "/%68ealthz", "/healthz/../login"] {
        let answer = status(&layer, path(spelling)).await;
        assert_eq!(answer, StatusCode::TOO_MANY_REQUESTS, "{spelling}");
    }
    assert_eq!(status(&layer, path("/healthz/")).await, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_host_is_one_however_it_is_written() {
    let (limiter, clock) = limiter(Limit::per_second(1));
    let refuse = IfMissing::Refuse(StatusCode::BAD_REQUEST);
    let layer = GateLayer::builder(limiter.clone()).attribute("host", Source::host(), refuse);
    let layer = layer.build().unwrap();
    for written in
        ["Example.COM", "example.com", "example.com:8080", "example.com.", "EXAMPLE.com.:80"]
    {
        let request = with(from("192.0.2.1"), "host", written);
        assert_eq!(status(&layer, request).await, StatusCode::OK, "{written}");
        clock.advance(SECOND);
    }
    assert_eq!(limiter.keys().count(), 0, "all of it has come back");
    assert_eq!(limiter.store().len(), 1, "one host");
    assert_eq!(status(&layer, from("192.0.2.1")).await, StatusCode::BAD_REQUEST);
}
