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

/// Longer than a test may take: a server that waits so long does not stop in time.
const LONG_DRAIN: Duration = Duration::from_secs(3600);

fn health(rls: &Rls, service: &str) -> Result<ServingStatus, tonic::Status> {
    let request = Request::new(HealthCheckRequest { service: service.to_owned() });
    let path = "/grpc.health.v1.Health/Check";
    let answered = run(rls.client.unary::<_, HealthCheckResponse>(path, request));
    answered.map(|response| response.status())
}

#[test]
fn it_says_that_it_is_well() {
    let rls = Rls::start();
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(health(&rls, service).unwrap(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = health(&rls, "nobody").unwrap_err();
    assert_eq!(unknown.code(), Grpc::NotFound);
    assert_eq!(rls.metric("tollgate_bad_requests_total"), 0, "to ask is no mistake");
}

async fn reflect(rls: &Rls, asked: MessageRequest) -> ServerReflectionResponse {
    let mut client = ServerReflectionClient::new(rls.client.0.clone());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let stream = tokio_stream::once(request);
    let mut answers =
        client.server_reflection_info(Request::new(stream)).await.unwrap().into_inner();
    answers.message().await.unwrap().unwrap()
}

#[test]
fn reflection_lists_the_services_and_has_the_file_of_each() {
    let rls = Rls::start();
    let listed = run(reflect(&rls, MessageRequest::ListServices(String::new())));
    let Some(MessageResponse::ListServicesResponse(services)) = listed.message_response else {
        panic!("{listed:?}")
    };
    let names: Vec<_> = services.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
        let file = run(reflect(&rls, MessageRequest::FileContainingSymbol(name.to_owned())));
        let Some(MessageResponse::FileDescriptorResponse(file)) = file.message_response else {
            panic!("{file:?}")
        };
        assert!(!file.file_descriptor_proto.is_empty());
    }
}

#[test]
fn idle_connection_does_not_delay_the_stop() {
    let mut rls = Rls::with(|server| server.drain(LONG_DRAIN));
    rls.ask([user("ana")]);
    assert_eq!(rls.server.stopped(), Stopped::InOrder);
}

#[test]
fn who_watches_its_health_hears_that_it_stops_and_does_not_hold_it_up() {
    let mut rls = Rls::with(|server| server.drain(LONG_DRAIN));
    let mut watched = run(async {
        let mut client = tonic::client::Grpc::new(rls.client.0.clone());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let path = "/grpc.health.v1.Health/Watch".parse().unwrap();
        let asked = Request::new(HealthCheckRequest::default());
        client.server_streaming(asked, path, codec).await.unwrap().into_inner()
    });
    let first = run(watched.message()).unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    rls.server.stop();
    let next = run(watched.message()).unwrap().map(|of| of.status());
    assert_eq!(next, Some(ServingStatus::NotServing));
    let end = run(watched.message());
    assert!(matches!(end, Ok(None)), "{end:?}");
    assert_eq!(rls.server.stopped(), Stopped::InOrder);
}
