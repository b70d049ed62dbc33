//! A server on a free port, and a client that writes bytes.
#![allow(dead_code, clippy::unwrap_used, reason = "of tests, each of which uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tollgate::{Gate, ManualClock, MemoryStore, Policy};
use tollgate_server::{Backend, Server, ServerBuilder, Stopped};

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

/// A server that answers until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) grpc: Option<SocketAddr>,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Gate,
    pub(crate) admin_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Stopped>>,
}

impl Running {
    pub(crate) fn new() -> Running {
        Running::with(|server| server)
    }

    pub(crate) fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Running {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let policy = Policy::from_toml("test.toml", POLICY).unwrap().policy;
        let gate = Gate::on(store, policy).unwrap();
        Running::over(Backend::Memory(gate.clone()), (gate, clock), change)
    }

    /// Over another backend than the gate, which is then of no use.
    pub(crate) fn over(
        backend: Backend,
        (gate, clock): (Gate, ManualClock),
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Running {
        let anywhere = Some("127.0.0.1:0".parse().unwrap());
        let builder = change(
            Server::builder(backend).http(anywhere).grpc(anywhere).resp(anywhere).resp_threads(2),
        );
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(builder.bind()).unwrap();
        let (address, admin_address) = (server.http_address().unwrap(), server.admin_address());
        let (resp, grpc) = (server.resp_address(), server.grpc_address());
        let (stop, stopping) = oneshot::channel::<()>();
        let stopped = async move { drop(stopping.await) };
        let thread = std::thread::spawn(move || runtime.block_on(server.run(stopped)));
        let (stop, thread) = (Some(stop), Some(thread));
        Running { address, resp, grpc, clock, gate, admin_address, stop, thread }
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub(crate) fn stopped(&mut self) -> Stopped {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Running::connect_to(self.address)
    }

    fn connect_to(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Connection(BufReader::new(stream))
    }

    /// What the Redis protocol's port answers to these commands, as text.
    pub(crate) fn resp(&self, commands: &str) -> String {
        let mut stream = TcpStream::connect(self.resp.unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
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

    /// A request with these lines of headers.
    pub(crate) fn ask(&self, line: &str, headers: &[&str]) -> Answer {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        self.send(format!("{line} HTTP/1.1\r\nhost: t\r\n{headers}\r\n"))
    }

    /// The same, at another of its ports.
    pub(crate) fn ask_at(&self, address: SocketAddr, line: &str, headers: &[&str]) -> Answer {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let mut connection = Running::connect_to(address);
        connection.write(format!("{line} HTTP/1.1\r\nhost: t\r\n{headers}\r\n"));
        connection.read().expect("an answer")
    }

    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut connection = self.connect();
        connection.write(bytes);
        connection.read().expect("an answer")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that has refused may have closed already.
        let _ = self.0.get_mut().write_all(bytes.as_ref());
    }

    /// The next answer; `None` where the server has closed.
    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A problem of that status; what it says.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        problem
    }
}
