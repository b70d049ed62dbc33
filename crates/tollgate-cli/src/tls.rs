//! Whom we trust, and who we are, where a server speaks TLS: for the commands that ask one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Files of TLS.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// The authority that the server's certificate is of, in PEM [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// A certificate for a server that asks for one, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// The private key of --cert, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether any is named: of no use where the server speaks in the clear.
    pub(crate) fn are_named(&self) -> bool {
        self.ca.is_some() || self.cert.is_some()
    }

    /// How to speak to a server whose protocol is called so, if it has a name; what is wrong with the
    /// files otherwise.
    pub(crate) fn config(&self, protocol: Option<&str>) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(self.ca.as_deref())?);
        let mut config = match self.cert.as_ref().zip(self.key.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
                    .map_err(|error| format!("{} holds no private key: {error}", key.display()))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| {
                    format!("{} does not go with {}: {error}", certificate.display(), key.display())
                })?
            }
        };
        config.alpn_protocols = protocol.map(|name| name.as_bytes().to_vec()).into_iter().collect();
        Ok(Arc::new(config))
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                let wrong = |error| format!("{} cannot be used: {error}", path.display());
                roots.add(certificate).map_err(wrong)?;
            }
        }
        None => {
            // What is wrong with one of the machine's is no reason not to use the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this machine trusts no authority, name one with --ca FILE".to_owned());
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
