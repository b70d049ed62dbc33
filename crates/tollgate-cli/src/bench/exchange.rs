//! HTTP and gRPC: each request has its own answer.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde::Deserialize;
use tokio::sync::watch;
use tollgate_server::rls::{Code, RateLimitResponse};

use super::load::Asker;
use super::question::Intent;
use super::records::Outcome;
use super::target::{Protocol, Target};
use super::trouble::Trouble;

/// No answer to one request is longer.
const LONGEST_ANSWER: usize = 1024 * 1024;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// What sends requests over a connection.
pub(super) enum Sender {
    Http(http1::SendRequest<Full<Bytes>>),
    Rls(http2::SendRequest<Full<Bytes>>),
}

/// A connection: so many senders as it has requests at once, and a sign when it has ended.
pub(super) struct Connected {
    pub(super) senders: Vec<Sender>,
    pub(super) ended: watch::Receiver<Option<Trouble>>,
}

#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

impl Connected {
    pub(super) async fn new(asker: &Asker) -> Result<Connected, String> {
        let io = TokioIo::new(asker.dialler.dial().await?);
        let (end, ended) = watch::channel(None);
        let senders = match asker.target.protocol {
            Protocol::Rls => {
                let shaken = http2::handshake(TokioExecutor::new(), io).await;
                let (sender, connection) = shaken.map_err(|error| told(&error))?;
                tokio::spawn(async move {
                    let _ = end.send(Some(ended_by(connection.await)));
                });
                (0..asker.pipeline).map(|_| Sender::Rls(sender.clone())).collect()
            }
            _ => {
                let shaken = http1::handshake(io).await;
                let (sender, connection) = shaken.map_err(|error| told(&error))?;
                tokio::spawn(async move {
                    let _ = end.send(Some(ended_by(connection.await)));
                });
                vec![Sender::Http(sender)]
            }
        };
        Ok(Connected { senders, ended })
    }
}

/// What has become of a connection: whoever waits on it for an answer is told less.
fn ended_by(end: hyper::Result<()>) -> Trouble {
    match end {
        Ok(()) => Trouble::lost("closed"),
        Err(error) => trouble(&error),
    }
}

impl Sender {
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Sender::Http(sender) => sender.is_closed(),
            Sender::Rls(sender) => sender.is_closed(),
        }
    }

    /// Whether others use the same connection.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Sender::Rls(_))
    }

    /// Asks, and reads the answer to its end.
    pub(super) async fn ask(&mut self, asker: &Asker, number: u64, intent: Intent) -> Outcome {
        let body = asker.questions.write(asker.target.protocol, number, intent);
        let head = if intent == Intent::Peek { &asker.heads.peek } else { &asker.heads.check };
        let request = head.clone().map(|()| Full::new(Bytes::from(body)));
        let asked = match self {
            Sender::Http(sender) => match sender.ready().await {
                Ok(()) => sender.send_request(request).await,
                Err(error) => Err(error),
            },
            Sender::Rls(sender) => sender.send_request(request).await,
        };
        let read = match asked {
            Ok(answer) => match self {
                Sender::Http(_) => decision(answer).await,
                Sender::Rls(_) => verdict(answer).await,
            },
            Err(error) => Err(trouble(&error)),
        };
        read.unwrap_or_else(Outcome::Failed)
    }
}

/// The heads of requests, which are always the same.
pub(super) struct Heads {
    check: Request<()>,
    peek: Request<()>,
}

impl Heads {
    pub(super) fn new(target: &Target) -> Result<Heads, String> {
        let head = |path: &str| {
            let authority = target.authority();
            let scheme = if target.tls { "https" } else { "http" };
            let request = match target.protocol {
                Protocol::Rls => Request::post(format!("{scheme}://{authority}{path}"))
                    .header(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))
                    .header(TE, HeaderValue::from_static("trailers")),
                _ => Request::post(path)
                    .header(HOST, authority)
                    .header(CONTENT_TYPE, HeaderValue::from_static("application/json")),
            };
            request.body(()).map_err(|error| error.to_string())
        };
        match target.protocol {
            Protocol::Rls => {
                Ok(Heads { check: head(SHOULD_RATE_LIMIT)?, peek: head(SHOULD_RATE_LIMIT)? })
            }
            _ => Ok(Heads {
                check: head(&format!("{}/v1/check", target.path))?,
                peek: head(&format!("{}/v1/peek", target.path))?,
            }),
        }
    }
}

async fn decision(answer: Response<Incoming>) -> Result<Outcome, Trouble> {
    let status = answer.status();
    let (body, _) = whole(answer).await?;
    if !status.is_success() {
        return Err(Trouble::answered(format!("status {}", status.as_u16()), &body));
    }
    match serde_json::from_slice::<Decision>(&body) {
        Ok(Decision { allowed: true }) => Ok(Outcome::Allowed),
        Ok(Decision { allowed: false }) => Ok(Outcome::Refused),
        Err(_) => {
            let said = String::from_utf8_lossy(&body);
            Err(Trouble::not_understood(format!("no decision: {said}")))
        }
    }
}

async fn verdict(answer: Response<Incoming>) -> Result<Outcome, Trouble> {
    let (status, head) = (answer.status(), answer.headers().clone());
    let (body, trailers) = whole(answer).await?;
    // Where there is no message, the head has what trailers would.
    let of = |name: &HeaderName| trailers.as_ref().and_then(|all| all.get(name)).or(head.get(name));
    let Some(code) = of(&GRPC_STATUS) else {
        let said = String::from_utf8_lossy(&body);
        return Err(Trouble::not_understood(format!("{status}, and no grpc-status: {said}")));
    };
    if code != "0" {
        let said = of(&GRPC_MESSAGE).map_or(&b""[..], HeaderValue::as_bytes);
        let code = String::from_utf8_lossy(code.as_bytes()).into_owned();
        return Err(Trouble::answered(format!("gRPC status {code}"), said));
    }
    let message = body.get(5..).and_then(|message| RateLimitResponse::decode(message).ok());
    match message.and_then(|message| Code::try_from(message.overall_code).ok()) {
        Some(Code::Ok) => Ok(Outcome::Allowed),
        Some(Code::OverLimit) => Ok(Outcome::Refused),
        _ => Err(Trouble::not_understood("no verdict in the message")),
    }
}

/// All of an answer.
async fn whole(answer: Response<Incoming>) -> Result<(Bytes, Option<HeaderMap>), Trouble> {
    match Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned();
            Ok((collected.to_bytes(), trailers))
        }
        Err(error) => match error.downcast_ref::<hyper::Error>() {
            Some(error) => Err(trouble(error)),
            None => Err(Trouble::not_understood(error.to_string())),
        },
    }
}

fn trouble(error: &hyper::Error) -> Trouble {
    let said = told(error);
    // What came is no HTTP, or HTTP of the other version.
    let is_other = error.is_parse()
        || ["unexpected message", "frame", "protocol error"].iter().any(|sign| said.contains(sign));
    if is_other { Trouble::not_understood(said) } else { Trouble::lost(said) }
}

/// An error with what lies beneath it.
fn told(error: &hyper::Error) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        said += &format!(": {error}");
        source = error.source();
    }
    said
}
