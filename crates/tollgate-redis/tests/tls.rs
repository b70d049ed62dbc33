//! A real server that speaks TLS, by an authority of its own.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]
#![cfg(feature = "tls")]

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::path::{Path, PathBuf};

use authority::Authority;
use common::{PATIENCE, wait};
use tempfile::TempDir;
use tollgate::Limit;
use tollgate_redis::{RedisStore, StoreError};
use tollgate_testkit::{RedisServer, free_port};

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
    RedisStore::builder(url).timeout(PATIENCE).connect_timeout(PATIENCE).connect().await
}

/// It answers, and remembers.
async fn works(store: &RedisStore) {
    let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
    for left in [9, 8] {
        assert_eq!(limiter.check("ana").await.unwrap().remaining(), left);
    }
    assert!(limiter.reset("ana").await.unwrap());
}

async fn refused(url: &str, reason: &str) {
    let error = connect(url).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(reason), "{reason}: {error:?}");
    assert!(!format!("{error:?}").contains("s3cr3t"), "{error:?}");
}

#[test]
fn a_server_of_a_private_authority_is_used_by_tls() {
    let server = Secure::start("127.0.0.1", "no");
    wait(async {
        works(&connect(&server.trusting()).await.unwrap()).await;
        let resp3 = format!("{}&protocol=resp3", server.trusting());
        works(&connect(&resp3).await.unwrap()).await;
        // Opened without asking, it is found when it is first asked.
        let opened = RedisStore::builder(server.trusting()).timeout(PATIENCE).open().unwrap();
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
        let address = format!("127.0.0.1:{}: its certificate is of an authority", server.port);
        refused(&wrong, &address).await;
        refused(&wrong, "not trusted, name the right one: ?ca=").await;
        refused(&server.url(""), "not trusted, name the right one: ?ca=").await;
        // During an outage the reason is the same, and it ends when the right one is named.
        let store = RedisStore::builder(wrong).timeout(PATIENCE).open().unwrap();
        let limiter = store.limiter("a", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").await.is_err());
        let why = store.health().outage.unwrap().why.to_string();
        assert!(why.contains("not trusted"), "{why}");
    });
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let server = Secure::start("redis.example", "no");
    wait(refused(&server.trusting(), "its certificate is for another name"));
}

#[test]
fn a_server_that_wants_to_know_its_clients_is_shown_a_certificate() {
    let server = Secure::start("127.0.0.1", "yes");
    let (cert, key) = server.authority.issue("gate", server.directory.path());
    wait(async {
        let own = format!("{}&cert={}&key={}", server.trusting(), cert.display(), key.display());
        works(&connect(&own).await.unwrap()).await;
        refused(&server.trusting(), "wants a certificate of ours").await;
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
        (
            "ca=/no/such%20file.pem".to_owned(),
            "ca is the file \"/no/such file.pem\", which cannot be read",
        ),
        (format!("ca={}", empty.display()), "must hold a certificate"),
        (format!("cert={}", cert.display()), "cert and key must be given together"),
        (format!("cert={}&key={}", cert.display(), empty.display()), "must hold a private key"),
        (format!("cert={}&key={}", key.display(), key.display()), "must hold a certificate"),
    ];
    for (query, reason) in cases {
        for url in [url(&query), url(&query).replace("rediss", "rediss+cluster")] {
            let error = RedisStore::open(&url).unwrap_err();
            assert!(matches!(error, StoreError::Url(_)), "{error:?}");
            assert!(error.to_string().contains(reason), "{error}");
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
    }
}
