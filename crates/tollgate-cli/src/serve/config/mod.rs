//! What the server is told: by a file, by the environment, by flags. A later one of these wins.

mod doubts;
mod file;
mod layers;
mod print;
mod readers;
mod reread;
mod schema;
mod setting;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use tollgate::{Dialect, Verbosity, WhenFull};
use tollgate_server::{AdminListen, Bounds, HostName, ProxyHeaders, Tls, TlsListener};
use tracing_subscriber::filter::Targets;

pub(crate) use file::read_both;
pub(super) use layers::{Configured, Given};
pub(super) use print::{as_json, as_toml};
pub(super) use reread::Reread;
pub(crate) use schema::schema;
pub(super) use settings::SETTINGS;

/// Everything that can be chosen, as chosen.
#[derive(Default)]
pub(super) struct Config {
    pub(super) policy: Option<PathBuf>,
    pub(super) http: Option<SocketAddr>,
    pub(super) grpc: Option<SocketAddr>,
    pub(super) resp: Option<SocketAddr>,
    pub(super) resp_password: Option<String>,
    pub(super) resp_threads: Option<usize>,
    pub(super) health: Option<SocketAddr>,
    pub(super) admin: AdminListen,
    pub(super) admin_tokens: Option<PathBuf>,
    pub(super) admin_token_read: Option<String>,
    pub(super) admin_token_write: Option<String>,
    pub(super) insecure_admin: bool,
    pub(super) allowed_hosts: Vec<HostName>,
    pub(super) audit: Option<PathBuf>,
    pub(super) envoy_config: Option<PathBuf>,
    pub(super) strict: bool,
    pub(super) postpaid: bool,
    pub(super) store: Store,
    pub(super) store_timeout: Duration,
    pub(super) nodes: u64,
    pub(super) namespace: String,
    pub(super) snapshot: Option<PathBuf>,
    /// `None` for a snapshot at a clean stop alone.
    pub(super) snapshot_interval: Option<Duration>,
    pub(super) max_keys: usize,
    pub(super) when_full: WhenFull,
    pub(super) headers: Dialect,
    pub(super) tell: Verbosity,
    pub(super) proxy_headers: ProxyHeaders,
    pub(super) trusted_proxies: Vec<String>,
    pub(super) attributes: Vec<(String, HeaderName)>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_client_ca: Option<PathBuf>,
    /// `None` for all.
    pub(super) tls_listeners: Option<Vec<TlsListener>>,
    pub(super) max_connections: usize,
    pub(super) max_resp_connections: usize,
    pub(super) drain: Duration,
    pub(super) bounds: Bounds,
    /// `true` if `/metrics` names lists.
    pub(super) list_names: bool,
    pub(super) log: Log,
}

impl Config {
    /// The files of TLS, and the listeners that speak it.
    pub(super) fn tls(&self) -> Option<Tls> {
        let mut tls = Tls::new(self.tls_cert.as_ref()?, self.tls_key.as_ref()?);
        if let Some(file) = &self.tls_client_ca {
            tls = tls.client_ca(file);
        }
        if let Some(listeners) = &self.tls_listeners {
            tls = tls.only_on(listeners.iter().copied());
        }
        Some(tls)
    }
}

/// Where state is kept.
#[derive(Default)]
pub(super) enum Store {
    #[default]
    Memory,
    /// At this URL, which may hold a password.
    Redis(String),
}

/// What is logged, and how.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) format: LogFormat,
    pub(super) level: Targets,
    /// Whether clients are named.
    pub(super) keys: bool,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LogFormat {
    /// For the eye.
    #[default]
    Text,
    /// For programs, an object in a line.
    Json,
}
