//! The store: a connection to a server or a Cluster, and the limiters whose state it keeps.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Clock, Limit, ManualClock};

use crate::bounds::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_DENY_CACHE, DEFAULT_TIMEOUT, MAX_NAME};
use crate::clock_steps::ClockSteps;
use crate::connection::Connection;
use crate::denied::DenyCache;
use crate::error::StoreError;
use crate::eviction::EvictionMonitor;
use crate::fetch::Conversions;
use crate::histogram::Histogram;
use crate::limiter::RedisLimiter;
use crate::outage::Health;
use crate::script;

/// A Redis or Valkey server, or a Cluster of them, that keeps the state of limiters. Clones share
/// the connections.
///
/// ```no_run
/// use tollgate::Limit;
/// use tollgate_redis::RedisStore;
///
/// # async fn example() -> Result<(), tollgate_redis::StoreError> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// let logins = store.limiter("login", Limit::per_minute(10))?;
/// if logins.check("ana").await?.is_allowed() {
///     // serve the request
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<RedisStoreInner>,
    denials: Arc<DenyCache>,
    /// A test's own time.
    clock: Option<ManualClock>,
}

struct RedisStoreInner {
    connection: Connection,
    /// What the next reservation is known by: begins anywhere, so that no two processes meet.
    tickets: AtomicU64,
    conversions: Conversions,
    evictions: EvictionMonitor,
    clock_steps: ClockSteps,
}

impl RedisStore {
    /// Connects to the server at `url`, and sees that it can be used.
    ///
    /// `redis://user:password@host:6379/0`, `rediss://…` for TLS (feature `tls`),
    /// `redis+unix:///path?db=0&user=…&pass=…` for a socket; `?protocol=resp3` for RESP3;
    /// `redis+cluster://host1:6379,host2:6379` for a Cluster by some of its nodes, and
    /// `redis+sentinel://host1:26379,host2:26379/mymaster/0` for the server that Sentinels name
    /// (`rediss+…` for TLS), with `?sentinel_user=…&sentinel_pass=…` where they want a password. With TLS,
    /// `?ca=/path/ca.pem` names the authorities to trust instead of the machine's, and
    /// `?cert=/path/own.pem&key=/path/own.key` who we are.
    ///
    /// # Errors
    /// Where the URL is wrong, nobody answers, the password is refused, the server is older than
    /// 6.2 or is of another kind than the URL says.
    pub async fn connect(url: &str) -> Result<RedisStore, StoreError> {
        RedisStore::builder(url).connect().await
    }

    /// To connect with time-outs of one's own.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.into(),
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            deny_cache_ttl: DEFAULT_DENY_CACHE,
        }
    }

    /// A store at `url` that connects when it is first asked, as [`RedisStoreBuilder::open`] says.
    ///
    /// # Errors
    /// Where the URL is wrong.
    pub fn open(url: &str) -> Result<RedisStore, StoreError> {
        RedisStore::builder(url).open()
    }

    /// How it fares. Asks nobody, and is up to date with the last call.
    pub fn health(&self) -> Health {
        Health { cached_denials: self.denials.answered(), ..self.inner.connection.health() }
    }

    /// Asks the server whether it would answer calls, for somebody who makes none and wants
    /// [`health`](Self::health) to be up to date all the same: at the start, and while nothing is to
    /// be decided. During an outage nobody is asked, since that is looked after anyway.
    ///
    /// # Errors
    /// Why calls would not be answered.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.inner.connection.probe().await
    }

    /// How long its calls took, but for those that timed out or were not made since the store was away.
    pub fn latency(&self) -> &Histogram {
        self.inner.connection.latency()
    }

    /// The limiter `name`: `limit` over many keys. Limiters of one name, in whatever process, share
    /// their keys; where the numbers differ, a key keeps its proportion.
    ///
    /// # Errors
    /// Where the limit is impossible or cannot be kept exact, or the name is too long.
    pub fn limiter(&self, name: &str, limit: Limit) -> Result<RedisLimiter, StoreError> {
        if name.len() > MAX_NAME {
            return Err(StoreError::InvalidRequest(format!(
                "the limiter's name is {} bytes, must be at most {MAX_NAME}",
                name.len()
            )));
        }
        RedisLimiter::new(self.clone(), name, limit)
    }

    /// The same store for a test: it decides by `clock`, in whole microseconds, instead of the
    /// server's clock, and its keys live an hour longer than they must.
    #[doc(hidden)]
    #[must_use]
    pub fn with_test_clock(&self, clock: ManualClock) -> RedisStore {
        let denials = Arc::new(self.denials.with_clock(clock.clone()));
        RedisStore { inner: self.inner.clone(), denials, clock: Some(clock) }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.inner.connection
    }

    pub(crate) fn conversions(&self) -> &Conversions {
        &self.inner.conversions
    }

    pub(crate) fn eviction_state(&self) -> &EvictionMonitor {
        &self.inner.evictions
    }

    /// How many states this process re-dated, because the clock of the server had moved back by more
    /// than their limit needs from used up to fresh.
    pub fn redated(&self) -> u64 {
        self.inner.clock_steps.redated()
    }

    /// Counts states that were re-dated.
    pub(crate) fn count_redated(&self, states: usize) {
        self.inner.clock_steps.count(states, self.inner.connection.address());
    }

    pub(crate) fn denials(&self) -> &DenyCache {
        &self.denials
    }

    /// The time that the script is told: none, but in a test.
    pub(crate) fn told_time(&self) -> String {
        let told = |clock: &ManualClock| script::moment(clock.now().as_nanos() / 1000).to_string();
        self.clock.as_ref().map(told).unwrap_or_default()
    }

    /// A test's own clock.
    pub(crate) fn clock(&self) -> Option<&ManualClock> {
        self.clock.as_ref()
    }

    /// The time of this machine, or of the test: not the server's.
    pub(crate) fn now_micros(&self) -> u64 {
        let now = self.clock.as_ref().map_or_else(|| Clock::system().now(), ManualClock::now);
        now.as_nanos() / 1000
    }

    /// A number that no other process has had: for the namespaces of tests.
    #[doc(hidden)]
    pub fn unique_number(&self) -> u64 {
        self.next_ticket()
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.inner.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.inner.connection.address())
            .finish_non_exhaustive()
    }
}

/// What a [`RedisStore`] is connected with.
#[derive(Clone)]
#[must_use]
pub struct RedisStoreBuilder {
    url: String,
    timeout: Duration,
    connect_timeout: Duration,
    deny_cache_ttl: Duration,
}

impl RedisStoreBuilder {
    /// The longest a call may take, a new connection included; 50 ms if not said.
    pub fn timeout(mut self, timeout: Duration) -> RedisStoreBuilder {
        self.timeout = timeout;
        self
    }

    /// The longest a connection may take to be made; a second if not said. Calls do not wait for it
    /// longer than for anything else.
    pub fn connect_timeout(mut self, timeout: Duration) -> RedisStoreBuilder {
        self.connect_timeout = timeout;
        self
    }

    /// How long a request that was refused is refused again without asking the server, if its wait
    /// is not over before; a second if not said, nothing at all for zero. Units that another process
    /// gives back may be seen so much later; those that this one gives back are seen at once.
    pub fn deny_cache_ttl(mut self, lasts: Duration) -> RedisStoreBuilder {
        self.deny_cache_ttl = lasts;
        self
    }

    /// Connects, and sees that the server can be used.
    ///
    /// # Errors
    /// As [`RedisStore::connect`].
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let store = self.open()?;
        store.connection().join().await?;
        // A server that does not say whether it evicts can be used all the same.
        let _ = store.check_evictions().await;
        Ok(store)
    }

    /// Opens the store without asking the server: the first call connects. A server that is absent,
    /// refuses the password, is too old or of another kind than the URL says is then an outage, which
    /// ends when that is mended, and [`RedisStore::health`] says why.
    ///
    /// # Errors
    /// Where the URL is wrong.
    pub fn open(self) -> Result<RedisStore, StoreError> {
        let connection = Connection::new(&self.url, self.timeout, self.connect_timeout)?;
        let random = || {
            getrandom::u64()
                .map_err(|error| StoreError::Incompatible(format!("no random numbers: {error}")))
        };
        let denials = DenyCache::new(self.deny_cache_ttl, None, [random()?, random()?]);
        let tickets = AtomicU64::new(random()?);
        let (conversions, evictions) = (Conversions::default(), EvictionMonitor::default());
        let clock_steps = ClockSteps::default();
        let inner = RedisStoreInner { connection, tickets, conversions, evictions, clock_steps };
        Ok(RedisStore { inner: Arc::new(inner), denials: Arc::new(denials), clock: None })
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
