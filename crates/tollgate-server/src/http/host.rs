//! The names under which the server may be asked. DNS lets any site give its own name this server's
//! address; pages of that site then count as this server's own. They cannot choose the name that
//! their browser sends in `Host`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::header::{AUTHORIZATION, HOST, HeaderMap};
use http::{Request, StatusCode, Version};

use super::authorize::is_ext_authz;
use super::problem::{Problem, cut};
use crate::app::App;

/// The longest name of a host that DNS knows.
const MAX_NAME: usize = 253;

/// The name of a host, without a port: in lower case and without the dot at the end.
///
/// ```
/// use tollgate_server::HostName;
///
/// let name: HostName = "Tollgate.example.".parse()?;
/// assert_eq!(name.to_string(), "tollgate.example");
/// assert!("https://tollgate.example:8080".parse::<HostName>().is_err());
/// # Ok::<(), tollgate_server::HostNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(Box<str>);

/// A text that is not the name of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostNameError(());

/// The callers of a path, which differ in the names by which they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Orchestrators, which ask by address and some without a `Host`.
    Probes,
    /// Proxies, which pass on the `Host` and `Origin` of their clients.
    Proxies,
    /// Programs that ask for decisions and metrics.
    Programs,
    /// Operators and the dashboard.
    Operators,
}

impl Audience {
    pub(super) fn of(path: &str) -> Audience {
        let is_below = |folder| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest: &str| rest.is_empty() || rest.starts_with('/'))
        };
        if is_below("/v1/authorize") || is_ext_authz(path) {
            Audience::Proxies
        } else if path == "/healthz" || path == "/readyz" {
            Audience::Probes
        } else if path == "/" || is_below("/page") || is_below("/admin") {
            Audience::Operators
        } else {
            Audience::Programs
        }
    }
}

impl App {
    /// Returns the host that the request names, or the reason for which it is rejected. A request of
    /// HTTP/1.0 may name none.
    pub(super) fn named_host<'r, B>(
        &self,
        request: &'r Request<B>,
        audience: Audience,
    ) -> Result<Option<&'r str>, Problem> {
        if audience == Audience::Probes {
            return Ok(None);
        }
        let host = only_host(request)?;
        match host.map(host_without_port) {
            Some(name) if !self.answers_for(name, audience, request.headers()) => {
                Err(self.unknown_host(name))
            }
            _ => Ok(host),
        }
    }

    fn answers_for(&self, name: &str, audience: Audience, headers: &HeaderMap) -> bool {
        let allowed = &self.settings.allowed_hosts;
        match audience {
            Audience::Probes | Audience::Proxies => true,
            Audience::Programs if allowed.is_empty() => true,
            // No page of another site knows a token, whatever its name.
            Audience::Operators if allowed.is_empty() && headers.contains_key(AUTHORIZATION) => {
                true
            }
            // Names lead anywhere, addresses to where they say.
            _ => is_localhost(name) || is_address(name) || is_listed(name, allowed),
        }
    }

    fn unknown_host(&self, name: &str) -> Problem {
        let name = cut(name);
        if let Some(left_out) = self.unknown_hosts.may_log(self.backend.clock().now()) {
            tracing::warn!(
                host = name,
                left_out,
                "request rejected, its Host is not one of --allowed-host"
            );
        }
        let flag = name.parse::<HostName>();
        let flag = flag.map_or_else(|_| "NAME".to_owned(), |name| name.to_string());
        let detail = format!(
            "unknown host name {name:?}: start the server with --allowed-host {flag} \
             (allowed_hosts), or ask by its IP address or as localhost"
        );
        Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
    }
}

/// The one host that a request names. That of the target wins over `Host`, as RFC 9112 has it.
fn only_host<B>(request: &Request<B>) -> Result<Option<&str>, Problem> {
    let bad = |detail| Problem::new(StatusCode::BAD_REQUEST, detail);
    let mut hosts = request.headers().get_all(HOST).iter();
    let Some(host) = hosts.next() else {
        return match request.version() {
            Version::HTTP_11 => Err(bad("there is no Host header, and HTTP/1.1 needs one")),
            _ => Ok(None),
        };
    };
    if hosts.next().is_some() {
        return Err(bad("there are two Host headers, send one"));
    }
    match request.uri().authority() {
        Some(authority) => Ok(Some(authority.as_str())),
        // A name that is no text is no name of this server.
        None => Ok(Some(host.to_str().unwrap_or_default())),
    }
}

fn is_listed(name: &str, allowed: &[HostName]) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    allowed.iter().any(|allowed| allowed.0.eq_ignore_ascii_case(name))
}

/// Returns `true` if a host, with or without a port, can only mean this machine, whatever names DNS
/// gives to others.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = host_without_port(host);
    is_localhost(name) || address(name).is_some_and(|ip| ip.is_loopback())
}

/// Returns `true` if `origin`, which a browser sends, is that of a page of `host`.
pub(crate) fn is_origin_of(origin: &str, host: &str) -> bool {
    let without_default = |authority: &'_ str, port: &str| {
        authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase()
    };
    let is_same =
        |origin: &str, port: &str| without_default(origin, port) == without_default(host, port);
    match origin.split_once("://") {
        Some(("http", origin)) => is_same(origin, ":80"),
        Some(("https", origin)) => is_same(origin, ":443"),
        _ => false,
    }
}

fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

fn is_address(name: &str) -> bool {
    address(name).is_some()
}

/// The address that a name is, of version 6 in brackets.
fn address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<HostName, HostNameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !label.is_empty() && label.bytes().all(is_part)
        };
        if name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(HostNameError(()));
        }
        Ok(HostName(name.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be the name of a host without scheme, port and path, such as tollgate.example",
        )
    }
}

impl std::error::Error for HostNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_of_this_machine() {
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "127.9.9.9"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "localhost:x",
            "localhost.evil.example",
            "[localhost]",
            "[127.0.0.1]",
            "::1",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn an_address_is_no_name() {
        for host in ["10.0.0.1", "[2001:db8::1]", "0.0.0.0"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["10.0.0.1.example", "010.0.0.1", "1.2.3", "2001:db8::1", "", "[]"] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_that_of_its_host_and_port() {
        for (origin, host) in [
            ("http://tollgate.example:8080", "tollgate.example:8080"),
            ("http://tollgate.example", "Tollgate.Example"),
            ("http://tollgate.example", "tollgate.example:80"),
            ("https://tollgate.example", "tollgate.example:443"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert!(is_origin_of(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://tollgate.example:9999", "tollgate.example:8080"),
            ("http://tollgate.example", "tollgate.example:8080"),
            ("http://tollgate.example", "tollgate.example:443"),
            ("http://tollgate.example.evil.example", "tollgate.example"),
            ("http://evil.example", "tollgate.example"),
            ("null", "null"),
            ("null", ""),
            ("", ""),
            ("ftp://tollgate.example", "tollgate.example"),
        ] {
            assert!(!is_origin_of(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn a_host_name_has_no_scheme_port_or_path() {
        for right in ["tollgate", "a.b-c.example", "_x.example", "TOLLGATE.example."] {
            let name: HostName = right.parse().unwrap();
            assert!(is_listed(&right.to_ascii_uppercase(), &[name]), "{right}");
        }
        let longest = format!("{}a", "a.".repeat(126));
        assert!(longest.parse::<HostName>().is_ok());
        for wrong in [
            "",
            ".",
            "..",
            "a..b",
            "a:80",
            "http://a",
            "a/b",
            "a b",
            "*",
            "é",
            &format!("{longest}.a"),
        ] {
            assert_eq!(wrong.parse::<HostName>(), Err(HostNameError(())), "{wrong}");
        }
    }

    #[test]
    fn paths_belong_to_their_readers() {
        for (path, audience) in [
            ("/healthz", Audience::Probes),
            ("/v1/authorize", Audience::Proxies),
            ("/v1/authorize/403", Audience::Proxies),
            ("/v1/ext_authz/a/b", Audience::Proxies),
            ("/v1/authorized", Audience::Programs),
            ("/v1/check", Audience::Programs),
            ("/metrics", Audience::Programs),
            ("/", Audience::Operators),
            ("/page/main.js", Audience::Operators),
            ("/admin/v1/info", Audience::Operators),
        ] {
            assert_eq!(Audience::of(path), audience, "{path}");
        }
    }
}
