//! What gRPC clients ask of any server.

use std::time::Duration;

use tollgate_server::Stopped;
use tonic::{Code as Grpc, Request};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::support::*;

async fn health(rls: &Rls, service: &str) -> Result<ServingStatus, tonic::Status> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answered = rls.unary::<_, HealthCheckResponse>("/grpc.health.v1.Health/Check", request);
    answered.await.map(|response| response.status())
}

#[tokio::test]
async fn it_says_that_it_is_well() {
    let rls = Rls::start().await;
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(health(&rls, service).await.unwrap(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = health(&rls, "nobody").await.unwrap_err();
    assert_eq!(unknown.code(), Grpc::NotFound);
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, 0, "to ask is no mistake");
}

async fn reflect(rls: &Rls, asked: MessageRequest) -> ServerReflectionResponse {
    let mut client = ServerReflectionClient::new(connect(rls.address).await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let stream = tokio_stream::once(request);
    let mut answers =
        client.server_reflection_info(Request::new(stream)).await.unwrap().into_inner();
    tokio::time::timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn reflection_lists_the_services_and_has_the_file_of_each() {
    let rls = Rls::start().await;
    let listed = reflect(&rls, MessageRequest::ListServices(String::new())).await;
    let Some(MessageResponse::ListServicesResponse(services)) = listed.message_response else {
        panic!("{listed:?}")
    };
    let names: Vec<_> = services.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
        let file = reflect(&rls, MessageRequest::FileContainingSymbol(name.to_owned())).await;
        let Some(MessageResponse::FileDescriptorResponse(file)) = file.message_response else {
            panic!("{file:?}")
        };
        assert!(!file.file_descriptor_proto.is_empty());
    }
}

#[tokio::test]
async fn it_stops_in_order_and_tells_its_clients() {
    let rls = Rls::start().await;
    rls.ask([user("ana")]).await;
    let before = std::time::Instant::now();
    assert_eq!(rls.stopped().await, Stopped::InOrder);
    assert!(before.elapsed() < Duration::from_secs(5), "an idle connection holds nothing up");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_its_health_hears_that_it_stops_and_does_not_hold_it_up() {
    let rls = Rls::start().await;
    let mut client = tonic::client::Grpc::new(connect(rls.address).await);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let path = "/grpc.health.v1.Health/Watch".parse().unwrap();
    let asked = Request::new(HealthCheckRequest::default());
    let mut watched = client.server_streaming(asked, path, codec).await.unwrap().into_inner();
    let first = watched.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    let rest = async {
        let next = watched.message().await.unwrap().map(|of| of.status());
        (next, watched.message().await)
    };
    let both = async { tokio::join!(rls.stopped(), rest) };
    let (stopped, (next, end)) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert_eq!((stopped, next), (Stopped::InOrder, Some(ServingStatus::NotServing)));
    assert!(matches!(end, Ok(None)), "{end:?}");
}
