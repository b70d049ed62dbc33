//! The layer in one stack with tower-http's layers, before and after it.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_ENCODING,
    ORIGIN, RETRY_AFTER,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{Limit, Limiter, ManualClock};
use tollgate_tower::{GateBody, GateLayer};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

/// Longer than what a compression layer leaves as it is.
const TEXT: &str = "hello hello hello hello hello hello hello hello hello";

/// A layer that admits one request, ever.
fn one_request() -> GateLayer {
    let limiter = Limiter::builder(Limit::per_hour(1)).clock(ManualClock::new()).build().unwrap();
    GateLayer::builder(limiter).everybody().build().unwrap()
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(60))
}

fn request(method: Method) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    request.headers_mut().insert(ORIGIN, "https://example.com".parse().unwrap());
    request.headers_mut().insert(ACCEPT_ENCODING, "gzip".parse().unwrap());
    request
}

fn preflight() -> Request<Body> {
    let mut request = request(Method::OPTIONS);
    request.headers_mut().insert(ACCESS_CONTROL_REQUEST_METHOD, "GET".parse().unwrap());
    request
}

async fn serve(_: Request<Body>) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    Ok(Response::new(Full::from(TEXT)))
}

/// Sends two requests. The first is served, the second is denied.
async fn serves_one_and_denies_one<S, B>(service: S)
where
    S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Debug> + Clone,
    B: http_body::Body<Error: std::fmt::Debug>,
{
    let served = service.clone().oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(served.status(), StatusCode::OK);
    assert!(!served.into_body().collect().await.unwrap().to_bytes().is_empty());
    let denied = service.oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(denied.headers().contains_key(RETRY_AFTER));
}

#[tokio::test]
async fn layer_stands_before_and_after_each_of_tower_http_s_layers() {
    let stack = ServiceBuilder::new();
    let handler = service_fn(serve);
    let (cors, trace) = (CorsLayer::permissive, TraceLayer::new_for_http);
    let gzip = CompressionLayer::new;
    serves_one_and_denies_one(stack.clone().layer(cors()).layer(one_request()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(one_request()).layer(cors()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(timeout()).layer(one_request()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(one_request()).layer(timeout()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(gzip()).layer(one_request()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(one_request()).layer(gzip()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(trace()).layer(one_request()).service(handler))
        .await;
    serves_one_and_denies_one(stack.clone().layer(one_request()).layer(trace()).service(handler))
        .await;
}

#[tokio::test]
async fn layer_stands_in_an_axum_stack_of_all_of_them() {
    let routes = || Router::new().route("/", get(|| async { TEXT }));
    let outside = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(CorsLayer::permissive())
        .layer(timeout())
        .layer(CompressionLayer::new())
        .layer(one_request());
    serves_one_and_denies_one(routes().layer(outside)).await;
    let inside = ServiceBuilder::new()
        .layer(one_request())
        .layer(TraceLayer::new_for_http())
        .layer(CompressionLayer::new())
        .layer(timeout())
        .layer(CorsLayer::permissive());
    serves_one_and_denies_one(routes().layer(inside)).await;
}

#[tokio::test]
async fn optional_layer_has_the_body_of_the_service() {
    let optional = |gate: Option<GateLayer>| {
        // Both branches need one type of body.
        let gate = gate.map(|gate| (MapResponseBodyLayer::new(Body::new), gate));
        Router::new()
            .route("/", get(|| async { TEXT }))
            .layer(ServiceBuilder::new().option_layer(gate))
    };
    serves_one_and_denies_one(optional(Some(one_request()))).await;
    let open = optional(None);
    for _ in 0..3 {
        let served = open.clone().oneshot(request(Method::GET)).await.unwrap();
        assert_eq!(served.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn cors_layer_before_the_gate_answers_preflights_uncounted() {
    let stack = ServiceBuilder::new().layer(CorsLayer::permissive()).layer(one_request());
    let service = stack.service(service_fn(serve));
    for _ in 0..3 {
        let answer = service.clone().oneshot(preflight()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    service.clone().oneshot(request(Method::GET)).await.unwrap();
    let denied = service.oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(denied.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "a script can read it");
}

#[tokio::test]
async fn cors_layer_after_the_gate_leaves_preflights_counted() {
    let stack = ServiceBuilder::new().layer(one_request()).layer(CorsLayer::permissive());
    let service = stack.service(service_fn(serve));
    let answer = service.clone().oneshot(preflight()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let denied = service.oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!denied.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
}

#[tokio::test]
async fn compressed_answer_is_whole() {
    let stack = ServiceBuilder::new().layer(CompressionLayer::new()).layer(one_request());
    let answer = stack.service(service_fn(serve)).oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(answer.headers().get(CONTENT_ENCODING).unwrap(), "gzip");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body[..2], [0x1f, 0x8b], "the magic number of gzip");
}

#[tokio::test]
async fn default_body_is_empty() {
    let body = GateBody::<Full<bytes::Bytes>>::default();
    assert!(http_body::Body::is_end_stream(&body));
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
}
