//! A server with the limits of an Envoy file, and a client.

use std::net::SocketAddr;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tollgate::Policy;
use tollgate_server::ServerBuilder;
use tollgate_testkit::DEADLINE;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::support::TestServer;

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines
)]
pub(crate) mod proto {
    include!("../../../src/grpc/generated/mod.rs");
}

pub(crate) use proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub(crate) use proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub(crate) use proto::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, rate_limit::Unit,
};
pub(crate) use proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

pub(crate) const YAML: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: minute, requests_per_unit: 3 }
  - key: ip
    rate_limit: { name: per-ip, unit: hour, requests_per_unit: 2 }
  - key: path
    value: /free
    rate_limit: { unlimited: true }
  - key: banned
    rate_limit: { name: banned, unit: second, requests_per_unit: 0 }
  - key: watched
    shadow_mode: true
    rate_limit: { name: watched, unit: minute, requests_per_unit: 1 }
";

/// The path of the only call of the rate limit service.
pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The runtime of all clients, which outlives the servers.
static CLIENTS: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// Runs the code of a client. It must end within [`DEADLINE`].
#[track_caller]
pub(crate) fn run<T>(code: impl Future<Output = T>) -> T {
    CLIENTS.block_on(async { tokio::time::timeout(DEADLINE, code).await.expect("it ends in time") })
}

/// A server with the limits of an Envoy file, and a client of its gRPC port.
pub(crate) struct Rls {
    pub(crate) client: RlsClient,
    pub(crate) server: TestServer,
}

impl Rls {
    pub(crate) fn start() -> Rls {
        Rls::with(|server| server)
    }

    pub(crate) fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Rls {
        Rls::of(TestServer::with_policy(envoy_policy(), change))
    }

    /// A server that runs already, with a client of it.
    pub(crate) fn of(server: TestServer) -> Rls {
        Rls { client: RlsClient::connect(server.grpc), server }
    }

    /// Asks about these descriptors.
    #[track_caller]
    pub(crate) fn ask(
        &self,
        descriptors: impl Into<Vec<RateLimitDescriptor>>,
    ) -> RateLimitResponse {
        self.call(request(descriptors)).unwrap()
    }

    pub(crate) fn call(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        run(self.client.call(request))
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.server.metric(name).unwrap_or(0)
    }
}

/// A connection to the gRPC port. Clones share it.
#[derive(Clone)]
pub(crate) struct RlsClient(pub(crate) Channel);

impl RlsClient {
    pub(crate) fn connect(address: SocketAddr) -> RlsClient {
        RlsClient(run(connect(address)))
    }

    pub(crate) async fn call(
        &self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        self.unary(SHOULD_RATE_LIMIT, Request::new(request)).await
    }

    pub(crate) async fn unary<Q, A>(
        &self,
        path: &'static str,
        request: Request<Q>,
    ) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.0.clone());
        client.ready().await.unwrap();
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let call = client.unary(request, PathAndQuery::from_static(path), codec);
        call.await.map(tonic::Response::into_inner)
    }
}

pub(crate) fn envoy_policy() -> Policy {
    Policy::from_envoy("edge.yaml", YAML).unwrap().policy
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) fn request(descriptors: impl Into<Vec<RateLimitDescriptor>>) -> RateLimitRequest {
    let descriptors = descriptors.into();
    RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

pub(crate) fn user(name: &str) -> RateLimitDescriptor {
    descriptor(&[("user", name)])
}

pub(crate) fn ip(address: &str) -> RateLimitDescriptor {
    descriptor(&[("ip", address)])
}

pub(crate) fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(DescriptorStatus::code).collect()
}

pub(crate) fn left(response: &RateLimitResponse) -> Vec<u32> {
    response.statuses.iter().map(|status| status.limit_remaining).collect()
}

pub(crate) fn header<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r str> {
    let mut headers = response.response_headers_to_add.iter();
    headers.find(|header| header.key == name).map(|header| header.value.as_str())
}
