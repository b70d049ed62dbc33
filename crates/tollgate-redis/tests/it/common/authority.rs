//! An authority of a test's own, and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Signs certificates, and is trusted by whoever is given its own.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// An authority called `name`.
    pub(crate) fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is wrong");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("it signs itself").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Writes its own certificate to a file; where.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        written(&directory.join("ca.pem"), &self.pem)
    }

    /// Signs a certificate for `host` and writes it with its key to files; where.
    pub(crate) fn issue(&self, host: &str, directory: &Path) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new([host.to_owned()]).expect("a host's name");
        let signed = params.signed_by(&key, &self.issuer).expect("it signs");
        let cert = written(&directory.join(format!("{host}.pem")), &signed.pem());
        (cert, written(&directory.join(format!("{host}.key")), &key.serialize_pem()))
    }
}

fn written(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).expect("the directory can be written");
    path.to_owned()
}
