//! TLS by listener, certificates that are read again at a signal, and probes.
#![cfg(unix)]

use crate::support::{Folder, TestServer, Transcript, assert_golden, assert_transcript, event};
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

#[test]
fn certificate_that_is_still_broken_is_told_at_each_hangup() {
    let (certificate, key) = pair();
    let folder = Folder::with(&[("cert.pem", &certificate), ("key.pem", &key)]);
    let server = TestServer::with_json_log(&folder, &TLS);
    folder.write("cert.pem", "");
    let is_told = |event: &Value| event["level"] == "ERROR";
    server.events_until(is_told);
    for _ in 0..3 {
        server.signal("HUP");
        server.events_until(event("INFO", "SIGHUP: reading files again"));
        let told = server.events_until(is_told).pop().expect("the last event");
        let message = told["message"].as_str().expect("a message");
        let expected = "cert.pem holds no certificate in PEM; the certificates stay as they were";
        assert_eq!(message, expected);
    }
}

/// Settings of a server with client certificates and a listener for health checks.
const CLIENT_CERTIFICATES: &str = r#"
[server]
admin = "127.0.0.1:0"
health = "127.0.0.1:0"
insecure_admin = true
tls = { cert = "cert.pem", key = "key.pem", client_ca = "cert.pem", listeners = ["http", "grpc"] }
"#;

#[test]
fn probes_need_no_certificate_where_clients_do() {
    let (certificate, key) = pair();
    let folder = Folder::with(&[
        ("cert.pem", &certificate),
        ("key.pem", &key),
        ("t.toml", CLIENT_CERTIFICATES),
    ]);
    let server = TestServer::start(&folder, &["--config", "t.toml"]);
    assert_golden("serve/banner_tls_listeners", &server.without_addresses(&server.banner()));
    let health = server.address("health").to_owned();
    let variables = [("TOLLGATE_CONFIG", "t.toml"), ("TOLLGATE_HEALTH", health.as_str())];
    let ready = folder.tollgate_with(&variables, &["health", "--timeout", "60s"]);
    assert_eq!((ready.code, ready.out.as_str()), (Some(0), "ready\n"), "{}", ready.err);
    let http = format!("https://{}", server.address("http"));
    let stranger = folder.tollgate(&["health", &http, "--ca", "cert.pem", "--timeout", "60s"]);
    assert_eq!(stranger.code, Some(1), "it has no certificate: {}", stranger.out);
    server.stop();
    let server = TestServer::with_json_log(&folder, &["--config", "t.toml"]);
    let listening = server.events_until(event("INFO", "listening"));
    assert_golden("serve/log_listening_tls", &server.log_text(&listening));
}

#[test]
fn listeners_of_tls_that_make_no_sense_are_rejected() {
    let file = "[server]\nadmin = \"same\"\n[server.tls]\nlisteners = []\n";
    let folder = Folder::with(&[("empty.toml", file)]);
    let files = ["--tls-cert", "c.pem", "--tls-key", "k.pem"];
    let cases: [&[&str]; 5] = [
        &["--tls-listeners", "http"],
        &["--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-listeners", "https"],
        &["--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-listeners", "admin,resp"],
        &["--config", "empty.toml", "--tls-cert", "c.pem", "--tls-key", "k.pem"],
        &["--config", "empty.toml"],
    ];
    let said = cases.map(|arguments| {
        let said = folder.tollgate(&[&["serve", "--print-config"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}");
        said
    });
    assert_transcript("serve/wrong_tls_listeners", said);
    for right in ["admin,http", "http", "resp"] {
        let arguments = [&["serve", "--print-config", "--tls-listeners", right], &files[..]];
        let said = folder.tollgate(&arguments.concat());
        assert_eq!(said.code, Some(0), "{right}: {}", said.err);
    }
}
