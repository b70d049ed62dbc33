//! TLS on listeners: certificates from files that are read again when they change.

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
    /// The listeners that speak TLS; `None` for all.
    listeners: Option<Vec<TlsListener>>,
}

/// A listener that can speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsListener {
    /// HTTP, also for operators if they share its address.
    Http,
    /// Envoy's gRPC.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// HTTP for operators, if they have a separate address.
    Admin,
}

impl TlsListener {
    pub(crate) fn transport(self) -> Transport {
        match self {
            TlsListener::Http | TlsListener::Admin => Transport::Http,
            TlsListener::Grpc => Transport::Grpc,
            TlsListener::Resp => Transport::Resp,
        }
    }
}

/// What is wrong with a file of [`Tls`].
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    what: String,
}

/// Accepts TLS on connections, with the certificates that are active.
#[derive(Debug)]
pub(crate) struct Acceptor {
    files: Tls,
    /// For each transport, since each says another protocol. Held only to copy or to replace it.
    configs: RwLock<Configs>,
    /// Held while the files are read, in a thread that may block: so that a request to read them
    /// reports its own result, and not the one of a poll at the same time.
    last: Mutex<LastRead>,
}

/// The last contents of the files, and what was wrong with them.
#[derive(Debug)]
struct LastRead {
    /// `None` if they could not be read.
    contents: Option<Contents>,
    /// Empty if nothing was wrong.
    error: String,
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
        Tls { certificate: certificate.into(), key: key.into(), client_ca: None, listeners: None }
    }

    /// Talks only to clients with a certificate of one of the authorities in this file of PEM.
    #[must_use]
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Tls {
        self.client_ca = Some(file.into());
        self
    }

    /// Speaks TLS on these listeners alone, and plaintext on the others.
    #[must_use]
    pub fn only_on(mut self, listeners: impl IntoIterator<Item = TlsListener>) -> Tls {
        self.listeners = Some(listeners.into_iter().collect());
        self
    }

    /// Returns `true` if a listener speaks TLS.
    pub fn is_on(&self, listener: TlsListener) -> bool {
        self.listeners.as_ref().is_none_or(|listeners| listeners.contains(&listener))
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
        let last = LastRead { contents: Some(contents), error: String::new() };
        Ok(Acceptor { files, configs, last: Mutex::new(last) })
    }

    /// Returns `true` if a listener speaks TLS.
    pub(crate) fn is_on(&self, listener: TlsListener) -> bool {
        self.files.is_on(listener)
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

    /// Reads the files periodically and activates changed ones. They are small, and comparing their
    /// bytes works over links and mounts of all kinds, where events of the file system do not.
    pub(crate) async fn follow(self: Arc<Self>, reloads: &Reloads) {
        loop {
            sleep(CERTIFICATES_LOOK).await;
            self.load(LoadReason::Poll, reloads).await;
        }
    }

    /// Reads the files because an operator asks for it: activates what they hold and reports the
    /// result, also if they hold what they held before.
    pub(crate) async fn read_again(self: &Arc<Self>, reloads: &Reloads) {
        self.load(LoadReason::Request, reloads).await;
    }

    async fn load(self: &Arc<Self>, reason: LoadReason, reloads: &Reloads) {
        let acceptor = Arc::clone(self);
        // In a separate thread: a file system that hangs delays no connection.
        match blocking(move || acceptor.read_files(reason)).await {
            Ok(LoadResult::Activated) => {
                match reason {
                    LoadReason::Poll => tracing::info!("the certificates were changed"),
                    LoadReason::Request => tracing::info!("the certificates were read again"),
                }
                reloads.changed();
            }
            Ok(LoadResult::Rejected(error)) => {
                tracing::error!("{error}; the certificates stay as they were");
                reloads.refused();
            }
            Ok(LoadResult::Known) | Err(_) => {}
        }
    }

    fn read_files(&self, reason: LoadReason) -> LoadResult {
        let mut last = self.last.lock();
        let contents = match self.files.read() {
            Ok(contents) => contents,
            Err(error) => {
                last.contents = None;
                return last.reject(&error, reason);
            }
        };
        if reason == LoadReason::Poll && last.contents.as_ref() == Some(&contents) {
            return LoadResult::Known;
        }
        let configs = self.files.configs(&contents);
        last.contents = Some(contents);
        match configs {
            Ok(configs) => {
                *self.configs.write() = configs;
                last.error.clear();
                LoadResult::Activated
            }
            Err(error) => last.reject(&error, reason),
        }
    }
}

impl LastRead {
    /// Remembers an error. A poll reports it once, a request each time.
    fn reject(&mut self, error: &TlsError, reason: LoadReason) -> LoadResult {
        let error = error.to_string();
        if reason == LoadReason::Poll && self.error == error {
            return LoadResult::Known;
        }
        self.error.clone_from(&error);
        LoadResult::Rejected(error)
    }
}

/// The reason to read the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadReason {
    Poll,
    /// An operator asks for it.
    Request,
}

/// The result of reading the files.
#[derive(Debug)]
enum LoadResult {
    Activated,
    /// Nothing changed, or an error that was reported before.
    Known,
    Rejected(String),
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

    /// Files of a certificate, an acceptor that has read them, and the counts of its reloads.
    struct Fixture {
        folder: tempfile::TempDir,
        signed: rcgen::CertifiedKey<rcgen::KeyPair>,
        acceptor: Arc<Acceptor>,
        reloads: Reloads,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().unwrap();
            let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
            let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(&certificate, signed.cert.pem()).unwrap();
            std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
            let acceptor = Arc::new(Acceptor::new(Tls::new(&certificate, &key)).unwrap());
            Fixture { folder, signed, acceptor, reloads: Reloads::default() }
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn repair(&self) {
            self.write("c.pem", &self.signed.cert.pem());
            self.write("k.pem", &self.signed.signing_key.serialize_pem());
        }

        async fn poll(&self) {
            self.acceptor.load(LoadReason::Poll, &self.reloads).await;
        }

        async fn read_again(&self) {
            self.acceptor.read_again(&self.reloads).await;
        }

        /// The reloads that changed something, those that failed, and `true` if the last failed.
        fn counts(&self) -> (u64, u64, bool) {
            let Reloads { changed, refused, last_refused } = &self.reloads;
            (changed.load(Relaxed), refused.load(Relaxed), last_refused.load(Relaxed))
        }
    }

    #[tokio::test]
    async fn request_to_read_files_is_answered_each_time_and_polls_only_tell_of_changes() {
        let files = Fixture::new();
        files.poll().await;
        assert_eq!(files.counts(), (0, 0, false), "they are the same");
        files.read_again().await;
        assert_eq!(files.counts(), (1, 0, false));
        files.write("k.pem", "no key");
        files.poll().await;
        files.poll().await;
        assert_eq!(files.counts(), (1, 1, true), "told once");
        files.read_again().await;
        assert_eq!(files.counts(), (1, 2, true));
        files.repair();
        files.read_again().await;
        assert_eq!(files.counts(), (2, 2, false));
    }

    #[tokio::test]
    async fn broken_certificate_is_told_at_each_request_whatever_is_in_its_file() {
        for (name, text) in [("c.pem", ""), ("c.pem", "no certificate"), ("k.pem", "")] {
            let files = Fixture::new();
            files.write(name, text);
            files.poll().await;
            for refused in 2..5 {
                files.read_again().await;
                files.poll().await;
                assert_eq!(files.counts(), (0, refused, true), "{name} with {text:?}");
            }
        }
    }

    #[tokio::test]
    async fn file_that_was_missing_for_a_time_is_used_when_it_is_back() {
        let files = Fixture::new();
        std::fs::remove_file(files.folder.path().join("k.pem")).unwrap();
        files.poll().await;
        files.poll().await;
        assert_eq!(files.counts(), (0, 1, true));
        files.repair();
        files.poll().await;
        assert_eq!(files.counts(), (1, 1, false));
    }
}
