//! TLS on every listener: certificates from files that are read again when they change.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::bounds::{CERTIFICATES_LOOK, HANDSHAKE_TIMEOUT, MAX_PEM};
use crate::metrics::{Reloads, TRANSPORTS, Transport};
use crate::operate::blocking;

/// Where the server's certificate is, and whose clients it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What is wrong with a file of [`Tls`].
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    what: String,
}

/// What makes TLS of connections, with the certificates of the moment.
#[derive(Debug)]
pub(crate) struct Acceptor {
    files: Tls,
    /// For each transport, since each says another protocol. Held only to copy or to replace it.
    configs: RwLock<Configs>,
    /// What the files held last, right or wrong.
    seen: Mutex<Contents>,
    /// What was told to be wrong with them last.
    said: Mutex<String>,
}

type Configs = [Arc<ServerConfig>; TRANSPORTS.len()];

/// The bytes of the files, in the order of [`Tls`].
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// With a certificate and what leads to its authority, and its private key: files in PEM, read
    /// again within seconds of a change. What cannot be used leaves those before it in force.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Tls {
        Tls { certificate: certificate.into(), key: key.into(), client_ca: None }
    }

    /// Talks only to clients with a certificate of one of the authorities in this file of PEM.
    #[must_use]
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Tls {
        self.client_ca = Some(file.into());
        self
    }

    fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn configs(&self, contents: &Contents) -> Result<Configs, TlsError> {
        let config = self.config(contents)?;
        Ok(TRANSPORTS.map(|(transport, _)| {
            let mut config = config.clone();
            config.alpn_protocols = match transport {
                Transport::Http => vec![b"http/1.1".to_vec()],
                Transport::Grpc => vec![b"h2".to_vec()],
                Transport::Resp => Vec::new(),
            };
            Arc::new(config)
        }))
    }

    fn config(&self, contents: &Contents) -> Result<ServerConfig, TlsError> {
        let wrong = |file: &Path, what: &dyn fmt::Display| TlsError {
            file: file.to_owned(),
            what: what.to_string(),
        };
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key)
            .map_err(|error| wrong(&self.key, &format!("holds no private key in PEM: {error}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&self.certificate, &error))?;
        let builder = match (&self.client_ca, &contents.client_ca) {
            (Some(file), Some(pem)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file, pem)? {
                    roots.add(certificate).map_err(|error| wrong(file, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| wrong(file, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        builder.with_single_cert(chain, key).map_err(|error| {
            wrong(&self.certificate, &format!("does not go with {}: {error}", self.key.display()))
        })
    }
}

/// The whole file, if it is no longer than certificates are.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let wrong = |what: String| TlsError { file: path.to_owned(), what };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let read = file.take(MAX_PEM + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_PEM {
        return Err(wrong(format!("is longer than {MAX_PEM} bytes, must be certificates in PEM")));
    }
    Ok(bytes)
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |what: String| TlsError { file: file.to_owned(), what };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| wrong(format!("is not PEM: {error}")))?;
    if read.is_empty() {
        return Err(wrong("holds no certificate in PEM".to_owned()));
    }
    Ok(read)
}

impl Acceptor {
    /// Reads the files.
    pub(crate) fn new(files: Tls) -> Result<Acceptor, TlsError> {
        let contents = files.read()?;
        let configs = RwLock::new(files.configs(&contents)?);
        Ok(Acceptor { files, configs, seen: Mutex::new(contents), said: Mutex::default() })
    }

    /// Makes TLS of a connection, within its time.
    pub(crate) async fn accept(
        &self,
        transport: Transport,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.configs.read()[transport as usize]);
        match timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")),
        }
    }

    /// Looks every now and then whether the files hold something else. They are small, and their
    /// bytes say more than what a file system says of changes, over links and mounts of all kinds.
    pub(crate) async fn follow(self: Arc<Self>, reloads: &Reloads) {
        loop {
            sleep(CERTIFICATES_LOOK).await;
            self.look_and_tell(reloads, "the certificates were changed").await;
        }
    }

    /// Puts in force what the files hold now, and says what came of it also where that is what they
    /// held before.
    pub(crate) async fn read_again(self: &Arc<Self>, reloads: &Reloads) {
        self.said.lock().clear();
        self.seen.lock().certificate.clear();
        self.look_and_tell(reloads, "the certificates were read again").await;
    }

    async fn look_and_tell(self: &Arc<Self>, reloads: &Reloads, done: &str) {
        let acceptor = Arc::clone(self);
        // Where a file system that hangs holds up nobody.
        let error = match blocking(move || acceptor.look()).await {
            Ok(Ok(Seen::Changed)) => {
                tracing::info!("{done}");
                reloads.changed();
                String::new()
            }
            Ok(Err(error)) => error.to_string(),
            _ => String::new(),
        };
        let mut said = self.said.lock();
        // What stays wrong is told once.
        if !error.is_empty() && error != *said {
            tracing::error!("{error}; the certificates stay as they were");
            reloads.refused();
        }
        *said = error;
    }

    /// Puts in force what the files hold, if that is something else.
    fn look(&self) -> Result<Seen, TlsError> {
        let contents = self.files.read()?;
        let mut seen = self.seen.lock();
        if *seen == contents {
            return Ok(Seen::Same);
        }
        let configs = self.files.configs(&contents);
        *seen = contents;
        *self.configs.write() = configs?;
        Ok(Seen::Changed)
    }
}

/// What a look at the files came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Same,
    Changed,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file.display(), self.what)
    }
}

impl std::error::Error for TlsError {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[tokio::test]
    async fn who_asks_for_it_is_told_what_came_of_it_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, signed.cert.pem()).unwrap();
        std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        let acceptor = Arc::new(Acceptor::new(Tls::new(&certificate, &key)).unwrap());
        let reloads = Reloads::default();
        let counts = || {
            let last_refused = reloads.last_refused.load(Relaxed);
            (reloads.changed.load(Relaxed), reloads.refused.load(Relaxed), last_refused)
        };
        acceptor.look_and_tell(&reloads, "changed").await;
        assert_eq!(counts(), (0, 0, false), "they are the same");
        acceptor.read_again(&reloads).await;
        assert_eq!(counts(), (1, 0, false));
        std::fs::write(&key, "no key").unwrap();
        acceptor.look_and_tell(&reloads, "changed").await;
        acceptor.look_and_tell(&reloads, "changed").await;
        assert_eq!(counts(), (1, 1, true), "told once");
        acceptor.read_again(&reloads).await;
        assert_eq!(counts(), (1, 2, true));
        std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        acceptor.read_again(&reloads).await;
        assert_eq!(counts(), (2, 2, false));
    }
}
