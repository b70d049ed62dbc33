//! TLS and certificates of clients, by listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollgate_server::{Admin, AdminListen, Tls, TlsListener};
use tollgate_testkit::{DEADLINE, eventually};

use crate::support::{TestServer, metric_in};

/// An authority that signs for this machine.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM.
type Pair = (String, String);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self) -> Pair {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn write(folder: &Path, (certificate, key): &Pair) {
    std::fs::write(folder.join("key.pem"), key).unwrap();
    std::fs::write(folder.join("cert.pem"), certificate).unwrap();
}

/// The files of a certificate of `authority`, for clients of `client_ca`.
fn files(folder: &Path, authority: &Authority, client_ca: Option<&Authority>) -> Tls {
    write(folder, &authority.sign());
    let tls = Tls::new(folder.join("cert.pem"), folder.join("key.pem"));
    let Some(client_ca) = client_ca else { return tls };
    std::fs::write(folder.join("ca.pem"), &client_ca.pem).unwrap();
    tls.client_ca(folder.join("ca.pem"))
}

/// A server with TLS, a listener for operators and one for health checks.
fn serve_with(tls: Tls) -> TestServer {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let admin = Admin::new().listen(AdminListen::At(anywhere));
    TestServer::with(|server| server.tls(Some(tls)).admin(admin).health(Some(anywhere)))
}

fn serve(folder: &Path, authority: &Authority, client_ca: Option<&Authority>) -> TestServer {
    serve_with(files(folder, authority, client_ca))
}

/// A client that believes `authority`, with a certificate or without.
fn client(authority: &Authority, pair: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match pair {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(to: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Stream> {
    let tcp = TcpStream::connect(to)?;
    tcp.set_read_timeout(Some(DEADLINE))?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    Ok(StreamOwned::new(connection, tcp))
}

/// Begins to speak HTTP/2, as gRPC does; the kind of the frame that is answered.
fn greet(to: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<u8> {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = connect(to, &Arc::new(config))?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    assert_eq!(stream.conn.alpn_protocol(), Some(b"h2".as_slice()));
    Ok(head[3])
}

/// Says something over TLS; what was answered until the server closed.
fn say(to: SocketAddr, config: &Arc<ClientConfig>, text: &str) -> std::io::Result<String> {
    let mut stream = connect(to, config)?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const GET: &str = "GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
/// The frame with which an end of HTTP/2 begins.
const SETTINGS: u8 = 4;
const PING: &str = "PING\r\nQUIT\r\n";

const CHANGED: &str = "tollgate_tls_reloads_total{result=\"changed\"}";
const LAST_RELOAD: &str = "tollgate_tls_last_reload_successful";

/// The value of a series on `/metrics`, over TLS.
fn metric(server: &TestServer, config: &Arc<ClientConfig>, series: &str) -> Option<u64> {
    let metrics = say(server.address, config, &GET.replace("healthz", "metrics")).unwrap();
    metric_in(&metrics, series)
}

#[track_caller]
fn is_answered(server: &TestServer, config: &Arc<ClientConfig>) {
    for address in [server.address, server.admin.unwrap()] {
        assert!(say(address, config, GET).unwrap().starts_with("HTTP/1.1 200 OK"));
    }
    assert_eq!(greet(server.grpc, config).unwrap(), SETTINGS);
    assert_eq!(say(server.resp, config, PING).unwrap(), "+PONG\r\n+OK\r\n");
}

#[track_caller]
fn is_refused(server: &TestServer, config: &Arc<ClientConfig>) {
    for address in [server.address, server.admin.unwrap()] {
        assert!(say(address, config, GET).is_err());
    }
    assert!(greet(server.grpc, config).is_err());
    assert!(say(server.resp, config, PING).is_err());
}

#[test]
fn every_port_speaks_tls_and_clients_of_another_authority_do_not_believe_it() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let server = serve(folder.path(), &authority, None);
    is_answered(&server, &client(&authority, None));
    is_refused(&server, &client(&other, None));
    is_answered(&server, &client(&authority, None));
}

#[test]
fn only_clients_with_a_certificate_of_the_right_authority_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, of_clients, other) = (Authority::new(), Authority::new(), Authority::new());
    let server = serve(folder.path(), &authority, Some(&of_clients));
    is_refused(&server, &client(&authority, None));
    is_refused(&server, &client(&authority, Some(&other.sign())));
    is_answered(&server, &client(&authority, Some(&of_clients.sign())));
}

/// Sends something in plaintext; returns the answer until the server closes.
fn say_plainly(to: SocketAddr, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The kind of the first frame of HTTP/2 that is answered in plaintext.
fn greet_plainly(to: SocketAddr) -> u8 {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    head[3]
}

#[test]
fn probes_without_a_certificate_ask_the_health_listener_of_a_server_with_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, of_clients) = (Authority::new(), Authority::new());
    let server = serve(folder.path(), &authority, Some(&of_clients));
    let health = server.health.unwrap();
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = server.ask_at(health, &format!("GET {path}"), &[]);
        assert_eq!((answer.status, answer.body.as_str()), (200, body));
    }
    is_refused(&server, &client(&authority, None));
    is_answered(&server, &client(&authority, Some(&of_clients.sign())));
}

#[test]
fn health_listener_answers_nothing_but_health_checks() {
    let anywhere = Some("127.0.0.1:0".parse().unwrap());
    let server = TestServer::with(|server| server.health(anywhere));
    let health = server.health.unwrap();
    for line in [
        "GET /metrics",
        "GET /",
        "GET /openapi.json",
        "GET /v1/authorize",
        "GET /v1/ext_authz/x",
        "POST /v1/check",
        "POST /json",
        "GET /admin/v1/policy",
    ] {
        let detail = server.ask_at(health, line, &["content-length: 0"]).detail(404);
        assert!(detail.ends_with("try one of GET /healthz, /readyz"), "{line}: {detail}");
    }
    server.ask_at(health, "POST /readyz", &["content-length: 0"]).problem(405);
    assert_eq!(server.decisions("per-ip", "allowed", "http"), 0);
}

#[test]
fn each_listener_speaks_tls_or_plaintext_as_chosen() {
    let all = [TlsListener::Http, TlsListener::Grpc, TlsListener::Resp, TlsListener::Admin];
    let authority = Authority::new();
    let config = client(&authority, None);
    for of_tls in [
        &[TlsListener::Admin][..],
        &[TlsListener::Http, TlsListener::Grpc, TlsListener::Admin],
        &[TlsListener::Resp],
        &[],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let tls = files(folder.path(), &authority, None).only_on(of_tls.iter().copied());
        let server = serve_with(tls);
        for listener in all {
            let has_tls = of_tls.contains(&listener);
            let about = format!("{listener:?} of {of_tls:?}");
            match listener {
                TlsListener::Grpc if has_tls => {
                    assert_eq!(greet(server.grpc, &config).unwrap(), SETTINGS, "{about}");
                }
                TlsListener::Grpc => {
                    assert_eq!(greet_plainly(server.grpc), SETTINGS, "{about}");
                    assert!(greet(server.grpc, &config).is_err(), "{about}");
                }
                TlsListener::Resp => {
                    let over_tls = say(server.resp, &config, PING).ok();
                    let plain = say_plainly(server.resp, PING).ok();
                    let pong = Some("+PONG\r\n+OK\r\n");
                    assert_eq!(over_tls.as_deref() == pong, has_tls, "{about}");
                    assert_eq!(plain.as_deref() == pong, !has_tls, "{about}");
                }
                _ => {
                    let is_admin = listener == TlsListener::Admin;
                    let address = if is_admin { server.admin.unwrap() } else { server.address };
                    let is_ok = |answer: std::io::Result<String>| {
                        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 OK"))
                    };
                    assert_eq!(is_ok(say(address, &config, GET)), has_tls, "{about}");
                    assert_eq!(is_ok(say_plainly(address, GET)), !has_tls, "{about}");
                }
            }
        }
    }
}

#[test]
fn plaintext_and_silence_on_a_port_of_tls_harm_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = serve(folder.path(), &authority, None);
    let silent = TcpStream::connect(server.address).unwrap();
    let all = [server.address, server.resp, server.grpc];
    for address in all.into_iter().chain(server.admin) {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(DEADLINE)).unwrap();
        plain.write_all(GET.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // An alert, or only the end.
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP") && !answer.starts_with(b"-ERR"), "{answer:?}");
    }
    let config = client(&authority, None);
    is_answered(&server, &config);
    // It is counted after the connection has ended.
    eventually("four connections are counted", || {
        metric(&server, &config, "tollgate_tls_failed_total") == Some(4)
    });
    drop(silent);
}

#[test]
fn changed_certificates_are_used_for_new_connections_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let server = serve(folder.path(), &old, None);
    let (believes_old, believes_new) = (client(&old, None), client(&new, None));
    is_answered(&server, &believes_old);
    // A key that does not go with the certificate.
    std::fs::write(folder.path().join("key.pem"), new.sign().1).unwrap();
    let refused = "tollgate_tls_reloads_total{result=\"refused\"}";
    eventually("the broken key is refused", || metric(&server, &believes_old, refused) == Some(1));
    is_answered(&server, &believes_old);
    assert_eq!(metric(&server, &believes_old, LAST_RELOAD), Some(0));
    assert_eq!(metric(&server, &believes_old, CHANGED), Some(0));
    write(folder.path(), &new.sign());
    eventually("the new certificate is used", || say(server.address, &believes_new, GET));
    is_answered(&server, &believes_new);
    is_refused(&server, &believes_old);
    assert_eq!(metric(&server, &believes_new, CHANGED), Some(1));
    assert_eq!(metric(&server, &believes_new, LAST_RELOAD), Some(1));
}
