//! A server on free ports, and clients of it.
#![allow(dead_code, unused_imports, reason = "each test binary uses some of it")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod client;
mod texts;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tollgate::{Gate, ManualClock, MemoryStore, Policy};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_server::{Backend, Server, ServerBuilder, Stopped};
use tollgate_testkit::DEADLINE;

pub(crate) use client::{Answer, Connection};
pub(crate) use texts::{Texts, golden};

pub(crate) const POLICY: &str = r#"
[[deny]]
name = "banned"
match = { user = "mallory" }

[[rule]]
name = "per-user"
match = { user = { present = true } }
key = ["user"]
limit = "10/min"

[[rule]]
name = "per-ip"
key = ["ip"]
limit = "2/min"

[[rule]]
name = "quiet"
key = ["watched"]
limit = "1/min"
shadow = true
"#;

/// A server with every port open, which stops when it is dropped. It has its own runtime,
/// which outlives the server's stop: do not start or drop it in async code.
pub(crate) struct TestServer {
    /// The address of the HTTP port.
    pub(crate) address: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) health: Option<SocketAddr>,
    /// The clock of the store in memory.
    pub(crate) clock: ManualClock,
    gate: Option<Gate>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Stopped>>,
    runtime: Runtime,
}

impl TestServer {
    /// Starts a server with [`POLICY`] over a store in memory with a manual clock.
    pub(crate) fn start() -> TestServer {
        TestServer::with(|server| server)
    }

    pub(crate) fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> TestServer {
        TestServer::with_policy(policy(POLICY), change)
    }

    pub(crate) fn with_policy(
        policy: Policy,
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> TestServer {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let gate = Gate::with_store(store, policy).unwrap();
        let mut server = TestServer::over(gate.clone(), change);
        (server.gate, server.clock) = (Some(gate), clock);
        server
    }

    /// Starts a server over any backend.
    pub(crate) fn over(
        backend: impl Into<Backend>,
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> TestServer {
        TestServer::observed(backend, change, |_| ())
    }

    /// The same; `observe` gets the server before it runs.
    pub(crate) fn observed(
        backend: impl Into<Backend>,
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
        observe: impl FnOnce(&Server),
    ) -> TestServer {
        let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let builder = Server::builder(backend).http(free).grpc(free).resp(free).resp_threads(2);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(change(builder).bind()).unwrap();
        observe(&server);
        let address = server.http_address().unwrap();
        let (resp, grpc) = (server.resp_address().unwrap(), server.grpc_address().unwrap());
        let (admin, health) = (server.admin_address(), server.health_address());
        let (stop, stopping) = oneshot::channel::<()>();
        let running = runtime.spawn(server.run(async { drop(stopping.await) }));
        let (stop, running) = (Some(stop), Some(running));
        let clock = ManualClock::new();
        TestServer { address, resp, grpc, admin, health, clock, gate: None, stop, running, runtime }
    }

    /// The gate of a server in memory.
    pub(crate) fn gate(&self) -> &Gate {
        self.gate.as_ref().expect("the server keeps its state in memory")
    }

    /// Asks the server to stop, and does not wait for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Stops the server. It must have stopped within [`DEADLINE`].
    pub(crate) fn stopped(&mut self) -> Stopped {
        self.stop();
        let running = self.running.take().expect("the server runs");
        let stopped = self.runtime.block_on(async { timeout(DEADLINE, running).await });
        stopped.expect("the server stops in time").unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    /// The answers of the Redis protocol's port to these commands, as text.
    pub(crate) fn resp(&self, commands: &str) -> String {
        let mut stream = TcpStream::connect(self.resp).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        answers.strip_suffix("+OK\r\n").unwrap_or_else(|| panic!("{answers:?}")).to_owned()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    /// Sends a request with these lines of headers.
    pub(crate) fn ask(&self, line: &str, headers: &[&str]) -> Answer {
        self.ask_at(self.address, line, headers)
    }

    /// [`ask`](Self::ask) at another of the server's ports.
    pub(crate) fn ask_at(&self, address: SocketAddr, line: &str, headers: &[&str]) -> Answer {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let mut connection = Connection::to(address);
        connection.write(format!("{line} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"));
        connection.read().expect("an answer")
    }

    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut connection = self.connect();
        connection.write(bytes);
        connection.read().expect("an answer")
    }

    /// The text of `/metrics`.
    pub(crate) fn metrics(&self) -> String {
        self.ask("GET /metrics", &[]).body
    }

    /// The value of a series on `/metrics`, such as `tollgate_holds`, with its labels if any.
    pub(crate) fn metric(&self, series: &str) -> Option<u64> {
        metric_in(&self.metrics(), series)
    }

    /// The number of decisions over a transport, by rule and outcome, of requests without a tier.
    pub(crate) fn decisions(&self, rule: &str, outcome: &str, transport: &str) -> u64 {
        let labels =
            format!("rule=\"{rule}\",tier=\"\",outcome=\"{outcome}\",transport=\"{transport}\"");
        self.metric(&format!("tollgate_decisions_total{{{labels}}}")).unwrap_or(0)
    }

    /// The number of times that clients of a transport went over a bound.
    pub(crate) fn over_bound(&self, bound: &str, transport: &str) -> u64 {
        let series =
            format!("tollgate_over_bounds_total{{bound=\"{bound}\",transport=\"{transport}\"}}");
        self.metric(&series).unwrap_or_else(|| panic!("{series} in\n{}", self.metrics()))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.running.is_some() && !std::thread::panicking() {
            self.stopped();
        }
    }
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::from_toml("test.toml", text).unwrap().policy
}

/// A gate over the Redis at `url`. A slow machine is no outage.
pub(crate) fn redis_gate(url: &str, namespace: &str, policy: Policy) -> RedisGate {
    let store = RedisStore::builder(url).timeout(DEADLINE).connect_timeout(DEADLINE);
    let gate = RedisGate::builder(store.open().unwrap()).namespace(namespace);
    gate.build(policy).unwrap()
}

/// The value of a series in the text of `/metrics`.
pub(crate) fn metric_in(metrics: &str, series: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    metrics.lines().find_map(value)
}

/// Whether a line is in the text of `/metrics`.
#[track_caller]
pub(crate) fn assert_line(metrics: &str, line: &str) {
    assert!(metrics.lines().any(|of| of == line), "{line} in\n{metrics}");
}
