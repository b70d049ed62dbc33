//! What can go wrong between here and the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate::LimitError;

use crate::tls;

/// Why the store has no answer. A denial is an answer, and never an error.
///
/// No message contains a user name or a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL is wrong.
    Url(String),
    /// There is no connection, or it broke.
    Connection(String),
    /// No answer came in time. What was asked for may have been done all the same.
    Timeout(Duration),
    /// The store is away, and was not asked: it is looked for in the background.
    Unavailable {
        /// For how long.
        lasted: Duration,
        /// What the last try came to.
        why: Arc<StoreError>,
    },
    /// The server said no: a wrong password, a read-only replica, no memory left.
    Refused(String),
    /// Keys that belong together are being moved to another node of a Cluster, some of them already
    /// there. A request over them is decided key by key, so that only its time-out shows this.
    SlotMigrating(String),
    /// The server cannot do what is needed.
    Incompatible(String),
    /// Something that is not Tollgate's is kept under a key. The text has the limiter whose key it is,
    /// and not the key, which may name a client.
    ForeignKey(String),
    /// The script failed, or its answer makes no sense.
    Script(String),
    /// The limit cannot be kept in this store.
    Limit(LimitError),
    /// The request cannot be made: too many charges, too many reservations, too long a name.
    InvalidRequest(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Url(what) => write!(f, "redis url: {what}"),
            StoreError::Connection(what) => write!(f, "redis is not reachable: {what}"),
            StoreError::Timeout(after) => write!(f, "redis did not answer within {after:?}"),
            StoreError::Unavailable { lasted, .. } => {
                write!(f, "redis has been away for {lasted:.1?}")
            }
            StoreError::Refused(what) => write!(f, "redis refused: {what}"),
            StoreError::SlotMigrating(what) => write!(f, "redis is moving the keys: {what}"),
            StoreError::Incompatible(what) => write!(f, "redis cannot be used: {what}"),
            StoreError::ForeignKey(what) => write!(
                f,
                "{what} holds something that is not tollgate's, delete it or use another namespace"
            ),
            StoreError::Script(what) => write!(f, "tollgate's redis script failed: {what}"),
            StoreError::Limit(_) => f.write_str("the limit cannot be kept in redis"),
            StoreError::InvalidRequest(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Limit(error) => Some(error),
            StoreError::Unavailable { why, .. } => Some(&**why),
            _ => None,
        }
    }
}

impl StoreError {
    /// Whether the store is at fault, and not the request or what is kept under its key.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            StoreError::Connection(_)
            | StoreError::Timeout(_)
            | StoreError::Unavailable { .. }
            | StoreError::Refused(_)
            | StoreError::SlotMigrating(_)
            | StoreError::Incompatible(_) => true,
            StoreError::Url(_)
            | StoreError::ForeignKey(_)
            | StoreError::Script(_)
            | StoreError::Limit(_)
            | StoreError::InvalidRequest(_) => false,
        }
    }

    /// Whether a node of a Cluster refuses because slots of other nodes are served by none.
    pub(crate) fn is_cluster_down(&self) -> bool {
        // The library has a name of its own for the code.
        let says = |why: &String| why.contains("CLUSTERDOWN") || why.contains("ClusterDown");
        matches!(self, StoreError::Refused(why) if says(why))
    }
}

impl From<LimitError> for StoreError {
    fn from(error: LimitError) -> StoreError {
        StoreError::Limit(error)
    }
}

/// What must not be shown, and how long a call may take: what an error is told with.
#[derive(Clone)]
pub(crate) struct ErrorMapper {
    pub(crate) secrets: Vec<String>,
    pub(crate) timeout: Duration,
}

impl ErrorMapper {
    /// An error of the client library, in our words.
    pub(crate) fn tell(&self, error: &RedisError) -> StoreError {
        let what = self.scrub(&error.to_string());
        match error.kind() {
            _ if error.is_timeout() => StoreError::Timeout(self.timeout),
            ErrorKind::InvalidClientConfig => StoreError::Url(what),
            ErrorKind::Io | ErrorKind::Client => {
                StoreError::Connection(tls::explained(&what).unwrap_or(what))
            }
            ErrorKind::Parse => StoreError::Connection(format!("a broken answer, {what}")),
            ErrorKind::RESP3NotSupported => {
                StoreError::Incompatible("the server does not know resp3, leave it out".to_owned())
            }
            ErrorKind::UnexpectedReturnType => StoreError::Script(what),
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot) => {
                StoreError::Incompatible(format!(
                    "the server is part of a cluster, write redis+cluster:// instead of redis:// ({what})"
                ))
            }
            ErrorKind::Server(ServerErrorKind::TryAgain) => StoreError::SlotMigrating(what),
            ErrorKind::Server(ServerErrorKind::ResponseError) if is_script_error(error) => {
                StoreError::Script(what)
            }
            _ => StoreError::Refused(what),
        }
    }

    /// The same, with where it happened.
    pub(crate) fn tell_at(&self, address: &str, error: &RedisError) -> StoreError {
        match self.tell(error) {
            StoreError::Connection(what) => StoreError::Connection(format!("{address}: {what}")),
            StoreError::Refused(what) => StoreError::Refused(format!("{address}: {what}")),
            other => other,
        }
    }

    /// Some servers repeat what they did not understand, the password among it.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secrets = self.secrets.iter().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// What a server answers that cannot serve at all, whatever it is asked.
const CANNOT_SERVE: [&str; 11] = [
    "LOADING",
    "READONLY",
    "OOM",
    "MISCONF",
    "NOAUTH",
    "WRONGPASS",
    "NOREPLICAS",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "BUSY",
    "UNKILLABLE",
];

/// Whether the server says that it cannot serve, and not that this command is wrong.
pub(crate) fn cannot_serve(error: &RedisError) -> bool {
    CANNOT_SERVE.into_iter().any(|code| is_of_code(error, code))
}

/// Whether the user lacks the right to a command or a key, by itself or in a script.
pub(crate) fn lacks_rights(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    // Redis 7.0 has no code of its own for it in a script.
    is_of_code(error, "NOPERM")
        || detail.contains("user executing the script can't")
        || detail.contains("ACL failure in script")
}

fn is_of_code(error: &RedisError, code: &str) -> bool {
    let detail = error.detail().unwrap_or_default();
    // Until 6.2 the code of what a script called is in the message.
    let within = || detail.contains("user_script") && detail.contains(&format!("-{code} "));
    error.code() == Some(code) || within()
}

/// An error that the script raised, not one that kept it from running or writing.
fn is_script_error(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains("user_script") && !cannot_serve(error) && !lacks_rights(error)
}
