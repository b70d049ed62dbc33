//! Which server is loaded, and how it is spoken to.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use percent_encoding::percent_decode_str;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `POST /v1/check`.
    Http,
    /// Envoy's rate limit service over gRPC.
    Rls,
    /// The Redis protocol.
    Resp,
}

/// A server's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    pub(super) tls: bool,
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What stands before `/v1/check`, without a slash at its end.
    pub(super) path: String,
    /// What a server of the Redis protocol wants to hear first.
    pub(super) password: Option<String>,
}

/// Each scheme, and where `tollgate serve` listens for it.
const SCHEMES: [(&str, Protocol, bool); 8] = [
    ("http", Protocol::Http, false),
    ("https", Protocol::Http, true),
    ("grpc", Protocol::Rls, false),
    ("grpcs", Protocol::Rls, true),
    ("rls", Protocol::Rls, false),
    ("redis", Protocol::Resp, false),
    ("rediss", Protocol::Resp, true),
    ("resp", Protocol::Resp, false),
];

impl Protocol {
    /// The port of `tollgate serve` where nobody says another.
    fn port(self) -> u16 {
        match self {
            Protocol::Http => 8080,
            Protocol::Rls => 8081,
            Protocol::Resp => 6380,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Rls => "rls",
            Protocol::Resp => "resp",
        }
    }

    /// What it is called in a message.
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "HTTP",
            Protocol::Rls => "gRPC",
            Protocol::Resp => "the Redis protocol",
        }
    }

    /// The scheme of its URLs.
    pub(super) fn scheme(self, tls: bool) -> &'static str {
        match (self, tls) {
            (Protocol::Http, false) => "http",
            (Protocol::Http, true) => "https",
            (Protocol::Rls, false) => "grpc",
            (Protocol::Rls, true) => "grpcs",
            (Protocol::Resp, false) => "redis",
            (Protocol::Resp, true) => "rediss",
        }
    }
}

impl Target {
    /// The host and the port, as a URL has them.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The same target said with TLS, or without.
    pub(super) fn with_tls(&self, tls: bool) -> Target {
        Target { tls, ..self.clone() }
    }
}

/// Without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.protocol.scheme(self.tls);
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let known = |word: &str| SCHEMES.into_iter().find(|(name, ..)| *name == word);
        if let Some((_, protocol, false)) = known(text) {
            return Ok(Target {
                protocol,
                tls: false,
                host: "127.0.0.1".to_owned(),
                port: protocol.port(),
                path: String::new(),
                password: None,
            });
        }
        let wrong = |what: &str| {
            format!(
                "{what}, use http, rls, resp or a URL such as http://127.0.0.1:8080, \
                 grpc://127.0.0.1:8081 or redis://127.0.0.1:6380"
            )
        };
        let uri: Uri = text.parse().map_err(|_| wrong("is neither a protocol nor a URL"))?;
        let scheme = uri.scheme_str().ok_or_else(|| wrong("has no scheme"))?;
        let (_, protocol, tls) = known(scheme).ok_or_else(|| wrong("has an unknown scheme"))?;
        let port = uri.port_u16().filter(|port| *port > 0);
        let port = port.ok_or_else(|| wrong("has no port"))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("has no host"))?;
        let path = uri.path().trim_end_matches('/');
        if uri.query().is_some() || (protocol != Protocol::Http && !path.is_empty()) {
            return Err(wrong("has something after the port"));
        }
        let password = password(&uri);
        if password.is_some() && protocol != Protocol::Resp {
            return Err("a password goes only with redis:// and rediss://".to_owned());
        }
        Ok(Target {
            protocol,
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            path: path.to_owned(),
            password,
        })
    }
}

/// The password of `redis://:password@host` or `redis://user:password@host`.
fn password(uri: &Uri) -> Option<String> {
    let (user, _) = uri.authority()?.as_str().rsplit_once('@')?;
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    Some(percent_decode_str(password).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Target {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_word_is_the_port_of_a_server_that_was_told_nothing() {
        assert_eq!(read("http").to_string(), "http://127.0.0.1:8080");
        assert_eq!(read("rls").to_string(), "grpc://127.0.0.1:8081");
        assert_eq!(read("resp").to_string(), "redis://127.0.0.1:6380");
    }

    #[test]
    fn a_url_says_protocol_tls_and_place() {
        for text in [
            "https://limits.example:443",
            "http://127.0.0.1:8080/behind/a/proxy",
            "grpcs://[::1]:8081",
            "rediss://localhost:6380",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("grpc://[::1]:8081").host, "::1");
        assert_eq!(read("http://h:1/").path, "");
        let secret = read("redis://ana:p%40ss:w@127.0.0.1:6380");
        assert_eq!(secret.password.as_deref(), Some("p@ss:w"));
        assert_eq!(secret.to_string(), "redis://127.0.0.1:6380", "it is never shown");
        assert_eq!(read("redis://:pw@h:1").password.as_deref(), Some("pw"));
    }

    #[test]
    fn what_is_no_target_is_told_with_what_would_be() {
        for (text, says) in [
            ("htp", "has no scheme"),
            ("ftp://h:1", "unknown scheme"),
            ("http://h", "has no port"),
            ("http://h:0", "has no port"),
            ("http://:80", "URL"),
            ("redis://h:1/0", "after the port"),
            ("http://h:1?x=1", "after the port"),
            ("http://a:b@h:1", "only with redis://"),
            ("", "neither"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
