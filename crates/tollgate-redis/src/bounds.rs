//! Every maximum in one place, each with its reason.

use std::time::Duration;

/// The longest a call may take unless the caller says otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_millis(50);

/// The longest a connection may take to be made unless the caller says otherwise.
pub(crate) const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How many calls in a row may break or time out before the store is taken to be away.
pub(crate) const STRIKES: u32 = 3;

/// How long after the first probe of an outage the second comes. Each waits twice as long as the
/// one before it, up to [`LAST_PROBE`].
pub(crate) const FIRST_PROBE: Duration = Duration::from_millis(50);

/// The longest between two probes: how late it may be noticed that the server is back.
pub(crate) const LAST_PROBE: Duration = Duration::from_secs(1);

/// An outage that begins so soon after the last one is a part of it: its probes go on as slowly.
pub(crate) const CALM: Duration = Duration::from_secs(5);

/// How many commands may wait to be written to a connection. Those of more callers wait with them,
/// each no longer than its call may take.
pub(crate) const WAITING_COMMANDS: usize = 1024;

/// How long a reservation holds its units unless the caller says otherwise.
pub(crate) const DEFAULT_RESERVATION: Duration = Duration::from_secs(60);

/// The longest a reservation may hold: a year, far more than any request takes.
pub(crate) const MAX_RESERVATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The longest key kept as it is. Of longer ones a digest and the beginning are, so that nobody
/// can fill the server with a few keys.
pub(crate) const MAX_KEY: usize = 256;

/// The longest limiter name: it is part of every key.
pub(crate) const MAX_NAME: usize = 256;

/// How often a request is sent again because of what it met (changed numbers, the end of a calendar's
/// window, reservations that have timed out) beside once for each of its charges.
pub(crate) const TRIES: usize = 32;

/// How many requests of a batch are under way at a time: some milliseconds of the server, so that
/// the last of them is answered in time, too.
pub(crate) const BATCH: usize = 1000;

/// How many charges of a batch one call of the script decides, in whole requests: as many as a single
/// request may have, so that a batch holds up the server's other clients no longer than that. A
/// charge of a call with 16 costs no more than one of a call with 128.
pub(crate) const BATCH_CALL: usize = MAX_CHARGES;

/// How many keys a request may charge: each is some microseconds of everybody's server.
pub(crate) const MAX_CHARGES: usize = 64;

/// How long a refusal is repeated without asking unless the caller says otherwise: how late it may
/// be seen that another process has given units back. As late as changed overrides may be.
pub(crate) const DEFAULT_DENY_CACHE: Duration = Duration::from_secs(1);

/// The deny cache holds 10,000 keys, less than a megabyte, in sets found by the key's hash: with
/// eight places each, few sets are full while others are not.
pub(crate) const DENIAL_SETS: usize = 1250;
pub(crate) const DENIALS_PER_SET: usize = 8;

/// How many keys a step of a scan looks at: some hundred microseconds of the server.
pub(crate) const SCAN_COUNT: usize = 512;

/// The longest limit text: its length is one byte of the tag.
pub(crate) const MAX_LIMIT_TEXT: usize = 255;

/// What the script cuts a bucket's debt to, in microseconds.
pub(crate) const MOST_DEBT: u64 = 5_000_000_000_000_000;

/// The largest whole number the script can trust.
pub(crate) const MOST_EXACT: u64 = 1 << 53;

/// How many charges and rules a request of a gate may have: their numbers are bytes of the call.
pub(crate) const MAX_RULE_CHARGES: usize = 255;

/// How many overrides and blocks by hand a fleet may share: every node reads all of them when one
/// has changed.
pub(crate) const MAX_SHARED: usize = 100_000;

/// How often every node asks whether what the fleet shares has changed: twice within the second in
/// which a change is to be in force everywhere.
pub(crate) const POLL: Duration = Duration::from_millis(400);

/// The longest namespace of a gate: it is part of every key.
pub(crate) const MAX_NAMESPACE: usize = 64;

/// How many limits a rule may have, as in a policy.
pub(crate) const MAX_LIMITS: usize = 8;

/// How many hosts a URL may name: enough to find one that is up.
pub(crate) const MAX_SEEDS: usize = 64;

/// How often a command is sent on to another node: more than a slot moves within a call's time.
pub(crate) const REDIRECTIONS: usize = 8;

/// How many nodes are asked at once who serves what: one that hangs must not be waited for.
pub(crate) const ASKED_AT_ONCE: usize = 3;

/// The shortest time between two questions in the background of who serves what.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How long, at least, a part of a request over several slots is held until it is committed.
/// What a process that dies in between has held is lost for so long.
pub(crate) const LEAST_HOLD: Duration = Duration::from_secs(1);

/// How often a request over several slots is tried again while it meets others that are on
/// their way, and the first pause before.
pub(crate) const CONTENDED_TRIES: u32 = 4;
pub(crate) const CONTENDED_PAUSE: Duration = Duration::from_micros(500);

/// How often it is told, at most, that rulings are made without the store though there is no outage.
pub(crate) const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Of how many keys a gate knows what it has borrowed: 32,768, some megabytes, in sets found by the
/// key's hash. Where a set is full of keys that have units in hand, further ones are asked for each
/// time.
pub(crate) const LEASE_SETS: usize = 4096;
pub(crate) const LEASES_PER_SET: usize = 8;

/// How often a borrow is tried again with less, where there is less than was thought.
pub(crate) const LEASE_TRIES: usize = 2;

/// How many returns are sent before the first is waited for.
pub(crate) const RETURNS_AT_ONCE: usize = 128;

/// How often it is looked for units that have ended or lie idle: a look at all keys takes less than
/// a hundredth of the shortest.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// For how long it is told that keys were made new: longer than any lease lasts.
pub(crate) const TOLD_RESETS: Duration = Duration::from_secs(120);

/// How long after its heartbeat a node counts for the leases: several rounds of the poll.
pub(crate) const NODE_SEEN: Duration = Duration::from_secs(2);

/// How long after its heartbeat a node counts for the parts of the limits in an outage: a limit must not
/// grow because a node is slow.
pub(crate) const NODE_REMEMBERED: Duration = Duration::from_secs(60);

/// How many answers to heartbeats say how many nodes there are: more than two seconds, in which all nodes
/// have found that an outage is over.
pub(crate) const SETTLED_BEATS: usize = 6;

/// After how many answers with fewer nodes than configured that is logged: a minute, in which a fleet starts.
pub(crate) const TOLD_FEWER: u32 = 150;

/// After how many rounds of the poll a gate asks again whether the server evicts keys: a minute.
pub(crate) const EVICTION_CHECK: u32 = 150;

/// The longest claim of a state that is being converted. A client that dies keeps the others from the
/// key for so long, or for a quarter of the time that a call may take.
pub(crate) const LONGEST_CLAIM: Duration = Duration::from_secs(1);

/// How long a client waits before it asks again for a state that another one claims: about as long as
/// a conversion takes.
pub(crate) const CLAIM_POLL: Duration = Duration::from_millis(1);

/// How long a server that cannot be connected to has to show whether it speaks TLS.
pub(crate) const PROTOCOL_TEST: Duration = Duration::from_secs(1);
