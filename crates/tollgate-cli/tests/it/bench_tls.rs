//! `tollgate bench` over TLS, and where the two sides do not agree on it.
#![cfg(unix)]

use crate::support::{
    Folder, Said, TestServer, Transcript, assert_transcript, without_reason_of_end,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

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

fn secure(server: &TestServer, protocol: &str) -> String {
    server.url(protocol).replacen("://", "s://", 1)
}

#[test]
fn every_protocol_is_loaded_over_tls() {
    let folder = certificates();
    let known = [&TLS[..], &["--tls-client-ca", "ca.pem"]].concat();
    for (arguments, shown) in
        [(&TLS[..], &[][..]), (&known, &["--cert", "cert.pem", "--key", "key.pem"])]
    {
        let served = TestServer::start(&folder, arguments);
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
    let served = TestServer::start(&folder, &TLS);
    let plain = TestServer::start(&folder, &[]);
    let wants = TestServer::start(&folder, &[&TLS[..], &["--tls-client-ca", "ca.pem"]].concat());
    let mut transcript = Transcript::default();
    for (server, shown) in [(&served, "tls"), (&plain, "plain"), (&wants, "client certificate")] {
        for protocol in ["http", "grpc", "resp"] {
            transcript.hide(server.address(protocol), format!("{{{protocol}, {shown}}}"));
        }
    }
    for protocol in ["http", "rls", "resp"] {
        for (url, more, ends) in [
            (served.url(protocol), &[][..], protocol == "rls"),
            (secure(&served, protocol), &[], false),
            (secure(&plain, protocol), &["--ca", "ca.pem"], false),
            (secure(&wants, protocol), &["--ca", "ca.pem"], true),
        ] {
            let said = folder.tollgate(&[&["bench", &url, "--timeout", "60s"], more].concat());
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{url}: {}", said.err);
            // Some servers end the connection while the client still writes.
            let err = if ends { without_reason_of_end(&said.err) } else { said.err.clone() };
            transcript.add(&Said { err, ..said });
        }
    }
    transcript.assert_golden("bench/tls");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = certificates();
    folder.write("empty.pem", "");
    let said = [
        &["--ca", "none.pem"][..],
        &["--ca", "empty.pem"],
        &["--cert", "cert.pem", "--key", "empty.pem"],
        &["--cert", "ca.pem", "--key", "key.pem"],
        &["--cert", "cert.pem"],
    ]
    .map(|arguments| {
        let said = folder.tollgate(&[&["bench", "https://127.0.0.1:1"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        said
    });
    assert_transcript("bench/tls_files", said);
}
