//! TLS: whom we trust, who we are, and what a failed handshake means.

use redis::ConnectionInfo;

use crate::error::StoreError;
use crate::query::UrlQuery;

/// Files that a URL names, in PEM.
pub(crate) struct RedisTlsFiles {
    /// The authorities that are trusted instead of the machine's.
    ca: Option<String>,
    /// Who we are, and the key to it.
    cert: Option<String>,
    key: Option<String>,
}

impl RedisTlsFiles {
    pub(crate) fn take_out_of(query: &mut UrlQuery<'_>) -> Result<RedisTlsFiles, StoreError> {
        let (ca, cert) = (query.take("ca")?, query.take("cert")?);
        Ok(RedisTlsFiles { ca, cert, key: query.take("key")? })
    }

    /// Reads them, for a connection by TLS.
    pub(crate) fn put_into(&self, info: ConnectionInfo) -> Result<ConnectionInfo, StoreError> {
        if self.ca.is_none() && self.cert.is_none() && self.key.is_none() {
            return Ok(info);
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err(StoreError::Url("cert and key must be given together".to_owned()));
        }
        self.read_into(info)
    }

    #[cfg(not(feature = "tls"))]
    fn read_into(&self, _: ConnectionInfo) -> Result<ConnectionInfo, StoreError> {
        Err(StoreError::Url("ca, cert and key need the feature tls, which is off".to_owned()))
    }

    #[cfg(feature = "tls")]
    fn read_into(&self, info: ConnectionInfo) -> Result<ConnectionInfo, StoreError> {
        use redis::{Client, ClientTlsConfig, ConnectionAddr, TlsCertificates};
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(StoreError::Url("ca, cert and key must be with rediss://".to_owned()));
        }
        let certificates = |name, path: &Option<String>| match path {
            Some(path) => read(name, path, "certificate", has_certificate).map(Some),
            None => Ok(None),
        };
        let root_cert = certificates("ca", &self.ca)?;
        let client_tls = match (certificates("cert", &self.cert)?, &self.key) {
            (Some(client_cert), Some(path)) => {
                let client_key = read("key", path, "private key", has_key)?;
                Some(ClientTlsConfig { client_cert, client_key })
            }
            _ => None,
        };
        let certificates = TlsCertificates { client_tls, root_cert };
        let client = Client::build_with_tls(info, certificates).map_err(|error| {
            StoreError::Url(format!("the files for tls cannot be used: {error}"))
        })?;
        Ok(client.get_connection_info().clone())
    }
}

/// The file at `path`, if it holds what it should.
#[cfg(feature = "tls")]
fn read(
    name: &str,
    path: &str,
    what: &str,
    holds: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) if holds(&bytes) => Ok(bytes),
        Ok(_) => Err(StoreError::Url(format!(
            "{name} is the file {path:?}, which must hold a {what} in PEM (-----BEGIN …-----)"
        ))),
        Err(error) => Err(StoreError::Url(format!(
            "{name} is the file {path:?}, which cannot be read: {error}"
        ))),
    }
}

#[cfg(feature = "tls")]
fn has_certificate(pem: &[u8]) -> bool {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut all = CertificateDer::pem_slice_iter(pem).peekable();
    all.peek().is_some() && all.all(|one| one.is_ok())
}

#[cfg(feature = "tls")]
fn has_key(pem: &[u8]) -> bool {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    PrivateKeyDer::from_pem_slice(pem).is_ok()
}

/// The text without the closing brackets whose opening ones precede it.
fn without_outer_brackets(mut text: &str) -> &str {
    while text.matches(')').count() > text.matches('(').count()
        && let Some(inner) = text.strip_suffix(')')
    {
        text = inner;
    }
    text
}

/// What a failed handshake means, and what to do.
pub(crate) fn explained(what: &str) -> Option<String> {
    // The library below tells by text alone.
    let (_, flaw) = what.split_once("invalid peer certificate: ").unwrap_or(("", ""));
    let flaw = without_outer_brackets(flaw);
    Some(match flaw {
        "" if what.contains("CertificateRequired") => {
            "it wants a certificate of ours, name one: ?cert=/path/client.pem&key=/path/client.key"
                .to_owned()
        }
        "" => return None,
        "UnknownIssuer" | "BadSignature" => {
            "its certificate is of an authority that is not trusted, name the right one: ?ca=/path/ca.pem"
                .to_owned()
        }
        flaw if flaw.starts_with("certificate not valid for name") => {
            format!("its certificate is for another name: {flaw}")
        }
        flaw => format!("its certificate cannot be trusted: {flaw}"),
    })
}
