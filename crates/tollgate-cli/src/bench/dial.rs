//! Connections to the server, in the clear or over TLS.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::target::{Protocol, Target};

/// A connection: which of two kinds it is makes no difference to who uses it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The files of TLS, in PEM.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Authorities that are trusted instead of the machine's.
    pub(super) ca: Option<PathBuf>,
    /// Who we are, and the key to it.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

/// Makes connections to one server.
pub(super) struct Dialler {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    patience: Duration,
}

impl Dialler {
    /// What is wrong with the files is told as text.
    pub(super) fn new(
        target: &Target,
        files: &Files,
        patience: Duration,
    ) -> Result<Dialler, String> {
        let tls = match target.tls {
            true => Some((connector(target.protocol, files)?, server_name(target)?)),
            false if files.ca.is_some() || files.identity.is_some() => {
                let with = target.with_tls(true);
                return Err(format!("--ca, --cert and --key are for TLS, such as {with}"));
            }
            false => None,
        };
        Ok(Dialler { target: target.clone(), tls, patience })
    }

    /// Connects; what went wrong is told with what to do.
    pub(super) async fn dial(&self) -> Result<Box<dyn Stream>, String> {
        let authority = self.target.authority();
        match timeout(self.patience, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("{authority} does not take a connection in time")),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        let place = (self.target.host.as_str(), self.target.port);
        let stream = TcpStream::connect(place).await.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::ConnectionRefused => ", is `tollgate serve` running there?",
                _ => "",
            };
            format!("cannot connect to {}: {error}{hint}", self.target.authority())
        })?;
        // Small questions are not held back to be sent together.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => {
                let shaken = connector.connect(name.clone(), stream).await;
                Ok(Box::new(shaken.map_err(|error| self.explain_tls(&error))?))
            }
        }
    }

    /// What a failed handshake means.
    fn explain_tls(&self, error: &io::Error) -> String {
        let said = error.to_string();
        let authority = self.target.authority();
        if said.contains("InvalidContentType") || error.kind() == io::ErrorKind::UnexpectedEof {
            let plain = self.target.with_tls(false);
            return format!("{authority} does not speak TLS ({said}), try {plain}");
        }
        if said.contains("UnknownIssuer") || said.contains("BadSignature") {
            return format!(
                "the certificate of {authority} is of an authority that is not trusted, name the right one: --ca FILE"
            );
        }
        format!("cannot agree on TLS with {authority}: {said}")
    }
}

fn server_name(target: &Target) -> Result<ServerName<'static>, String> {
    ServerName::try_from(target.host.clone())
        .map_err(|_| format!("{:?} is no name of a server", target.host))
}

fn connector(protocol: Protocol, files: &Files) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let pem = read(key)?;
            let secret = PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|error| format!("{} holds no private key: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| {
                format!("{} does not go with {}: {error}", certificate.display(), key.display())
            })?
        }
    };
    config.alpn_protocols = match protocol {
        Protocol::Http => vec![b"http/1.1".to_vec()],
        Protocol::Rls => vec![b"h2".to_vec()],
        Protocol::Resp => Vec::new(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Whom we trust.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            // What is wrong with one of the machine's is no reason not to use the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            for certificate in certificates(file)? {
                let wrong = |error| format!("{} cannot be used: {error}", file.display());
                roots.add(certificate).map_err(wrong)?;
            }
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(format!("{} holds no certificate in PEM (-----BEGIN …-----)", file.display())),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
