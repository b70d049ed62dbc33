//! What a request says before its body.

use std::fmt;

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri};
use http_body::Body;

/// What a request says before its body: what attributes, costs and skips are read from.
#[derive(Clone, Copy)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    body_size: Option<u64>,
}

impl<'r> Head<'r> {
    /// The head of a request, and what its body says of its size.
    pub fn of<B: Body>(request: &'r Request<B>) -> Head<'r> {
        Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            body_size: request.body().size_hint().exact(),
        }
    }

    /// The method.
    pub fn method(&self) -> &'r Method {
        self.method
    }

    /// The URI.
    pub fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The path, without the query.
    pub fn path(&self) -> &'r str {
        self.uri.path()
    }

    /// All headers.
    pub fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// A header that is there once and is visible ASCII. One that is repeated says nothing: the
    /// next to read it might believe another of its values.
    pub fn header(&self, name: &str) -> Option<&'r str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?;
        if values.next().is_some() { None } else { first.to_str().ok() }
    }

    pub(crate) fn is_repeated(&self, name: &HeaderName) -> bool {
        self.headers.get_all(name).iter().nth(1).is_some()
    }

    /// What earlier layers, or the server, have put beside the request.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.get::<T>()
    }

    /// How many bytes the body has, where that is known before it is read.
    pub fn body_size(&self) -> Option<u64> {
        self.body_size
    }

    pub(crate) fn extensions(&self) -> &'r Extensions {
        self.extensions
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and query may hold secrets.
        f.debug_struct("Head")
            .field("method", self.method)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
