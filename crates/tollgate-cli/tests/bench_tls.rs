//! `tollgate bench` over TLS, and where the two sides do not agree on it.
#![cfg(unix)]

#[path = "support/served.rs"]
mod served;
mod support;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use served::Served;
use support::Folder;

/// A folder with an authority, and a certificate of it for this machine.
fn certificates() -> Folder {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).expect("an authority").pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("parameters");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    Folder::with(&[
        ("ca.pem", &ca),
        ("cert.pem", &certificate.pem()),
        ("key.pem", &key.serialize_pem()),
    ])
}

const TLS: [&str; 4] = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];

fn secure(served: &Served, protocol: &str) -> String {
    served.url(protocol).replacen("://", "s://", 1)
}

#[test]
fn every_protocol_is_loaded_over_tls() {
    let folder = certificates();
    let known = [&TLS[..], &["--tls-client-ca", "ca.pem"]].concat();
    for (arguments, shown) in
        [(&TLS[..], &[][..]), (&known, &["--cert", "cert.pem", "--key", "key.pem"])]
    {
        let served = Served::start(&folder, arguments);
        for protocol in ["http", "rls", "resp"] {
            let url = secure(&served, protocol);
            let asked = ["bench", &url, "--requests", "200", "--ca", "ca.pem", "--json"];
            let said = folder.tollgate(&[&asked, shown].concat());
            assert_eq!(said.code, Some(0), "{url}: {}", said.err);
            assert_eq!(said.json()["decisions"], 200, "{}", said.out);
            assert_eq!(said.json()["errors"]["total"], 0, "{}", said.out);
        }
    }
}

#[test]
fn what_does_not_agree_on_tls_is_told_with_what_to_say() {
    let folder = certificates();
    let served = Served::start(&folder, &TLS);
    let plain = Served::start(&folder, &[]);
    let wants = Served::start(&folder, &[&TLS[..], &["--tls-client-ca", "ca.pem"]].concat());
    for protocol in ["http", "rls", "resp"] {
        let told = |url: &str, more: &[&str]| {
            let said = folder.tollgate(&[&["bench", url, "--timeout", "5s"], more].concat());
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{url}: {}", said.err);
            said.err
        };
        let with = secure(&served, protocol);
        let err = told(&served.url(protocol), &[]);
        assert!(err.contains(&format!("if it speaks TLS, say {with}")), "{protocol}: {err}");
        let err = told(&with, &[]);
        assert!(err.contains("is not trusted, name the right one: --ca FILE"), "{err}");
        let err = told(&secure(&plain, protocol), &["--ca", "ca.pem"]);
        assert!(err.contains("does not speak TLS"), "{protocol}: {err}");
        assert!(err.contains(&format!("try {}", plain.url(protocol))), "{protocol}: {err}");
        let err = told(&secure(&wants, protocol), &["--ca", "ca.pem"]);
        assert!(err.contains("--cert and --key"), "{protocol}: {err}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = certificates();
    folder.write("empty.pem", "");
    for (arguments, message) in [
        (&["--ca", "none.pem"][..], "cannot read none.pem"),
        (&["--ca", "empty.pem"], "empty.pem holds no certificate in PEM"),
        (&["--cert", "cert.pem", "--key", "empty.pem"], "empty.pem holds no private key"),
        (&["--cert", "ca.pem", "--key", "key.pem"], "ca.pem does not go with key.pem"),
        (&["--cert", "cert.pem"], "--key <FILE>"),
    ] {
        let said = folder.tollgate(&[&["bench", "https://127.0.0.1:1"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(message), "{arguments:?}: {}", said.err);
    }
}
