//! Whom we trust, and who we are, where a server speaks TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Files in PEM.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// The authorities that are trusted instead of the machine's.
    pub(super) ca: Option<PathBuf>,
    /// The certificate that is shown to a server that asks for one, and its key.
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
}

pub(super) fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let mut config = match &files.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", key.display());
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| wrong(&format!("holds no private key in PEM: {error}")))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| wrong(&error))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this machine trusts no authority, name one with --ca FILE".to_owned());
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    match all.is_empty() {
        true => Err(wrong(&"must hold a certificate in PEM (-----BEGIN CERTIFICATE-----)")),
        false => Ok(all),
    }
}
