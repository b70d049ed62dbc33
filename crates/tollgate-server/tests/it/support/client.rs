//! A client that writes bytes, and the answers of the HTTP port.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tollgate_testkit::DEADLINE;

pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Connection(BufReader::new(stream))
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that has refused may have closed already.
        let _ = self.0.get_mut().write_all(bytes.as_ref());
    }

    /// Reads the next answer; `None` if the server has closed the connection.
    ///
    /// # Panics
    /// If neither happens within [`DEADLINE`].
    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut answer = self.read_head()?;
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        in_time(self.0.read_exact(&mut body))?;
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }

    /// Reads the head of the next answer, which is all of the answer to HEAD; `None` if the server
    /// has closed the connection.
    pub(crate) fn read_head(&mut self) -> Option<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Some(Answer { status, headers, body: String::new() })
    }

    /// Reads a line with its end; `None` if the server has closed the connection.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        in_time(self.0.read_line(&mut line))?;
        (!line.is_empty()).then_some(line)
    }

    /// Whether there is something to read now.
    pub(crate) fn is_answered(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }
}

/// `None` for a connection that has ended; a read that took too long fails the test.
fn in_time<T>(read: std::io::Result<T>) -> Option<T> {
    if let Err(error) = &read
        && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    {
        panic!("the server neither answered nor closed within {DEADLINE:?}");
    }
    read.ok()
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

    /// The problem in the answer, which has that status.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        problem
    }

    /// The sentence of the problem in the answer, which has that status.
    #[track_caller]
    pub(crate) fn detail(&self, status: u16) -> String {
        let problem = self.problem(status);
        problem["detail"].as_str().unwrap_or_else(|| panic!("no detail in {problem}")).to_owned()
    }
}
