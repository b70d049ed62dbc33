//! A server of the binary on free ports.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::Folder;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// It is stopped when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) http: String,
    pub(crate) grpc: String,
    pub(crate) resp: String,
}

impl Served {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Served {
        let anywhere = ["--http", "--grpc", "--resp"].map(|port| [port, "127.0.0.1:0"]);
        let mut child = crate::support::command(folder.path(), &["serve"])
            .args(anywhere.concat())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built for this test");
        let mut said = String::new();
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            said += &format!("{}\n", line.expect("text"));
            if said.contains(" TG.CHECK ") {
                break;
            }
        }
        let address = |name: &str| {
            let after = said.split(&format!("  {name}  ")).nth(1).expect(name).trim_start();
            let end = after.find(['\n', ',']).unwrap_or(after.len());
            after[..end].rsplit('/').next().expect("an address").to_owned()
        };
        Served {
            http: address("http    "),
            grpc: address("grpc    "),
            resp: address("resp    "),
            child,
        }
    }

    /// The address of a protocol's port as a URL.
    pub(crate) fn url(&self, protocol: &str) -> String {
        match protocol {
            "http" => format!("http://{}", self.http),
            "rls" => format!("grpc://{}", self.grpc),
            _ => format!("redis://{}", self.resp),
        }
    }

    pub(crate) fn port(&self, protocol: &str) -> u16 {
        let url = self.url(protocol);
        url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// All decisions that it has made over a transport, by its own count.
    pub(crate) fn decided(&self, transport: &str, outcome: &str) -> u64 {
        let label = format!("outcome=\"{outcome}\",transport=\"{transport}\"");
        let metrics = self.metrics();
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("tollgate_decisions_total{") && line.contains(&label));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let request = "GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
