//! Asking the server: HTTP/1.1, a connection for each question, everything within a bound.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Server, Token};
use super::told::{ProblemDocument, Sample};

/// An answer comes within this time, or it is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Events come every second: after so long without one nobody is there.
const SILENCE: Duration = Duration::from_secs(5);

/// Longer answers are not a server's of ours: an event of 64 rules and 20 keys has some 40 kB.
const MAX_ANSWER: usize = 4 << 20;

/// Why something was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Of the answer; none where there was no answer at all.
    pub(super) status: Option<u16>,
    pub(super) detail: String,
}

impl Problem {
    pub(super) fn no_answer(detail: impl Into<String>) -> Problem {
        Problem { status: None, detail: detail.into() }
    }

    /// Whether the server does not want to talk to whoever has this token.
    pub(super) fn turns_away(&self) -> bool {
        matches!(self.status, Some(401 | 403 | 429))
    }
}

/// A server, and how it is asked.
#[derive(Clone)]
pub(super) struct Client {
    server: Server,
    token: Token,
    tls: Option<Arc<ClientConfig>>,
}

impl Client {
    pub(super) fn new(server: Server, token: Token, tls: Option<Arc<ClientConfig>>) -> Client {
        Client { server, token, tls }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, question: &str) -> Result<T, Problem> {
        self.ask(Method::GET, question, Bytes::new()).await
    }

    /// Asks or changes something. What was sent once is never sent again by itself.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        question: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        let body =
            serde_json::to_vec(body).map_err(|error| Problem::no_answer(error.to_string()))?;
        self.ask(method, question, body.into()).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        question: &str,
        body: Bytes,
    ) -> Result<T, Problem> {
        let answer = timeout(PATIENCE, async {
            let response = self.open(method, question, body).await?;
            let bytes = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let bytes = bytes.map_err(|error| Problem::no_answer(told(&*error)))?.to_bytes();
            serde_json::from_slice(&bytes).map_err(|error| not_ours(&error))
        });
        answer.await.unwrap_or_else(|_| Err(too_slow()))
    }

    /// What goes on, as it goes on.
    pub(super) async fn events(&self) -> Result<Events, Problem> {
        let response = timeout(PATIENCE, self.open(Method::GET, "events", Bytes::new())).await;
        let response = response.unwrap_or_else(|_| Err(too_slow()))?;
        Ok(Events { body: response.into_body(), rest: Vec::new() })
    }

    /// The answer's head, if it is a good one.
    async fn open(
        &self,
        method: Method,
        question: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Problem> {
        let request = self.request(method, question, body)?;
        let address = (self.server.host(), self.server.port());
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| Problem::no_answer(format!("cannot connect: {error}")))?;
        // An answer is small, and somebody waits for it.
        let _ = stream.set_nodelay(true);
        let response = match &self.tls {
            None => exchange(stream, request).await?,
            Some(config) => {
                let name = ServerName::try_from(self.server.host().to_owned())
                    .map_err(|error| Problem::no_answer(error.to_string()))?;
                let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
                let connected = connected
                    .map_err(|error| Problem::no_answer(format!("TLS failed: {error}")))?;
                exchange(connected, request).await?
            }
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            _ => Err(refused(response).await),
        }
    }

    fn request(
        &self,
        method: Method,
        question: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Problem> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.server.path(question))
            .header(HOST, self.server.authority.as_str())
            .header(USER_AGENT, concat!("tollgate-top/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json, text/event-stream");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = self.token.get().map_err(Problem::no_answer)? {
            let bearer = HeaderValue::try_from(format!("Bearer {token}"));
            let mut bearer = bearer.map_err(|error| Problem::no_answer(error.to_string()))?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        request.body(Full::new(body)).map_err(|error| Problem::no_answer(error.to_string()))
    }
}

/// Sends a request, and goes on moving its answer's bytes in a task of its own.
async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, Problem>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broke = |error: hyper::Error| Problem::no_answer(told(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
    // It ends when the answer is read or dropped; what breaks is told to who reads.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(broke)
}

/// What the server says is wrong.
async fn refused(response: Response<Incoming>) -> Problem {
    let status = response.status();
    let bytes = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let document: ProblemDocument = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes.to_bytes()).ok())
        .unwrap_or_default();
    let detail = document.detail.or(document.title);
    let detail = detail.unwrap_or_else(|| format!("the answer is {status}"));
    Problem { status: Some(status.as_u16()), detail }
}

fn too_slow() -> Problem {
    Problem::no_answer(format!("no answer within {} seconds", PATIENCE.as_secs()))
}

fn not_ours(error: &serde_json::Error) -> Problem {
    Problem::no_answer(format!("the answer is not that of a tollgate server: {error}"))
}

/// An error with what caused it.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// A stream of server-sent events.
pub(super) struct Events {
    body: Incoming,
    /// What has come of the next event.
    rest: Vec<u8>,
}

impl Events {
    pub(super) async fn next(&mut self) -> Result<Box<Sample>, Problem> {
        let within = timeout(SILENCE, self.read()).await;
        within.unwrap_or_else(|_| {
            let seconds = SILENCE.as_secs();
            Err(Problem::no_answer(format!("nothing has come for {seconds} seconds")))
        })
    }

    async fn read(&mut self) -> Result<Box<Sample>, Problem> {
        loop {
            if let Some(event) = take_event(&mut self.rest) {
                if let Some(data) = data(&event) {
                    return serde_json::from_slice(data).map_err(|error| not_ours(&error));
                }
                continue;
            }
            let frame = match self.body.frame().await {
                None => return Err(Problem::no_answer("the server has ended the stream")),
                Some(frame) => frame.map_err(|error| Problem::no_answer(told(&error)))?,
            };
            if let Some(bytes) = frame.data_ref() {
                self.rest.extend_from_slice(bytes);
            }
            if self.rest.len() > MAX_ANSWER {
                return Err(Problem::no_answer("an event is longer than any of ours"));
            }
        }
    }
}

/// The first whole event, without the empty line that ends it.
fn take_event(rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = rest.windows(2).position(|two| two == b"\n\n")?;
    let event = rest[..end].to_vec();
    rest.drain(..end + 2);
    Some(event)
}

fn data(event: &[u8]) -> Option<&[u8]> {
    event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_they_come() {
        let stream = b"event: sample\ndata: {\"a\":1}\n\n: still here\n\ndata: 2\n\n";
        let (mut rest, mut seen) = (Vec::new(), Vec::new());
        for byte in stream {
            rest.push(*byte);
            while let Some(event) = take_event(&mut rest) {
                seen.push(data(&event).map(<[u8]>::to_vec));
            }
        }
        assert_eq!(seen, [Some(b"{\"a\":1}".to_vec()), None, Some(b"2".to_vec())]);
        assert!(rest.is_empty());
    }
}
