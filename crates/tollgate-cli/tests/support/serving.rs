//! A server that listens anywhere, and what it says.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{Folder, command};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Served {
    pub(crate) child: Child,
    /// What it printed when it had started.
    pub(crate) said: String,
    pub(crate) address: String,
    /// Of the Redis protocol.
    pub(crate) resp: String,
    pub(crate) grpc: String,
    pub(crate) log: Arc<Mutex<String>>,
    logging: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Served {
        let mut child = command(folder.path(), &["serve"])
            .args(anywhere("--http", arguments).iter().chain(&anywhere("--resp", arguments)))
            .args(anywhere("--grpc", arguments))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            said += &line.expect("text");
            said.push('\n');
            if said.contains(" TG.CHECK ") {
                break;
            }
        }
        let address_of = |scheme: &str| {
            let address = said.split(scheme).nth(1).and_then(|rest| rest.split('\n').next());
            address.unwrap_or_default().to_owned()
        };
        let (address, resp) = (address_of("http://"), address_of("redis://"));
        let grpc = address_of("  grpc      ").split(',').next().unwrap_or_default().to_owned();
        let log = Arc::default();
        let stderr = child.stderr.take().expect("a pipe");
        let logging = Some(keep(stderr, Arc::clone(&log)));
        Served { child, said, address, resp, grpc, log, logging }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        stream
    }

    /// The whole answer to a request.
    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let mut stream = self.connect();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill can be run").success());
    }

    /// Its exit code and what it said on the way.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        wait("its end", || self.child.try_wait().expect("it is ours").is_some());
        self.logging.take().expect("it ends once").join().expect("text");
        let log = self.log.lock().expect("whole").clone();
        (self.child.wait().expect("it has ended").code(), log)
    }

    pub(crate) fn wait_for_log(&self, text: &str) {
        wait(text, || self.log.lock().expect("whole").contains(text));
    }
}

/// A free port, unless the arguments say where.
fn anywhere<'a>(listener: &'a str, arguments: &[&str]) -> Vec<&'a str> {
    if arguments.contains(&listener) { Vec::new() } else { vec![listener, "127.0.0.1:0"] }
}

/// Keeps what it says while it runs.
fn keep(stderr: ChildStderr, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let line = line.expect("text");
            log.lock().expect("whole").push_str(&format!("{line}\n"));
        }
    })
}

pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
