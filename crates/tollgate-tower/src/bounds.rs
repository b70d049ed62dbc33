//! Every maximum in one place, each with its reason.

use std::time::Duration;

/// How many hops of a forwarding header are looked at: more proxies than anybody chains.
pub(crate) const MAX_HOPS: usize = 32;

/// How many lines of a forwarding header are looked at, the last ones: each hop may write its own.
pub(crate) const MAX_LINES: usize = MAX_HOPS;

/// The longest entry of a forwarding header: every parameter that RFC 7239 names fits twice.
pub(crate) const MAX_ENTRY: usize = 512;

/// How long what the layer holds is held should nobody give it back: in memory the layer always
/// does, when the answer is sent or the client is gone, however long that takes.
pub(crate) const HOLD: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

/// The same where a store holds it for a fleet, and must get over a node that is lost: longer than
/// most answers take. What takes longer is charged anew when it ends.
#[cfg(feature = "redis")]
pub(crate) const REMOTE_HOLD: Duration = Duration::from_secs(5 * 60);

/// How many may wait for a key unless the caller says otherwise.
pub(crate) const DEFAULT_QUEUE: usize = 1024;

/// The shortest wait that is told where it is not known when to come again.
pub(crate) const SHORTEST_RETRY: Duration = Duration::from_secs(1);
