//! What the server is told on the command line.

use std::net::SocketAddr;
use std::str::FromStr;

use http::HeaderName;
use tollgate_server::ProxyHeaders;
use tollgate_tower::ClientIp;

use crate::Failure;

/// An address, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listen(pub(super) Option<SocketAddr>);

/// Where state is kept.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum StoreAt {
    Memory,
    /// The URL may hold a password: it is never shown.
    Redis(String),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreAt, String> {
        match text.split_once("://") {
            None if text == "memory" => Ok(StoreAt::Memory),
            Some((scheme, _)) if scheme.starts_with("redis") => Ok(StoreAt::Redis(text.to_owned())),
            _ => Err("must be memory, or a URL such as redis://127.0.0.1:6379, rediss://host, \
                      redis+cluster://host1,host2 or redis+sentinel://host/name"
                .to_owned()),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        match text {
            "off" => Ok(Listen(None)),
            _ => text.parse().map(|address| Listen(Some(address))).map_err(|_| {
                "must be an address and a port, such as 127.0.0.1:8080 or [::]:8080, or off".into()
            }),
        }
    }
}

pub(super) fn proxy_headers(text: &str) -> Result<ProxyHeaders, String> {
    match text {
        "x-forwarded" => Ok(ProxyHeaders::XForwarded),
        "x-original" => Ok(ProxyHeaders::XOriginal),
        _ => Err("must be x-forwarded or x-original".to_owned()),
    }
}

pub(super) fn header_attribute(text: &str) -> Result<(String, HeaderName), String> {
    let right = "must be an attribute and a header, such as user=x-user-id";
    let (attribute, header) = text.split_once('=').ok_or(right)?;
    let header = HeaderName::from_str(header).map_err(|_| right)?;
    if attribute.is_empty() { Err(right.to_owned()) } else { Ok((attribute.to_owned(), header)) }
}

/// The client's address, behind proxies in these networks.
pub(super) fn trusted(networks: &[String]) -> Result<ClientIp, Failure> {
    let wrong = |error| Failure::Usage(vec![format!("--trusted-proxy: {error}")]);
    ClientIp::x_forwarded_for(networks).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_off_is_nowhere() {
        assert_eq!("off".parse(), Ok(Listen(None)));
        assert_eq!("[::1]:9".parse(), Ok(Listen(Some("[::1]:9".parse().unwrap()))));
        for wrong in ["", "8080", "localhost:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(wrong.parse::<Listen>().unwrap_err().contains("127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn a_store_is_memory_or_a_url_of_redis() {
        assert!(matches!("memory".parse(), Ok(StoreAt::Memory)));
        let url = "redis+cluster://a:1,b:2";
        assert!(matches!(url.parse(), Ok(StoreAt::Redis(of)) if of == url));
        for wrong in ["", "redis", "localhost:6379", "http://localhost"] {
            let error = wrong.parse::<StoreAt>().err().unwrap();
            assert!(error.contains("redis://127.0.0.1:6379"), "{wrong}");
        }
    }

    #[test]
    fn attributes_need_a_name_and_a_header() {
        let user = header_attribute("user=X-User-Id").unwrap();
        assert_eq!((user.0.as_str(), user.1.as_str()), ("user", "x-user-id"));
        for wrong in ["user", "user=", "=x-user", "user=x user", "user=ü"] {
            assert!(header_attribute(wrong).unwrap_err().contains("user=x-user-id"), "{wrong}");
        }
    }
}
