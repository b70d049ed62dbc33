//! What all transports share: what decides, what the operator chose, what is open and what is counted.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderName;
use tokio::sync::Semaphore;
use tollgate::HeaderStyle;
use tollgate_tower::ClientIp;

use crate::active_names::KnownNames;
use crate::admin::{Admin, Operators};
use crate::backend::Backend;
use crate::bounds::{Bounds, DRAIN, MAX_BODIES};
use crate::client_limits::ClientLimits;
use crate::grpc::ActiveDomains;
use crate::http::{Holds, HostName, ProxyHeaders};
use crate::metrics::Metrics;
use crate::openapi::Document;
use crate::page::Feed;
use crate::policy_version::PolicyVersion;
use crate::resp::RespBounds;
use crate::seldom::Seldom;
use crate::tasks::Tasks;
use crate::watched::Watched;

/// What all requests share, over whatever transport they come.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) backend: Backend,
    pub(crate) settings: Settings,
    /// Those that clients bring.
    pub(crate) limits: ClientLimits,
    pub(crate) holds: Holds,
    /// Room for bodies that are long, in KiB.
    pub(crate) bodies: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) watched: Watched,
    pub(crate) operators: Operators,
    /// Requests to unknown hosts are logged, and cannot fill the log.
    pub(crate) unknown_hosts: Seldom,
    pub(crate) policy_version: PolicyVersion,
    pub(crate) names: KnownNames,
    pub(crate) active_domains: ActiveDomains,
    /// Who watches what goes on.
    pub(crate) feed: Feed,
    /// What can be asked.
    pub(crate) document: Document,
    /// Whether the server accepts no more.
    pub(crate) stopping: AtomicBool,
    /// Calls of gRPC and changes of operators, which outlive their connections.
    pub(crate) tasks: Tasks,
}

/// What an operator may choose.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) style: HeaderStyle,
    pub(crate) client_ip: ClientIp,
    pub(crate) proxy_headers: ProxyHeaders,
    pub(crate) header_attributes: Vec<(String, HeaderName)>,
    /// The only names under which the server may be asked; empty for the usual ones.
    pub(crate) allowed_hosts: Vec<HostName>,
    /// Whether descriptors that say how much they take are charged also where that is too much.
    pub(crate) postpaid: bool,
    pub(crate) bounds: Bounds,
    pub(crate) resp_bounds: RespBounds,
    pub(crate) resp_password: Option<Box<str>>,
    /// None: connections are answered where the server runs.
    pub(crate) resp_threads: usize,
    pub(crate) admin: Admin,
    /// `true` if `/metrics` names allow and deny lists.
    pub(crate) names_lists: bool,
    /// How long requests over HTTP have to end when the server stops.
    pub(crate) drain: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        // Both are networks, so the peer alone is never what is left.
        let on_this_machine = ClientIp::x_forwarded_for(["127.0.0.0/8", "::1/128"]);
        Settings {
            style: HeaderStyle::new(),
            client_ip: on_this_machine.unwrap_or_else(|_| ClientIp::peer()),
            proxy_headers: ProxyHeaders::default(),
            header_attributes: Vec::new(),
            allowed_hosts: Vec::new(),
            postpaid: false,
            bounds: Bounds::default(),
            resp_bounds: RespBounds::default(),
            resp_password: None,
            resp_threads: 0,
            admin: Admin::new(),
            names_lists: true,
            drain: DRAIN,
        }
    }
}

impl App {
    pub(crate) fn new(backend: Backend, settings: Settings) -> App {
        let (holds, metrics) = (Holds::default(), Metrics::default());
        let limits = ClientLimits::new(backend.clone());
        let (watched, operators) = (Watched::default(), Operators::new(settings.admin.clone()));
        let (feed, stopping) = (Feed::default(), AtomicBool::new(false));
        let bodies = Semaphore::new(MAX_BODIES >> 10);
        App {
            backend,
            settings,
            limits,
            holds,
            bodies,
            metrics,
            watched,
            operators,
            unknown_hosts: Seldom::default(),
            policy_version: PolicyVersion::default(),
            names: KnownNames::default(),
            active_domains: ActiveDomains::default(),
            feed,
            document: Document::default(),
            stopping,
            tasks: Tasks::default(),
        }
    }
}
