//! What gRPC clients may call: the rate limit service, health and reflection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use ::http::header::CONTENT_TYPE;
use ::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;

use super::proto::DESCRIPTORS;
use super::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use super::{RateLimitRequest, RateLimitResponse};
use crate::app::App;
use crate::bounds::Bound;
use crate::metrics::{Transport, add};

/// The path of every call of the rate limit service begins so.
const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/";

/// All services of a server. A clone is the same ones.
#[derive(Clone)]
pub(super) struct Services {
    app: Arc<App>,
    rate_limit: RateLimitServiceServer<Rls>,
    /// Those that are seldom called.
    others: Routes,
}

#[derive(Clone)]
struct Rls(Arc<App>);

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let answered = self.0.rate_limit(Transport::Grpc, request.get_ref()).await;
        match answered {
            Ok(response) => Ok(tonic::Response::new(response)),
            Err(wrong) => {
                if let Some(bound) = wrong.over {
                    add(self.0.metrics.over(Transport::Grpc, bound));
                }
                Err(Status::invalid_argument(wrong.text))
            }
        }
    }
}

impl Services {
    /// Over `app`, with what changes their health.
    pub(super) fn new(app: Arc<App>) -> (Services, HealthReporter) {
        let message = app.settings.bounds.message;
        let rate_limit =
            RateLimitServiceServer::new(Rls(Arc::clone(&app))).max_decoding_message_size(message);
        let reporter = HealthReporter::new();
        let health = HealthService::from_health_reporter(reporter.clone());
        let health = tonic_health::pb::health_server::HealthServer::new(health)
            .max_decoding_message_size(message);
        let mut others = Routes::new(health);
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Old clients ask for the second. Both are made of what a test has read.
        if let (Ok(v1), Ok(alpha)) = (reflection().build_v1(), reflection().build_v1alpha()) {
            let v1 = v1.max_decoding_message_size(message);
            others = others.add_service(v1);
            others = others.add_service(alpha.max_decoding_message_size(message));
        }
        (Services { app, rate_limit, others: others.prepare() }, reporter)
    }

    pub(super) fn app(&self) -> Arc<App> {
        Arc::clone(&self.app)
    }

    /// Answers one call.
    pub(super) async fn answer(
        mut self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let is_grpc =
            |value: &::http::HeaderValue| value.as_bytes().starts_with(b"application/grpc");
        let began = Instant::now();
        let response = if !request.headers().get(CONTENT_TYPE).is_some_and(is_grpc) {
            not_grpc()
        } else if request.uri().path().starts_with(RATE_LIMIT) {
            // The message of a request can take long; a store that is away is waited for a moment.
            let within = self.app.settings.bounds.body_time;
            match tokio::time::timeout(within, self.rate_limit.call(request)).await {
                Ok(Ok(response)) => response,
                Err(_) => {
                    add(self.app.metrics.over(Transport::Grpc, Bound::BodyTime));
                    let message = format!("the message took longer than {within:?}");
                    Status::deadline_exceeded(message).into_http()
                }
            }
        } else {
            let Ok(response) = self.others.call(request).await;
            response
        };
        self.app.metrics.latency(Transport::Grpc).record(began.elapsed());
        let code = code(&response);
        if code == Code::OutOfRange {
            add(self.app.metrics.over(Transport::Grpc, Bound::Message));
        }
        // Health answers so for a service that it does not know.
        if !matches!(code, Code::Ok | Code::NotFound) || !response.status().is_success() {
            add(&self.app.metrics.bad_requests);
        }
        Ok(response)
    }
}

/// The answer to what is HTTP/2 and no call, as gRPC has it.
fn not_grpc() -> Response<Body> {
    let text = "this port speaks gRPC, for HTTP ask the other one\n";
    let mut response = Response::new(Body::new(text.to_owned()));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// What became of a call. What fails at once says so in its head.
fn code(response: &Response<Body>) -> Code {
    let code = response.headers().get("grpc-status");
    code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()))
}
