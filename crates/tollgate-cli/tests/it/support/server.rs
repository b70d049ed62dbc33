//! A `tollgate serve` process on free ports.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tollgate_testkit::{DEADLINE, eventually};

use super::output::{Output, addresses_in_banner, addresses_in_log, events, log_text};
use super::{Folder, Said, command, transcript};

/// A running server, killed when it is dropped.
pub(crate) struct TestServer {
    line: String,
    child: Child,
    stdout: Output,
    stderr: Output,
    /// The addresses by protocol: http, grpc, resp, health and admin.
    addresses: BTreeMap<String, String>,
    /// The number of events that [`events_until`](Self::events_until) has returned.
    read_events: Cell<usize>,
}

/// The answer to a request over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl TestServer {
    /// Starts a server and waits until it listens.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> TestServer {
        TestServer::with_variables(folder, &[], arguments)
    }

    /// Starts a server whose log is JSON, and waits until it listens.
    pub(crate) fn with_json_log(folder: &Folder, arguments: &[&str]) -> TestServer {
        TestServer::start(folder, &[&["--log-format", "json"], arguments].concat())
    }

    /// Starts a server with variables and waits until it listens: on free ports, unless the
    /// arguments name others.
    pub(crate) fn with_variables(
        folder: &Folder,
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> TestServer {
        TestServer::spawn(command(folder.path(), &["serve"]), variables, arguments)
    }

    /// Starts a server whose process may have this many files open, and may raise that to `hard`.
    pub(crate) fn with_file_limits(
        folder: &Folder,
        (soft, hard): (u32, u32),
        arguments: &[&str],
    ) -> TestServer {
        let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard}");
        TestServer::after_shell(folder, &limits, arguments)
    }

    /// Starts a server that cannot write files of more than this many blocks of 512 or 1024 bytes:
    /// what is longer fails as on a full disk.
    pub(crate) fn with_file_size_limit(
        folder: &Folder,
        blocks: u32,
        arguments: &[&str],
    ) -> TestServer {
        // The signal would end the process before the error reaches it.
        TestServer::after_shell(folder, &format!("trap '' XFSZ && ulimit -f {blocks}"), arguments)
    }

    /// Starts a server in the place of a shell that has run `commands`.
    fn after_shell(folder: &Folder, commands: &str, arguments: &[&str]) -> TestServer {
        let script = format!("{commands} && exec \"$0\" \"$@\"");
        let tollgate = command(folder.path(), &["serve"]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(tollgate.get_program()).args(tollgate.get_args());
        shell.current_dir(folder.path());
        for (removed, _) in tollgate.get_envs().filter(|(_, value)| value.is_none()) {
            shell.env_remove(removed);
        }
        TestServer::spawn(shell, &[], arguments)
    }

    fn spawn(mut tollgate: Command, variables: &[(&str, &str)], arguments: &[&str]) -> TestServer {
        let ports = ["--http", "--grpc", "--resp"];
        let free = ports.into_iter().filter(|port| !arguments.contains(port));
        let mut child = tollgate
            .args(free.flat_map(|port| [port, "127.0.0.1:0"]))
            // So few that no system warns of its limit of open files.
            .env("TOLLGATE_BOUNDS_CONNECTIONS", "200")
            .env("TOLLGATE_BOUNDS_RESP_CONNECTIONS", "100")
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let stdout = Output::of(child.stdout.take().expect("a pipe"));
        let stderr = Output::of(child.stderr.take().expect("a pipe"));
        let addresses = eventually("a server that listens", || {
            let ended = child.try_wait().expect("the process is a child of this one");
            assert!(ended.is_none(), "{ended:?}: {}", stderr.so_far());
            addresses_in_banner(&stdout.so_far()).or_else(|| addresses_in_log(&stderr.so_far()))
        });
        let line = transcript::command_line(variables, &[&["serve"], arguments].concat());
        TestServer { line, child, stdout, stderr, addresses, read_events: Cell::new(0) }
    }

    /// The address of a protocol: http, grpc, resp, health or admin.
    pub(crate) fn address(&self, protocol: &str) -> &str {
        self.addresses.get(protocol).unwrap_or_else(|| panic!("{protocol} is off"))
    }

    pub(crate) fn port(&self, protocol: &str) -> u16 {
        let port = self.address(protocol).rsplit(':').next();
        port.and_then(|port| port.parse().ok()).expect("an address ends with a port")
    }

    /// The URL that `tollgate bench` takes for a protocol: http, rls or resp.
    pub(crate) fn url(&self, protocol: &str) -> String {
        let (scheme, protocol) = match protocol {
            "http" => ("http", "http"),
            "rls" => ("grpc", "grpc"),
            _ => ("redis", "resp"),
        };
        format!("{scheme}://{}", self.address(protocol))
    }

    /// Everything on stdout so far: the banner.
    pub(crate) fn banner(&self) -> String {
        self.stdout.so_far()
    }

    /// A text with placeholders such as `{http}` instead of the addresses.
    pub(crate) fn without_addresses(&self, text: &str) -> String {
        let hide = |text: String, (protocol, address): (&String, &String)| {
            let port = address.rsplit(':').next().expect("an address ends with a port");
            let text = text.replace(address, &format!("{{{protocol}}}"));
            text.replace(&format!("-p {port} "), &format!("-p {{{protocol} port}} "))
        };
        self.addresses.iter().rev().fold(text.to_owned(), hide)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address("http")).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        stream
    }

    /// Sends a request such as `GET /readyz` over HTTP.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        headers.iter().for_each(|header| request += &format!("{header}\r\n"));
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the server reads");
        read_answer(&mut stream)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.request(&format!("POST {path}"), &[], body)
    }

    /// The value of a metric, such as `tollgate_policy_version`, with its labels if it has any.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{name} is not in\n{metrics}"))
    }

    /// The number of decisions over a transport, by the server's own count.
    pub(crate) fn decisions(&self, transport: &str, outcome: &str) -> u64 {
        let labels = format!("outcome=\"{outcome}\",transport=\"{transport}\"");
        let metrics = self.get("/metrics").body;
        let lines = metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{"));
        let values = lines.filter(|line| line.contains(&labels)).map(|line| {
            let value = line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
            value.unwrap_or_else(|| panic!("{line} has no count"))
        });
        values.sum()
    }

    /// All events of a log in JSON so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.stderr.so_far())
    }

    /// Waits for an event, and returns the events since the last call up to that one.
    pub(crate) fn events_until(&self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let first = self.read_events.get();
        eventually("an event in the log", || {
            let events = self.events();
            let last = events.iter().skip(first).position(&is_last);
            let end = first + last.ok_or_else(|| events.clone())? + 1;
            self.read_events.set(end);
            Ok::<_, Vec<Value>>(events[first..end].to_vec())
        })
    }

    /// The events of a log for a golden file, see [`log_text`], without addresses.
    pub(crate) fn log_text(&self, events: &[Value]) -> String {
        self.without_addresses(&log_text(events))
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(mut self) -> Said {
        let status = eventually("the end of the server", || {
            self.child.try_wait().expect("the process is a child of this one")
        });
        let (out, err) = (self.stdout.whole(), self.stderr.whole());
        Said { line: self.line.clone(), code: status.code(), out, err }
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn stop(self) -> Said {
        self.signal("TERM");
        self.ended()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal such as `TERM` to a process.
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
    assert!(sent.expect("kill can be run").success());
}

/// Reads an answer until the server closes the connection.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server answers");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text} has no head"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{head} has no status"));
    Answer { status, body: body.to_owned() }
}
