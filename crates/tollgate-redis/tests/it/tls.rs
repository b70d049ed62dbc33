//! A real server that speaks TLS, by an authority of its own.

#![cfg(feature = "tls")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::authority::Authority;
use crate::common::clock::{alone, with_timeouts};
use crate::common::{builder, golden, server, unique, wait};
use tempfile::TempDir;
use tollgate::Limit;
use tollgate_redis::{RedisStore, StoreError};
use tollgate_testkit::{DEADLINE, RedisServer, free_port};

struct Secure {
    _server: RedisServer,
    port: u16,
    directory: TempDir,
    authority: Authority,
    ca: PathBuf,
}

impl Secure {
    /// A server with a certificate for `host`; `clients` says whether it wants one of theirs.
    fn start(host: &str, clients: &str) -> Secure {
        let (directory, authority) = (TempDir::new().unwrap(), Authority::new("a test's own"));
        let ca = authority.write(directory.path());
        let (cert, key) = authority.issue(host, directory.path());
        let port = free_port();
        let (shown, number) = (|path: &Path| path.to_str().unwrap().to_owned(), port.to_string());
        let files = [shown(&ca), shown(&cert), shown(&key)];
        let options = [
            ["--tls-port", &number],
            ["--tls-ca-cert-file", &files[0]],
            ["--tls-cert-file", &files[1]],
            ["--tls-key-file", &files[2]],
            ["--tls-auth-clients", clients],
            ["--requirepass", "s3cr3t"],
        ];
        let server = RedisServer::with_options(options.as_flattened());
        Secure { _server: server, port, directory, authority, ca }
    }

    fn url(&self, query: &str) -> String {
        format!("rediss://:s3cr3t@127.0.0.1:{}{query}", self.port)
    }

    fn trusting(&self) -> String {
        self.url(&format!("?ca={}", self.ca.display()))
    }
}

async fn connect(url: &str) -> Result<RedisStore, StoreError> {
    builder(url).connect().await
}

/// It answers, and remembers.
async fn works(store: &RedisStore) {
    let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
    for left in [9, 8] {
        assert_eq!(limiter.check("ana").await.unwrap().remaining(), left);
    }
    assert!(limiter.reset("ana").await.unwrap());
}

/// The reason that the server is not used, compared with a golden file.
async fn refused(server: &Secure, url: &str, file: &str) -> StoreError {
    let error = connect(url).await.unwrap_err();
    assert!(matches!(error, StoreError::Connection(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("s3cr3t"), "{error:?}");
    golden(file, &error.to_string().replace(&server.port.to_string(), "{port}"));
    error
}

#[test]
fn a_server_of_a_private_authority_is_used_by_tls() {
    let server = Secure::start("127.0.0.1", "no");
    wait(async {
        works(&connect(&server.trusting()).await.unwrap()).await;
        let resp3 = format!("{}&protocol=resp3", server.trusting());
        works(&connect(&resp3).await.unwrap()).await;
        // Opened without asking, it is found when it is first asked.
        let opened = builder(server.trusting()).open().unwrap();
        works(&opened).await;
    });
}

#[test]
fn an_authority_that_is_not_trusted_is_named_as_the_reason() {
    let server = Secure::start("127.0.0.1", "no");
    let elsewhere = TempDir::new().unwrap();
    let stranger = Authority::new("a stranger").write(elsewhere.path());
    wait(async {
        let wrong = server.url(&format!("?ca={}", stranger.display()));
        let error = refused(&server, &wrong, "tls_authority.txt").await;
        assert_eq!(connect(&server.url("")).await.unwrap_err(), error);
        // During an outage the reason is the same, and it ends when the right one is named.
        let store = builder(wrong).open().unwrap();
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.is_err());
        assert_eq!(store.health().outage.unwrap().cause, error);
    });
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let server = Secure::start("redis.example", "no");
    let _ = wait(refused(&server, &server.trusting(), "tls_name.txt"));
}

#[test]
fn a_server_that_wants_to_know_its_clients_is_shown_a_certificate() {
    let server = Secure::start("127.0.0.1", "yes");
    let (cert, key) = server.authority.issue("gate", server.directory.path());
    wait(async {
        let own = format!("{}&cert={}&key={}", server.trusting(), cert.display(), key.display());
        works(&connect(&own).await.unwrap()).await;
        let _ = refused(&server, &server.trusting(), "tls_client.txt").await;
    });
}

#[test]
fn a_server_that_speaks_no_tls_is_not_waited_for() {
    let url = format!("rediss://gate:wr0ng@127.0.0.1:{}", server().port());
    alone(async {
        let (connected, _) = with_timeouts(DEADLINE, builder(&url).connect()).await;
        let store = builder(&url).open().unwrap();
        let limiter = store.limiter(&unique("tls"), Limit::per_hour(10)).unwrap();
        let (checked, _) = with_timeouts(DEADLINE, limiter.check("ana")).await;
        for error in [connected.unwrap_err(), checked.unwrap_err()] {
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
            let why = match &error {
                StoreError::Unavailable { why, .. } => why,
                other => other,
            };
            // The server takes random bytes for a command, or waits for the end of one.
            let is_expected = matches!(
                why,
                StoreError::Connection(_) | StoreError::Timeout(_) | StoreError::Incompatible(_)
            );
            assert!(is_expected, "{error:?}");
        }
    });
}

/// Why a store at `url` cannot be used.
async fn mismatch(url: &str) -> String {
    // A handshake with a server that speaks no TLS may never end.
    let brief = Duration::from_millis(200);
    let error = RedisStore::builder(url).connect_timeout(brief).connect().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error:?}");
    error.to_string()
}

#[test]
fn url_for_the_other_protocol_is_told_the_right_one() {
    let secure = Secure::start("127.0.0.1", "no");
    let plain = server().port();
    wait(async {
        for cluster in ["", "+cluster"] {
            let port = secure.port;
            let expected = format!(
                "redis cannot be used: 127.0.0.1:{port} speaks tls, \
                 write rediss{cluster}:// instead of redis{cluster}://"
            );
            let url = format!("redis{cluster}://:s3cr3t@127.0.0.1:{port}");
            assert_eq!(mismatch(&url).await, expected);
        }
        let expected = format!(
            "redis cannot be used: 127.0.0.1:{plain} does not speak tls, \
             write redis:// instead of rediss://"
        );
        assert_eq!(mismatch(&format!("rediss://:s3cr3t@127.0.0.1:{plain}")).await, expected);
    });
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let directory = TempDir::new().unwrap();
    let (cert, key) = Authority::new("any").issue("gate", directory.path());
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    let url = |query: &str| format!("rediss://:s3cr3t@127.0.0.1:1?{query}");
    let cases = [
        "ca=/no/such%20file.pem".to_owned(),
        format!("ca={}", empty.display()),
        format!("cert={}", cert.display()),
        format!("cert={}&key={}", cert.display(), empty.display()),
        format!("cert={}&key={}", key.display(), key.display()),
    ];
    let mut reasons = String::new();
    for query in cases {
        let error = RedisStore::open(&url(&query)).unwrap_err();
        assert!(matches!(error, StoreError::Url(_)), "{error:?}");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
        let of_cluster = url(&query).replace("rediss", "rediss+cluster");
        assert_eq!(RedisStore::open(&of_cluster).unwrap_err(), error);
        reasons += &format!("{query}\n    {error}\n");
    }
    let folder = directory.path().to_str().unwrap();
    golden("tls_files.txt", &reasons.replace(folder, "{folder}"));
}
