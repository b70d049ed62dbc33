//! What gRPC clients may call: the rate limit service, health and reflection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use ::http::header::CONTENT_TYPE;
use ::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::{Grpc, UnaryService};
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;

use super::codec::Messages;
use super::proto::DESCRIPTORS;
use super::{RateLimitRequest, RateLimitResponse};
use crate::app::App;
use crate::bounds::Bound;
use crate::http::cut;
use crate::metrics::{Transport, add};

/// The one call of the rate limit service.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// All services of a server. A clone is the same ones.
#[derive(Clone)]
pub(super) struct Services {
    app: Arc<App>,
    /// Those that are seldom called.
    others: Routes,
}

/// What the rate limit service does. Its call is made here and not by generated code, which boxes
/// it once more and has other buffers.
struct ShouldRateLimit(Arc<App>);

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = BoxFuture<tonic::Response<RateLimitResponse>, Status>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let app = Arc::clone(&self.0);
        Box::pin(async move {
            match app.rate_limit(Transport::Grpc, request.get_ref()).await {
                Ok(response) => Ok(tonic::Response::new(response)),
                Err(wrong) => {
                    if let Some(bound) = wrong.over {
                        add(app.metrics.over(Transport::Grpc, bound));
                    }
                    Err(Status::invalid_argument(wrong.text))
                }
            }
        })
    }
}

impl Services {
    /// Over `app`, with what changes their health.
    pub(super) fn new(app: Arc<App>) -> (Services, HealthReporter) {
        let message = app.settings.bounds.message;
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
        (Services { app, others: others.prepare() }, reporter)
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
        } else if request.uri().path() == SHOULD_RATE_LIMIT {
            let bounds = &self.app.settings.bounds;
            let mut grpc = Grpc::new(Messages).max_decoding_message_size(bounds.message);
            let call = grpc.unary(ShouldRateLimit(Arc::clone(&self.app)), request);
            // The message of a request can take long; a store that is away is waited for a moment.
            let within = bounds.body_time;
            match tokio::time::timeout(within, call).await {
                Ok(response) => response,
                Err(_) => {
                    add(self.app.metrics.over(Transport::Grpc, Bound::BodyTime));
                    let message = format!("the message took longer than {within:?}");
                    Status::deadline_exceeded(message).into_http()
                }
            }
        } else {
            let path: Box<str> = request.uri().path().into();
            // In a box, so that the others need no room for it.
            let Ok(response) = Box::pin(self.others.call(request)).await;
            // tonic says nothing of a call that there is not.
            let is_silent = !response.headers().contains_key("grpc-message");
            match code(&response) {
                Code::Unimplemented if is_silent => unknown(&path),
                _ => response,
            }
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

/// The answer to a call that there is not.
fn unknown(path: &str) -> Response<Body> {
    let (path, known) = (cut(path), SHOULD_RATE_LIMIT);
    let message = format!(
        "there is no call {path}, must be {known}, or one of grpc.health.v1.Health or of \
         grpc.reflection.v1.ServerReflection"
    );
    Status::unimplemented(message).into_http()
}

/// What became of a call. What fails at once says so in its head.
fn code(response: &Response<Body>) -> Code {
    let code = response.headers().get("grpc-status");
    code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()))
}
