//! A server of the binary whose log is JSON, which says where it listens.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::support::Folder;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// It is stopped when dropped.
pub(crate) struct Logged {
    child: Child,
    lines: Receiver<String>,
    /// What it said until it listened, and what of that.
    pub(crate) before: Vec<Value>,
    pub(crate) listening: Value,
}

impl Logged {
    pub(crate) fn start(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> Logged {
        let listen = ["--http", "--grpc", "--resp"].map(|port| [port, "127.0.0.1:0"]).concat();
        let is_free = |pair: &&[&str]| !arguments.contains(&pair[0]);
        let mut child = crate::support::command(folder.path(), &["serve", "--log-format", "json"])
            .args(listen.chunks(2).filter(is_free).flatten())
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().try_for_each(|line| send.send(line.expect("text")))
        });
        let mut logged = Logged { child, lines, before: Vec::new(), listening: Value::Null };
        let mut seen = logged.until("listening");
        logged.listening = seen.pop().expect("the last");
        logged.before = seen;
        logged
    }

    /// The lines until one whose message holds this, which is the last.
    pub(crate) fn until(&self, message: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("in vain: {message} after {seen:?}"));
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            let is_last = line["message"].as_str().expect("a message").contains(message);
            seen.push(line);
            if is_last {
                return seen;
            }
        }
    }

    pub(crate) fn address(&self, name: &str) -> String {
        self.listening[name].as_str().unwrap_or_else(|| panic!("{}", self.listening)).to_owned()
    }

    /// Asks over HTTP: the head and the body of the answer.
    pub(crate) fn ask(&self, line: &str, headers: &[&str], body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address("http")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let mut request = format!("{line} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n");
        headers.iter().for_each(|header| request += &format!("{header}\r\n"));
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill can be run").success());
    }

    /// Stops it: the exit code, and what it has written to stdout.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut out).expect("text");
        (self.child.wait().expect("it ends").code(), out)
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
