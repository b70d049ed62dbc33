//! A server with the limits of an Envoy file, and a client.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::{Gate, ManualClock, MemoryStore, Policy};
use tollgate_server::{Backend, Server, ServerBuilder, Stopped};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines
)]
pub(crate) mod proto {
    include!("../../src/grpc/generated/mod.rs");
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

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Rls {
    pub(crate) address: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Gate,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<Stopped>,
    channel: Channel,
}

impl Rls {
    pub(crate) async fn start() -> Rls {
        Rls::with(|server| server).await
    }

    pub(crate) async fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Rls {
        let clock = ManualClock::new();
        let gate = gate(&clock);
        Rls::over(gate.clone().into(), (gate, clock), change).await
    }

    /// Over `backend`; the gate and the clock are what the tests see of it.
    pub(crate) async fn over(
        backend: Backend,
        (gate, clock): (Gate, ManualClock),
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Rls {
        let free = Some("127.0.0.1:0".parse().unwrap());
        let server = change(Server::builder(backend).http(free).grpc(free));
        let server = server.bind().await.unwrap();
        let (address, http) = (server.grpc_address().unwrap(), server.http_address().unwrap());
        let (stop, stopping) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move { drop(stopping.await) }));
        let channel = connect(address).await;
        Rls { address, http, clock, gate, stop: Some(stop), task, channel }
    }

    /// Asks, in earnest.
    pub(crate) async fn ask(
        &self,
        descriptors: impl Into<Vec<RateLimitDescriptor>>,
    ) -> RateLimitResponse {
        self.call(request(descriptors)).await.unwrap()
    }

    pub(crate) async fn call(
        &self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        self.unary(path, request).await
    }

    pub(crate) async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await.unwrap();
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let call = client.unary(Request::new(request), PathAndQuery::from_static(path), codec);
        let answered = tokio::time::timeout(PATIENCE, call).await.expect("an answer");
        answered.map(tonic::Response::into_inner)
    }

    /// What is counted under a name.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = get(self.http, "/metrics").await;
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).map_or(0, |value| value.parse().unwrap())
    }

    /// How often clients of gRPC have gone over a bound.
    pub(crate) async fn over_bound(&self, bound: &str) -> u64 {
        let labels = format!("bound=\"{bound}\",transport=\"grpc\"");
        self.metric(&format!("tollgate_over_bounds_total{{{labels}}}")).await
    }

    pub(crate) async fn stopped(mut self) -> Stopped {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, self.task).await.expect("its end").unwrap()
    }
}

pub(crate) fn gate(clock: &ManualClock) -> Gate {
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    Gate::on(store, Policy::from_envoy("edge.yaml", YAML).unwrap().policy).unwrap()
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// The whole answer of the HTTP port.
pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    send(address, format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")).await
}

pub(crate) async fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    send(address, head + body).await
}

async fn send(address: SocketAddr, request: String) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
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
