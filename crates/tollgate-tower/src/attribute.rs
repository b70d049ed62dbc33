//! Attributes: what the layer tells the gate of a request, and what it does where it cannot.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderName, StatusCode};
use tollgate::normalize_path;

use crate::client_ip::ClientIp;
use crate::error::LayerError;
use crate::head::Head;
use crate::value::Value;

/// An attribute of requests: its name, where it comes from, and what to do where it is missing.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: Box<str>,
    pub(crate) source: Source,
    pub(crate) missing: IfMissing,
}

/// What to do with a request that lacks an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfMissing {
    /// The request goes without it. Rules that count by it do not apply, unless they say what
    /// such requests count as; a limiter counts it as an empty text.
    Absent,
    /// It has this value.
    Text(Cow<'static, str>),
    /// The request is refused with this status: 400 where the client should have said it, 500
    /// where the server should have known it.
    Refuse(StatusCode),
}

impl IfMissing {
    /// It has this value.
    pub fn text(value: impl Into<Cow<'static, str>>) -> IfMissing {
        IfMissing::Text(value.into())
    }
}

/// Where an attribute comes from.
#[derive(Clone)]
pub struct Source(Kind);

type Closure = Arc<dyn for<'r> Fn(&Head<'r>) -> Option<Cow<'r, str>> + Send + Sync>;
pub(crate) type Later = Pin<Box<dyn Future<Output = Option<String>> + Send>>;
type AsyncClosure = Arc<dyn Fn(&Head<'_>) -> Later + Send + Sync>;

#[derive(Clone)]
enum Kind {
    ClientIp(ClientIp),
    Method,
    Path,
    RawPath,
    #[cfg(feature = "axum")]
    Route,
    Host,
    Header(HeaderName),
    Closure(Closure),
    Async(AsyncClosure),
}

impl Source {
    /// The client's address, as text.
    pub fn client_ip(client_ip: ClientIp) -> Source {
        Source(Kind::ClientIp(client_ip))
    }

    /// The method.
    pub fn method() -> Source {
        Source(Kind::Method)
    }

    /// The path in its [normal form](tollgate::normalize_path). A client may write as many as it
    /// likes: count by the route instead where there is one.
    pub fn path() -> Source {
        Source(Kind::Path)
    }

    /// The path as the client wrote it.
    pub fn raw_path() -> Source {
        Source(Kind::RawPath)
    }

    /// The route that axum has matched, such as `/users/{id}`: one for all users. Missing where no
    /// route matches.
    #[cfg(feature = "axum")]
    pub fn route() -> Source {
        Source(Kind::Route)
    }

    /// The host that was asked for, in lower case, without the port and without a dot at its end.
    pub fn host() -> Source {
        Source(Kind::Host)
    }

    /// A header. One that is repeated, or is not visible ASCII, is missing.
    ///
    /// # Errors
    /// Where the name is none.
    pub fn header(name: &str) -> Result<Source, LayerError> {
        let known = HeaderName::from_bytes(name.as_bytes());
        known
            .map(|name| Source(Kind::Header(name)))
            .map_err(|_| LayerError::HeaderName(name.into()))
    }

    /// What a function says of the request's head; `None` where the attribute is missing.
    ///
    /// Should it panic, the panic goes on through the service: the request is not served, and
    /// nothing is charged.
    pub fn from_fn<F>(read: F) -> Source
    where
        F: for<'r> Fn(&Head<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        Source(Kind::Closure(Arc::new(read)))
    }

    /// What an async function says of the request, such as the claims of a token that must be
    /// looked up. It takes what it needs from the head and gives back a future that owns it. The
    /// request waits for it: give it a time-out of its own.
    pub fn from_async<F, T>(read: F) -> Source
    where
        F: Fn(&Head<'_>) -> T + Send + Sync + 'static,
        T: Future<Output = Option<String>> + Send + 'static,
    {
        Source(Kind::Async(Arc::new(move |head| Box::pin(read(head)))))
    }

    /// The client's address, where that is the source.
    pub(crate) fn as_client_ip(&self) -> Option<&ClientIp> {
        match &self.0 {
            Kind::ClientIp(client_ip) => Some(client_ip),
            _ => None,
        }
    }

    /// Whether it has to be waited for.
    pub(crate) fn is_async(&self) -> bool {
        matches!(self.0, Kind::Async(_))
    }

    /// Returns the header it reads if the request has that more than once.
    pub(crate) fn repeated_header(&self, head: &Head<'_>) -> Option<&HeaderName> {
        let name = match &self.0 {
            Kind::Header(name) => name,
            Kind::Host if head.uri().host().is_none() => &HOST,
            _ => return None,
        };
        head.is_repeated(name).then_some(name)
    }

    /// Begins to look it up, where it has to be waited for.
    pub(crate) fn look_up(&self, head: &Head<'_>) -> Option<Later> {
        match &self.0 {
            Kind::Async(look_up) => Some(look_up(head)),
            _ => None,
        }
    }

    /// Its value, where it need not be waited for.
    pub(crate) fn read<'r>(&self, head: &Head<'r>) -> Option<Value<'r>> {
        match &self.0 {
            Kind::ClientIp(client_ip) => {
                let address = client_ip.of_request(head.extensions(), head.headers());
                address.map(Value::Ip)
            }
            Kind::Method => Some(Value::Borrowed(head.method().as_str())),
            Kind::Path => Some(Value::from(normalize_path(head.path()))),
            Kind::RawPath => Some(Value::Borrowed(head.path())),
            #[cfg(feature = "axum")]
            Kind::Route => {
                let matched = head.extension::<axum::extract::MatchedPath>()?;
                Some(Value::Borrowed(matched.as_str()))
            }
            Kind::Host => host(head),
            Kind::Header(name) => head.header(name.as_str()).map(Value::Borrowed),
            Kind::Closure(read) => read(head).map(Value::from),
            Kind::Async(_) => None,
        }
    }
}

fn host<'r>(head: &Head<'r>) -> Option<Value<'r>> {
    let host = match head.uri().host() {
        Some(host) => host,
        None => without_port(head.header(HOST.as_str())?),
    };
    // The dot of the root: the same host, in a name that is written out.
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() {
        None
    } else if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Some(Value::Owned(host.to_ascii_lowercase()))
    } else {
        Some(Value::Borrowed(host))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::ClientIp(client_ip) => client_ip.fmt(f),
            Kind::Method => f.write_str("Method"),
            Kind::Path => f.write_str("Path"),
            Kind::RawPath => f.write_str("RawPath"),
            #[cfg(feature = "axum")]
            Kind::Route => f.write_str("Route"),
            Kind::Host => f.write_str("Host"),
            Kind::Header(name) => write!(f, "Header({name})"),
            Kind::Closure(_) => f.write_str("Closure"),
            Kind::Async(_) => f.write_str("Async"),
        }
    }
}
