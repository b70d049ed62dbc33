//! The Redis protocol, RESP2 and RESP3, over a gate and its store.
//!
//! Bytes become commands in `parse.rs` and `inline.rs`, replies become bytes in `write.rs`. A
//! `RespSession` answers the commands of one connection and does no I/O of its own; `connection.rs`
//! reads and writes for it in room that `buffers.rs` lends, and `serve.rs` accepts connections. What
//! a store elsewhere must answer is put off, and waited for in `remote.rs`. `commands.rs` lists the
//! commands, and `transaction.rs` queues those between `MULTI` and `EXEC`.

mod bounds;
mod buffers;
mod commands;
mod connection;
mod counts;
mod greet;
mod guesses;
mod inline;
mod parse;
mod policy;
mod remote;
mod serve;
mod session;
mod threads;
mod throttle;
mod transaction;
mod write;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::app::{App, Settings};
use crate::backend::Backend;
use crate::bounds::Bound;
use crate::metrics::{Transport, add};

pub(crate) use counts::Counters;
pub use counts::RespCounts;
use guesses::Guesses;
pub use serve::serve_resp;
pub(crate) use serve::{NO_ROOM, serve};
pub use session::RespSession;

/// What answers over the Redis protocol: a backend for the commands that ask its policy, and its
/// store for limits that clients bring. Clones share everything.
#[derive(Clone, Debug)]
pub struct Resp(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    app: Arc<App>,
    password: Option<Box<str>>,
    bounds: RespBounds,
    next_id: AtomicI64,
    guesses: Guesses,
}

/// What the connections may take: how many there are, and how long each may keep the server
/// waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespBounds {
    /// How many connections at once; one more is told so and closed.
    pub connections: usize,
    /// How long a new connection may say nothing.
    pub first_byte: Duration,
    /// How long the rest of a command may take once it has begun.
    pub rest_of_command: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// How long a client may leave its answers unread.
    pub unread: Duration,
    /// How long connections have to finish when the server stops.
    pub drain: Duration,
}

impl Default for RespBounds {
    fn default() -> RespBounds {
        RespBounds {
            connections: bounds::CONNECTIONS,
            first_byte: bounds::FIRST_BYTE,
            rest_of_command: bounds::REST_OF_COMMAND,
            idle: bounds::IDLE,
            unread: bounds::UNREAD,
            drain: bounds::DRAIN,
        }
    }
}

impl Resp {
    /// Answers from a gate, without a password and within the usual bounds.
    pub fn new(backend: impl Into<Backend>) -> Resp {
        Resp::with(backend, RespBounds::default(), None)
    }

    /// Answers from a gate within `bounds`; with a password, only who gives it.
    pub fn with(backend: impl Into<Backend>, bounds: RespBounds, password: Option<&str>) -> Resp {
        let resp_password = password.map(Box::from);
        let settings = Settings { resp_bounds: bounds, resp_password, ..Settings::default() };
        Resp::of(Arc::new(App::new(backend.into(), settings)))
    }

    /// Answers from what all transports share.
    pub(crate) fn of(app: Arc<App>) -> Resp {
        Resp(Arc::new(Shared {
            password: app.settings.resp_password.clone(),
            bounds: app.settings.resp_bounds,
            next_id: AtomicI64::new(1),
            guesses: Guesses::new(),
            app,
        }))
    }

    /// A new connection's session. Who asks in it is not known: wrong passwords are then not counted by
    /// address, and keys that are made new are written down without one.
    pub fn session(&self) -> RespSession {
        self.session_of(None)
    }

    /// The session of a connection from there.
    fn session_of(&self, peer: Option<IpAddr>) -> RespSession {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        RespSession::new(self.0.clone(), id, peer)
    }

    /// What has happened so far.
    pub fn counts(&self) -> RespCounts {
        self.0.counts()
    }
}

/// What is wrong with a command, and the bound that it goes over, if that is it.
#[derive(Debug)]
struct Wrong {
    text: String,
    over: Option<Bound>,
}

impl From<String> for Wrong {
    fn from(text: String) -> Wrong {
        Wrong { text, over: None }
    }
}

impl Shared {
    /// Counts a command that is answered with an error.
    fn count(&self, wrong: &Wrong) {
        add(&self.counters().errors);
        if let Some(bound) = wrong.over {
            add(self.app.metrics.over(Transport::Resp, bound));
        }
    }

    fn counters(&self) -> &Counters {
        &self.app.metrics.resp
    }

    fn counts(&self) -> RespCounts {
        let metrics = &self.app.metrics;
        self.counters().counts(metrics.connections(Transport::Resp))
    }
}
