//! What the tests share: a server, a runtime, and the store as the contract wants it.

pub(crate) mod authority;
pub(crate) mod clock;
pub(crate) mod fleet;
pub(crate) mod log;
pub(crate) mod policies;
pub(crate) mod rig;
pub(crate) mod rulings;

use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Limit, ManualClock};
use tollgate_redis::{RedisLimiter, RedisStore, RedisStoreBuilder};
use tollgate_testkit::{
    Answer, DEADLINE, LimiterUnderTest, RedisServer, StoreUnderTest, assert_golden,
};

/// The store's tick.
pub(crate) const MICRO: Duration = Duration::from_micros(1);

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime can be made"))
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    // Boxed: what a test does is large, and its thread's stack is not.
    runtime().block_on(Box::pin(future))
}

/// The server that the tests share. Each test uses its own names, see [`unique`].
pub(crate) fn server() -> &'static RedisServer {
    RedisServer::shared()
}

/// A store whose calls do not time out on a machine that does other work.
pub(crate) fn builder(url: impl Into<String>) -> RedisStoreBuilder {
    RedisStore::builder(url).timeout(DEADLINE).connect_timeout(DEADLINE)
}

pub(crate) async fn connect(url: &str) -> RedisStore {
    builder(url).connect().await.expect("the server is there")
}

/// The shared server by a connection that is shared, too.
pub(crate) fn store() -> &'static RedisStore {
    static STORE: OnceLock<RedisStore> = OnceLock::new();
    STORE.get_or_init(|| wait(connect(&server().url())))
}

/// Scripts that the server has run, but for the heartbeats of gates, each of which adds to a sorted set.
pub(crate) fn calls(server: &RedisServer) -> u64 {
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut raw).unwrap();
    let heartbeats = |line: &str| -> Option<u64> {
        let rest = line.strip_prefix("cmdstat_zadd:calls=")?;
        rest.split(',').next()?.parse().ok()
    };
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.split_once(":calls=")?;
        matches!(name, "cmdstat_eval" | "cmdstat_evalsha").then_some(())?;
        rest.split(',').next()?.parse().ok()
    };
    let scripts: u64 = info.lines().filter_map(calls).sum();
    scripts - info.lines().filter_map(heartbeats).sum::<u64>()
}

/// Compares a text with the file `name` among the golden files of this crate.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    assert_golden(&folder.join(name), &format!("{}\n", text.trim_end()));
}

/// A name that no other test has.
pub(crate) fn unique(name: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{name} {}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A store whose time a test moves.
pub(crate) struct Injected {
    store: RedisStore,
    /// The same without the deny cache, for logs: of a refused log it knows what remained then.
    asking: RedisStore,
    name: String,
}

impl Injected {
    pub(crate) fn new(store: &RedisStore, asking: &RedisStore, clock: ManualClock) -> Injected {
        let asking = asking.with_test_clock(clock.clone());
        Injected { store: store.with_test_clock(clock), asking, name: unique("store") }
    }
}

/// A store that asks each time.
pub(crate) fn asking(url: &str) -> RedisStore {
    builder(url).deny_cache_ttl(Duration::ZERO).open().expect("the url is right")
}

/// A limiter of it.
pub(crate) struct InjectedLimiter(pub(crate) RedisLimiter);

pub(crate) fn injected(clock: ManualClock) -> Injected {
    Injected::new(store(), store_without_cache(), clock)
}

/// The same without the deny cache: limiters of one name share their keys, and each has the exact
/// figures of the others' denials.
pub(crate) fn injected_without_cache(clock: ManualClock) -> Injected {
    Injected::new(store_without_cache(), store_without_cache(), clock)
}

fn store_without_cache() -> &'static RedisStore {
    static ASKING: OnceLock<RedisStore> = OnceLock::new();
    ASKING.get_or_init(|| asking(&server().url()))
}

impl StoreUnderTest for Injected {
    type Limiter = InjectedLimiter;

    fn limiter(&self, name: &str, limit: &Limit) -> InjectedLimiter {
        let name = format!("{} {name}", self.name);
        let is_log = limit.to_string().contains("sliding_log");
        let store = if is_log { &self.asking } else { &self.store };
        InjectedLimiter(store.limiter(&name, limit.clone()).expect("traffic has valid limits"))
    }

    fn check_all(&self, charges: &[(&InjectedLimiter, &str, u64)]) -> bool {
        let charges: Vec<_> =
            charges.iter().map(|(limiter, key, cost)| limiter.0.charge(*key).cost(*cost)).collect();
        wait(self.store.check_all(&charges)).expect("the server answers").is_allowed()
    }

    fn reclaim(&self) {}
}

impl LimiterUnderTest for InjectedLimiter {
    fn check_n(&self, key: &str, cost: u64) -> Answer {
        wait(self.0.check_n(key, cost)).expect("the server answers").into()
    }

    fn peek_n(&self, key: &str, cost: u64) -> Answer {
        wait(self.0.peek_n(key, cost)).expect("the server answers").into()
    }

    fn refund(&self, key: &str, units: u64) {
        wait(self.0.refund(key, units)).expect("the server answers");
    }

    fn reset(&self, key: &str) {
        wait(self.0.reset(key)).expect("the server answers");
    }
}

/// The rights of a user as docs/redis.md has them: a command for the server.
pub(crate) fn documented_acl() -> &'static str {
    let docs = include_str!("../../../../../docs/redis.md");
    let lines = docs.lines().filter(|line| line.starts_with("ACL SETUSER gate "));
    let [line] = lines.collect::<Vec<_>>()[..] else { panic!("the docs have one such line") };
    line
}

/// The URL of a server for the user in [`documented_acl`].
pub(crate) fn documented_url(server: &RedisServer) -> String {
    format!("redis://gate:secret@127.0.0.1:{}", server.port())
}
