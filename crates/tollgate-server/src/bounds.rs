//! Every maximum of the server in one place, each with its reason.

use std::time::Duration;

/// What a request may take, over any transport, and how long a client may keep the server waiting.
///
/// ```
/// use std::time::Duration;
/// use tollgate_server::Bounds;
///
/// let bounds = Bounds { body: 64 << 10, idle: Some(Duration::from_secs(30)), ..Bounds::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the head of a request over HTTP.
    pub head: usize,
    /// Bytes of a body over HTTP: by default a full batch of long attributes.
    pub body: usize,
    /// How long a body, a message of gRPC or the rest of a command of the Redis protocol may take.
    pub body_time: Duration,
    /// Bytes of a message over gRPC.
    pub message: usize,
    /// Attributes of a request, or entries of a descriptor with its domain; 256 at most.
    pub attributes: usize,
    /// Bytes of a key, which is the value of an attribute; 65,536 at most.
    pub key_length: usize,
    /// Requests of one batch over HTTP; 4096 at most.
    pub batch: usize,
    /// Descriptors of one request of Envoy's.
    pub descriptors: usize,
    /// Commands of one connection of the Redis protocol that wait for a store elsewhere at once.
    pub pipeline: usize,
    /// How long a new connection may say nothing.
    pub first_byte: Duration,
    /// How long a connection may be idle; if not said, a minute over HTTP, in which the head of a
    /// request has to be there, too, ten over the Redis protocol, a quarter of an hour over gRPC.
    pub idle: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            head: MAX_HEAD,
            body: MAX_BODY,
            body_time: BODY_TIMEOUT,
            message: MAX_MESSAGE,
            attributes: MAX_ATTRIBUTES,
            key_length: MAX_VALUE,
            batch: MAX_BATCH,
            descriptors: MAX_DESCRIPTORS,
            pipeline: MAX_PIPELINE,
            first_byte: FIRST_BYTE,
            idle: None,
        }
    }
}

impl Bounds {
    /// Within what the server can bear.
    pub(crate) fn sensible(self) -> Bounds {
        Bounds {
            head: self.head.clamp(LEAST_HEAD, MOST_HEAD),
            attributes: self.attributes.min(MOST_ATTRIBUTES),
            key_length: self.key_length.min(MOST_VALUE),
            batch: self.batch.min(MOST_BATCH),
            ..self
        }
    }
}

/// A bound that a client can go over: a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Head,
    Body,
    BodyTime,
    /// All bodies that are on their way together.
    Bodies,
    Message,
    Attributes,
    KeyLength,
    Batch,
    /// Limits that clients bring.
    Limits,
    Descriptors,
    /// Commands between `MULTI` and `EXEC`.
    Transaction,
    /// A connection that keeps the server waiting.
    Waiting,
}

pub(crate) const BOUNDS: [(Bound, &str); 12] = [
    (Bound::Head, "head"),
    (Bound::Body, "body"),
    (Bound::BodyTime, "body_time"),
    (Bound::Bodies, "bodies"),
    (Bound::Message, "message"),
    (Bound::Attributes, "attributes"),
    (Bound::KeyLength, "key_length"),
    (Bound::Batch, "batch"),
    (Bound::Limits, "limits"),
    (Bound::Descriptors, "descriptors"),
    (Bound::Transaction, "transaction"),
    (Bound::Waiting, "waiting"),
];

/// Connections that are open at once. One that is idle costs some kilobytes.
pub(crate) const MAX_CONNECTIONS: usize = 10_000;

/// Connections that are open at once on the listener for health checks: an orchestrator opens one at
/// a time, and a client that holds some open keeps no probe out.
pub(crate) const MAX_HEALTH_CONNECTIONS: usize = 1024;

/// The head of a request: a proxy hands on cookies and tokens of its clients.
const MAX_HEAD: usize = 64 << 10;

/// What an operator may make of that: no request fits in less, and what all connections together
/// may send is this many times as much.
const LEAST_HEAD: usize = 4 << 10;
const MOST_HEAD: usize = 1 << 20;

/// The body of a request: a full batch of long attributes.
const MAX_BODY: usize = 1 << 20;

/// A body that gets longer needs room among...
pub(crate) const SMALL_BODY: usize = 16 << 10;

/// ...all of these together, so that clients cannot fill the memory with what they never finish.
pub(crate) const MAX_BODIES: usize = 256 << 20;

/// How long a new connection may say nothing.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// How long a head may take, and how long a connection may be idle between two requests. Long
/// enough that a proxy keeps its connections, short enough that slow clients do not pile up.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long nothing of an answer may go out: a client that does not read keeps its place no longer.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Attributes of one request: a policy has few, and each is looked for among all.
pub(crate) const MAX_ATTRIBUTES: usize = 64;

/// What an operator may make of that: each is compared with all before it.
pub(crate) const MOST_ATTRIBUTES: usize = 256;

/// Bytes of an attribute's name.
pub(crate) const MAX_NAME: usize = 128;

/// Bytes of an attribute's value: the store keeps a name for each key.
pub(crate) const MAX_VALUE: usize = 4096;

/// What an operator may make of that: less than a command of the Redis protocol may hold.
const MOST_VALUE: usize = 64 << 10;

/// Requests in one batch: some ten microseconds of work, so that no other waits long.
pub(crate) const MAX_BATCH: usize = 256;

/// What an operator may make of that: a millisecond.
pub(crate) const MOST_BATCH: usize = 4096;

/// Commands of a connection that wait for a store elsewhere at once: a usual pipeline.
const MAX_PIPELINE: usize = 64;

/// Reservations that are open at once, each about a kilobyte.
pub(crate) const MAX_HOLDS: usize = 65_536;

/// How long nothing is asked of a store elsewhere before it is asked whether it is still there: how
/// late that may be known. Each time it writes a few bytes.
pub(crate) const STORE_PROBE: Duration = Duration::from_secs(3);

/// How long a reservation may be open: units that nobody settles are gone for that long.
pub(crate) const MAX_HOLD_TIME: Duration = Duration::from_secs(60 * 60);

/// How long a reservation is open that does not say it.
pub(crate) const HOLD_TIME: Duration = Duration::from_secs(60);

/// Rules, each with its tiers, that are counted apart; those of later policies are counted together.
pub(crate) const MAX_COUNTED: usize = 10_000;

/// How long requests in flight have to end when the server stops: as long as a body may take.
pub(crate) const DRAIN: Duration = BODY_TIMEOUT;

/// How long calls and changes whose connections were cut off have to end: what is in memory does at
/// once, and nothing is lost where a store elsewhere takes longer.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(2);

/// The connections that the system accepts ahead of the server, on each port; Linux lowers it to
/// `net.core.somaxconn`, which is 4,096 by default.
pub(crate) const BACKLOG: u32 = 4096;

/// How long not to accept when the system has no room for another connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many different limits clients of a transport may bring that are in use: each takes some room
/// in the store, and forty of them are a large fleet's.
pub(crate) const MAX_CLIENT_LIMITS: usize = 4096;

/// Databases of the Redis protocol: as many as a Redis has by default, each with names of its own
/// in the store.
pub(crate) const DATABASES: u8 = 16;

/// The longest period of a limit that a client brings, and the longest time in which its bucket
/// refills: 31 days, a month. A limit is dropped once all its keys are fresh, so that a client that
/// brings as many as there may be keeps out those of others for that long at most.
pub(crate) const MAX_CLIENT_PERIOD: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// How often, at most, it is looked through the store for limits of clients that can be forgotten:
/// some milliseconds for a million keys.
pub(crate) const FORGET_PAUSE: Duration = Duration::from_secs(5);

/// Limits that one request brings.
pub(crate) const MAX_LIMITS: usize = 8;

/// How long a client may take to agree on TLS.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A file of certificates: a chain is some kilobytes, a bundle of authorities some hundred.
pub(crate) const MAX_PEM: u64 = 1 << 20;

/// How often files of certificates are looked at: they change a few times a year.
pub(crate) const CERTIFICATES_LOOK: Duration = Duration::from_secs(1);

/// Threads for connections of the Redis protocol: more than any machine's cores are a mistake.
pub(crate) const MAX_THREADS: usize = 1024;

/// Rules whose largest keys are kept apart, in the order in which they are seen in a window: some
/// megabytes in all.
pub(crate) const TOP_RULES: usize = 32;

/// Keys of each of these rules that a list of the largest is drawn from: a key with a 250th of the
/// requests of the rule is among them.
pub(crate) const TOP_KEYS_OF_RULE: usize = 256;

/// The same of all other rules together.
pub(crate) const TOP_KEYS_SHARED: usize = 512;

/// Ranks of the keys with the most denials that a metric tells.
pub(crate) const TOP_RANKS: usize = 5;

/// How long a window of the largest keys is: they are those of the last one or two.
pub(crate) const TOP_WINDOW: Duration = Duration::from_secs(60);

/// Bytes of a key that lists of denials and of the largest keys keep.
pub(crate) const MAX_SHOWN_KEY: usize = 256;

/// Denials that are remembered are in so many sets, each with a lock of its own...
pub(crate) const DENIAL_SETS: u64 = 128;

/// ...of so many: enough that what is late in one set is late in all.
pub(crate) const DENIALS_PER_SET: usize = 8;

/// Lines about the same that clients can make the server log in a second.
pub(crate) const LINES_A_SECOND: u64 = 20;

/// Characters of an operator's token: fewer can be guessed...
pub(crate) const MIN_TOKEN: usize = 16;

/// ...and more were not meant as one.
pub(crate) const MAX_TOKEN: usize = 256;

/// Tokens of operators: each is compared with what is sent.
pub(crate) const MAX_TOKENS: usize = 1000;

/// Bytes that are read of a file of tokens.
pub(crate) const MAX_TOKEN_FILE: u64 = 1 << 20;

/// How often the file of tokens is looked at: who loses one wants it to be good for nothing soon.
pub(crate) const TOKENS_LOOK: Duration = Duration::from_millis(500);

/// Wrong tokens that an address may send in a minute: an operator's mistakes, no guesser's tries.
pub(crate) const MAX_WRONG_TOKENS: u64 = 10;

/// Changes by operators that are kept in memory.
pub(crate) const MAX_AUDIT: usize = 1024;

/// Rules that an entry of the audit log names, of those added, removed and changed each: an entry is
/// kept in memory, and a policy may have thousands.
pub(crate) const MAX_CHANGES_NAMED: usize = 50;

/// Limits of one override that an entry of the audit log names, for the same reason.
pub(crate) const MAX_LIMITS_NAMED: usize = 50;

/// Characters of the values before and after a change in a line of the log.
pub(crate) const MAX_CHANGE_SUMMARY: usize = 200;

/// How many of these may be by clients, who need no token: so many that operators see what goes on.
pub(crate) const MAX_AUDIT_OF_CLIENTS: usize = 256;

/// Entries of one answer to an operator.
pub(crate) const MAX_PAGE: usize = 1000;

/// Parts of a store that are looked through for one answer: some ten milliseconds.
pub(crate) const MAX_PARTS: usize = 1024;

/// The same of a store elsewhere, each with a round trip.
pub(crate) const MAX_STEPS: usize = 128;

/// Listed keys whose blocks are read from a store elsewhere at the same time: they share a
/// connection with decisions.
pub(crate) const MAX_BLOCK_READS: usize = 64;

/// Rulings that are tried for one status while the policy or the overrides change.
pub(crate) const MAX_STATUS_TRIES: usize = 8;

/// Bytes of a policy that an operator sends.
pub(crate) const MAX_POLICY: usize = 16 << 20;

/// The longest block or override by hand that is said in seconds: ten years.
pub(crate) const MAX_SECONDS: u64 = 10 * 366 * 24 * 60 * 60;

/// Rules that do not apply to a request of which an operator is told why.
pub(crate) const MAX_NOT_APPLIED: usize = 100;
/// A message of a gRPC client: a request with many long descriptors.
const MAX_MESSAGE: usize = 64 << 10;

/// Descriptors of one request to the rate limit service: Envoy sends one for each action.
const MAX_DESCRIPTORS: usize = 64;

/// How long the descriptors of one request may hold each other up.
pub(crate) const DESCRIPTORS_HELD: Duration = Duration::from_secs(10);

/// Calls that a gRPC connection has open at once. Envoy opens another connection for more.
pub(crate) const MAX_STREAMS: u32 = 256;

/// The headers of a gRPC call: its own, and what a proxy adds.
pub(crate) const MAX_HEADERS: u32 = 16 << 10;

/// What a gRPC connection sends before it must wait for the server: messages that are on their way.
pub(crate) const CONNECTION_WINDOW: u32 = 256 << 10;

/// How often a gRPC client is asked whether it is there, and how long it may take to answer.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(30);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// After how long without a call a gRPC connection is told to close. Clients connect anew by
/// themselves.
pub(crate) const GRPC_IDLE: Duration = Duration::from_secs(15 * 60);

/// Streams of events that are open at once: more people than look at one server.
pub(crate) const MAX_EVENT_STREAMS: usize = 32;

/// How often an event is sent: as often as people notice.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Rules that an event names, the busiest: an event is some kilobytes.
pub(crate) const MAX_SAMPLED_RULES: usize = 64;

/// Keys that an event names, those that were denied most.
pub(crate) const SAMPLED_DENIALS: usize = 20;

/// How often a simulation for an operator may ask: a second of work, for all algorithms together.
pub(crate) const MAX_SIMULATED: u64 = 100_000;

/// Clients of such a simulation, its limits and kinds of traffic, and the bytes that say so.
pub(crate) const MAX_SIMULATED_CLIENTS: u64 = 1000;
pub(crate) const MAX_SIMULATED_LIMITS: usize = 8;
pub(crate) const MAX_SIMULATED_TRAFFIC: usize = 4;
pub(crate) const MAX_SIMULATION: usize = 64 << 10;

/// The most rejected files of an Envoy folder that readiness and metrics name: their text stays
/// short, and the log names all.
pub(crate) const MAX_REJECTED_FILES: usize = 20;

/// The most bytes of the reason for which a file is rejected, in a label of a metric: the log has
/// all of it.
pub(crate) const MAX_REASON: usize = 200;
