//! Certificates that are read again at a signal, and a probe over TLS.
#![cfg(unix)]

#[path = "support/logged.rs"]
mod logged;
mod support;

use logged::Logged;
use support::Folder;

/// A certificate for this machine, and its key.
fn pair() -> (String, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let signed = rcgen::generate_simple_self_signed(names).expect("a certificate");
    (signed.cert.pem(), signed.signing_key.serialize_pem())
}

const TLS: [&str; 4] = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];

#[test]
fn a_hangup_reads_the_certificates_again_and_broken_ones_change_nothing() {
    let (certificate, key) = pair();
    let folder = Folder::with(&[("cert.pem", &certificate), ("key.pem", &key)]);
    let served = Logged::start(&folder, &[], &TLS);
    let url = format!("https://{}", served.address("http"));
    let ready = |ca: &str| {
        let said = folder.tollgate(&["health", &url, "--ca", ca]);
        (said.code, said.out, said.err)
    };
    assert_eq!(ready("cert.pem").0, Some(0), "{:?}", ready("cert.pem"));
    assert_eq!(ready("cert.pem").1, "ready\n");
    served.signal("HUP");
    served.until("the certificates were read again");
    folder.write("old.pem", &certificate);
    folder.write("key.pem", pair().1);
    served.signal("HUP");
    served.until("the certificates stay as they were");
    assert_eq!(ready("old.pem").0, Some(0));
    let (certificate, key) = pair();
    folder.write("key.pem", &key);
    folder.write("cert.pem", &certificate);
    served.signal("HUP");
    served.until("the certificates were read again");
    assert_eq!(ready("cert.pem").0, Some(0));
    let (code, _, err) = ready("old.pem");
    assert_eq!(code, Some(1), "another's certificate is not believed: {err}");
}

#[test]
fn health_of_settings_with_tls_sees_only_whether_it_listens() {
    let (certificate, key) = pair();
    let folder = Folder::with(&[("cert.pem", &certificate), ("key.pem", &key)]);
    let served = Logged::start(&folder, &[], &TLS);
    let address = served.address("http");
    let variables = [
        ("TOLLGATE_HTTP", address.as_str()),
        ("TOLLGATE_TLS_CERT", "cert.pem"),
        ("TOLLGATE_TLS_KEY", "key.pem"),
    ];
    let said = folder.tollgate_with(&variables, &["health"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("listens, and speaks TLS"), "{}", said.out);
    drop(served);
    assert_eq!(folder.tollgate_with(&variables, &["health"]).code, Some(1));
}
