//! The Cluster that the tests share, and the store as the contract wants it.

use std::sync::{Mutex, MutexGuard, OnceLock};

use redis::cmd;
use tollgate::ManualClock;
use tollgate_redis::RedisStore;
use tollgate_testkit::{DEADLINE, RedisCluster};

use crate::common::{self, Injected, connect, wait};

/// A Cluster that no test changes.
pub(crate) fn cluster() -> &'static RedisCluster {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| RedisCluster::start(3))
}

/// A Cluster for the tests that count calls, move slots or stop nodes, one test at a time. Each leaves
/// it whole; after one that failed it is a new one.
pub(crate) fn exclusive() -> MutexGuard<'static, RedisCluster> {
    static CLUSTER: OnceLock<Mutex<RedisCluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| Mutex::new(RedisCluster::start(3)));
    cluster.lock().unwrap_or_else(|poisoned| {
        cluster.clear_poison();
        let mut cluster = poisoned.into_inner();
        *cluster = RedisCluster::start(3);
        cluster
    })
}

/// By connections that are shared, too.
pub(crate) fn store() -> &'static RedisStore {
    static STORE: OnceLock<RedisStore> = OnceLock::new();
    STORE.get_or_init(|| wait(connect(&cluster().url())))
}

/// The same without the deny cache.
pub(crate) fn asking() -> &'static RedisStore {
    static ASKING: OnceLock<RedisStore> = OnceLock::new();
    ASKING.get_or_init(|| common::asking(&cluster().url()))
}

pub(crate) fn injected(clock: ManualClock) -> Injected {
    Injected::new(store(), asking(), clock)
}

/// Every key of the Cluster has a TTL; how many there are.
pub(crate) fn keys_that_all_expire(cluster: &RedisCluster) -> usize {
    let mut count = 0;
    for node in cluster.nodes() {
        let client = redis::Client::open(node.url()).unwrap();
        // A node that was killed has no keys.
        let Ok(mut connection) = client.get_connection_with_timeout(DEADLINE) else { continue };
        let role: Vec<redis::Value> = cmd("ROLE").query(&mut connection).unwrap();
        if role[0] != redis::Value::BulkString(b"master".to_vec()) {
            continue;
        }
        let keys: Vec<Vec<u8>> = cmd("KEYS").arg("*").query(&mut connection).unwrap();
        // What a fleet shares is configuration, and stays.
        for key in keys.into_iter().filter(|key| !key.starts_with(b"tg:{}:shared:")) {
            let left: i64 = cmd("PTTL").arg(&key).query(&mut connection).unwrap();
            assert_ne!(left, -1, "{} does not expire", key.escape_ascii());
            count += 1;
        }
    }
    count
}
