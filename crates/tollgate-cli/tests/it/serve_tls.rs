//! Certificates that are read again at a signal, and a probe over TLS.
#![cfg(unix)]

use crate::support::{Folder, TestServer, Transcript, assert_golden, event};
use serde_json::Value;

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
    let server = TestServer::with_json_log(&folder, &TLS);
    let url = format!("https://{}", server.address("http"));
    let health = |ca: &str| folder.tollgate(&["health", &url, "--timeout", "60s", "--ca", ca]);
    let ready = health("cert.pem");
    assert_eq!((ready.code, ready.out.as_str()), (Some(0), "ready\n"), "{}", ready.err);
    let hang_up_until = |is_last: &dyn Fn(&Value) -> bool| {
        server.signal("HUP");
        server.events_until(event("INFO", "SIGHUP: reading files again"));
        server.events_until(is_last).pop().expect("the last event")
    };
    let is_read = event("INFO", "the certificates were read again");
    hang_up_until(&is_read);
    folder.write("old.pem", &certificate);
    folder.write("key.pem", pair().1);
    let refused = hang_up_until(&|event| event["level"] == "ERROR");
    assert_golden("serve/log_certificates", &server.log_text(&[refused]));
    assert_eq!(health("old.pem").code, Some(0));
    let (certificate, key) = pair();
    folder.write("key.pem", &key);
    folder.write("cert.pem", &certificate);
    hang_up_until(&is_read);
    assert_eq!(health("cert.pem").code, Some(0));
    let strange = health("old.pem");
    assert_eq!(strange.code, Some(1), "another's certificate is not believed: {}", strange.err);
}

#[test]
fn health_of_settings_with_tls_sees_only_whether_it_listens() {
    let (certificate, key) = pair();
    let folder = Folder::with(&[("cert.pem", &certificate), ("key.pem", &key)]);
    let server = TestServer::with_json_log(&folder, &TLS);
    let address = server.address("http").to_owned();
    let variables = [
        ("TOLLGATE_HTTP", address.as_str()),
        ("TOLLGATE_TLS_CERT", "cert.pem"),
        ("TOLLGATE_TLS_KEY", "key.pem"),
    ];
    let mut transcript = Transcript::default();
    transcript.hide(&address, "{http}");
    let listens = folder.tollgate_with(&variables, &["health", "--timeout", "60s"]);
    assert_eq!(listens.code, Some(0), "{}", listens.err);
    transcript.add(&listens);
    drop(server);
    let gone = folder.tollgate_with(&variables, &["health"]);
    assert_eq!(gone.code, Some(1), "{}", gone.out);
    transcript.add(&gone);
    transcript.assert_golden("health/settings_with_tls");
}
