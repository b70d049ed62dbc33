//! Whom we trust, and who we are, where a server speaks TLS: for the commands that ask one.

use std::fmt::Display;
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
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                    wrong(key, &format!("holds no private key in PEM: {error}"))
                })?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| wrong(key, &error))?
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
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| wrong(path, &error))?;
    match all.is_empty() {
        true => Err(wrong(path, &"must hold a certificate in PEM (-----BEGIN CERTIFICATE-----)")),
        false => Ok(all),
    }
}

fn wrong(path: &Path, what: &dyn Display) -> String {
    format!("{}: {what}", path.display())
}
