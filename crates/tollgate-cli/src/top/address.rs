//! Where the server is, and the token to show it.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use http::uri::{Authority, Scheme};

/// What must not be longer, so that a wrong file is not read to its end.
const MAX_TOKEN_FILE: u64 = 4096;

/// Where operators are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) tls: bool,
    pub(super) authority: Authority,
    /// What stands before `/admin/v1`, for a server behind a path of a proxy.
    prefix: String,
}

impl Server {
    /// Reads `http://127.0.0.1:8080`, with or without `/admin/v1` behind it.
    pub(super) fn read(text: &str) -> Result<Server, String> {
        let wrong =
            || format!("{text:?} is not the address of a server, such as http://127.0.0.1:8080");
        let with_scheme =
            if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(format!("{}, it must begin with http:// or https://", wrong())),
        };
        let authority = uri.authority().cloned().ok_or_else(wrong)?;
        if uri.query().is_some() || authority.as_str().contains('@') || authority.host().is_empty()
        {
            return Err(format!("{}, with nothing but a host, a port and a path", wrong()));
        }
        let path = uri.path().trim_end_matches('/');
        let prefix = path.strip_suffix("/admin/v1").unwrap_or(path).trim_end_matches('/');
        Ok(Server { tls, authority, prefix: prefix.to_owned() })
    }

    /// The host without the brackets of an address of version 6.
    pub(super) fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// Where a question is asked: `keys/status`.
    pub(super) fn path(&self, question: &str) -> String {
        format!("{}/admin/v1/{question}", self.prefix)
    }

    /// Whether others can read what is sent there.
    pub(super) fn is_overheard(&self) -> bool {
        let is_local = self.host() == "localhost"
            || self.host().parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        !self.tls && !is_local
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// Where a token is from.
#[derive(Clone)]
pub(super) enum Token {
    /// None, for a server with `--insecure-admin`.
    None,
    Given(String),
    /// Read for every connection, so that a new one is used without a restart.
    File(PathBuf),
}

impl Token {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Token::None)
    }

    /// The token, which can stand in a header; nothing of it is in the error.
    pub(super) fn get(&self) -> Result<Option<String>, String> {
        let (text, from) = match self {
            Token::None => return Ok(None),
            Token::Given(text) => (text.clone(), "the token".to_owned()),
            Token::File(path) => (read(path)?, format!("{}:1", path.display())),
        };
        let mut words = text.split_whitespace();
        match (words.next(), words.next()) {
            (Some(token), None) if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Some(token.to_owned()))
            }
            (None, _) => Err(format!("{from}: there is no token")),
            (Some(_), Some(_)) => Err(format!(
                "{from}: must be one token and nothing else; a list of names, roles and tokens is \
                 for the server's --admin-tokens"
            )),
            _ => Err(format!("{from}: a token must be of visible ASCII characters")),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text));
    read.map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_and_without_what_follows_it() {
        let read = [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "/admin/v1/info"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", "/admin/v1/info"),
            ("http://[::1]:8080/admin/v1", "http://[::1]:8080", "/admin/v1/info"),
            ("https://limits.example/a/", "https://limits.example/a", "/a/admin/v1/info"),
        ];
        for (text, shown, path) in read {
            let server = Server::read(text).unwrap();
            assert_eq!((server.to_string(), server.path("info")), (shown.into(), path.into()));
        }
        assert_eq!(Server::read("https://a.example").unwrap().port(), 443);
        assert_eq!(Server::read("http://[::1]").unwrap().host(), "::1");
        for text in ["", "ftp://a", "http://", "http://a:b@c", "http://a/?b", "http://a b"] {
            assert!(Server::read(text).unwrap_err().contains("such as http://127.0.0.1:8080"));
        }
    }

    #[test]
    fn only_this_machine_and_tls_are_not_overheard() {
        let overheard = |text| Server::read(text).unwrap().is_overheard();
        assert!(overheard("http://10.0.0.1:8080") && overheard("http://limits.example"));
        assert!(!overheard("http://127.0.0.1:8080") && !overheard("http://[::1]:8080"));
        assert!(!overheard("http://localhost:8080") && !overheard("https://10.0.0.1"));
    }

    #[test]
    fn a_token_is_one_word_and_never_in_an_error() {
        let get = |text: &str| Token::Given(text.to_owned()).get();
        assert_eq!(get(" 0123456789abcdef\n"), Ok(Some("0123456789abcdef".to_owned())));
        for (text, said) in
            [("", "no token"), ("ana write s3cret", "--admin-tokens"), ("s3crét", "ASCII")]
        {
            let error = get(text).unwrap_err();
            assert!(error.contains(said) && !error.contains("s3cr"), "{error}");
        }
        let missing = Token::File("/nowhere/token".into()).get().unwrap_err();
        assert!(missing.starts_with("/nowhere/token: cannot be read"), "{missing}");
    }
}
