//! The Redis protocol, RESP2 and RESP3, over a gate and its store.
//!
//! Bytes become commands in `parse.rs` and `inline.rs`, replies become bytes in `write.rs`. A
//! `RespSession` answers the commands of one connection and does no I/O; `connection.rs` reads
//! and writes for it, and `serve.rs` accepts connections.

mod bounds;
mod connection;
mod counts;
mod greet;
mod inline;
mod limits;
mod parse;
mod policy;
mod serve;
mod session;
mod throttle;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tollgate::Gate;

use counts::Counters;
pub use counts::RespCounts;
use limits::Limits;
pub use serve::serve_resp;
pub use session::RespSession;

/// What answers over the Redis protocol: a gate for the commands that ask its policy, and the
/// gate's store for limits that clients bring. Clones share everything.
#[derive(Clone, Debug)]
pub struct Resp(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gate: Gate,
    limits: Limits,
    password: Option<Box<str>>,
    bounds: RespBounds,
    counters: Counters,
    next_id: AtomicI64,
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
    /// Answers from `gate`, without a password and within the usual bounds.
    pub fn new(gate: Gate) -> Resp {
        Resp::with(gate, RespBounds::default(), None)
    }

    /// Answers from `gate` within `bounds`; with a password, only who gives it.
    pub fn with(gate: Gate, bounds: RespBounds, password: Option<&str>) -> Resp {
        Resp(Arc::new(Shared {
            limits: Limits::new(gate.store().clone()),
            gate,
            password: password.map(Box::from),
            bounds,
            counters: Counters::default(),
            next_id: AtomicI64::new(1),
        }))
    }

    /// A new connection's session.
    pub fn session(&self) -> RespSession {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        RespSession::new(self.0.clone(), id)
    }

    /// What has happened so far.
    pub fn counts(&self) -> RespCounts {
        self.0.counters.counts()
    }
}
