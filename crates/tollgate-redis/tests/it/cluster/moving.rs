//! Slots that move to another node while requests go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::{Connection, cmd};
use tokio::task::JoinSet;
use tollgate::Limit;
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::{DEADLINE, RedisCluster, eventually};

use super::shared::{exclusive, keys_that_all_expire};
use crate::common::{connect, runtime, unique, wait};

const USERS: u64 = 40;

/// A tenant's limits, all in one slot.
#[derive(Clone)]
struct Tenant {
    store: RedisStore,
    tenant: RedisLimiter,
    user: RedisLimiter,
    once: RedisLimiter,
}

impl Tenant {
    fn new(store: &RedisStore, name: &str) -> Tenant {
        let limiter = |kind: &str, limit| store.limiter(&format!("{name} {kind}"), limit).unwrap();
        Tenant {
            store: store.clone(),
            tenant: limiter("tenant", Limit::fixed_window(1200, Duration::from_secs(86_400))),
            user: limiter("user", Limit::sliding_log(100, Duration::from_secs(86_400)))
                .partition_by(0),
            once: limiter("once", Limit::per_day(5)).partition_by(0),
        }
    }

    /// Alone, or with two others of which one is new.
    async fn check(&self, number: u64) -> bool {
        let user = ("acme", number % USERS);
        if number.is_multiple_of(3) {
            return self.user.check(user).await.unwrap().is_allowed();
        }
        let charges = [
            self.tenant.charge("acme"),
            self.user.charge(user),
            self.once.charge(("acme", number)),
        ];
        self.store.check_all(&charges).await.unwrap().is_allowed()
    }
}

pub(crate) fn raw(cluster: &RedisCluster, node: usize) -> Connection {
    redis::Client::open(cluster.nodes()[node].url()).unwrap().get_connection().unwrap()
}

/// Who serves a slot of three nodes' from the start.
pub(crate) fn owner(slot: u16) -> usize {
    usize::from(slot) * 3 / 16_384
}

/// From here on the slot's keys may lie in two places.
pub(crate) fn begin_to_move_slot(cluster: &RedisCluster, slot: u16, from: usize, to: usize) {
    let (source, target) = (cluster.id(from), cluster.id(to));
    assert_eq!(cluster.ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {source}")), "OK");
    assert_eq!(cluster.ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {target}")), "OK");
}

/// Moves the next of a slot's keys; `false` if there is none.
fn move_key(cluster: &RedisCluster, slot: u16, from: usize, to: usize) -> bool {
    let mut connection = raw(cluster, from);
    let keys: Vec<Vec<u8>> =
        cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(1).query(&mut connection).unwrap();
    let Some(key) = keys.first() else { return false };
    let (port, timeout) = (cluster.nodes()[to].port(), DEADLINE.as_millis().to_string());
    let mut migrate = cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(port).arg(key).arg(0).arg(timeout);
    let () = migrate.query(&mut connection).unwrap();
    true
}

/// Moves the keys of a slot; the number of them.
pub(crate) fn move_keys(cluster: &RedisCluster, slot: u16, from: usize, to: usize) -> usize {
    (0..).take_while(|_| move_key(cluster, slot, from, to)).count()
}

/// From now on one node holds the slot's keys.
pub(crate) fn end_move_of_slot(cluster: &RedisCluster, slot: u16, to: usize) {
    let (target, count) = (cluster.id(to), cluster.nodes().len());
    // The new owner first.
    for node in [to].into_iter().chain((0..count).filter(|node| *node != to)) {
        assert_eq!(cluster.ask(node, &format!("CLUSTER SETSLOT {slot} NODE {target}")), "OK");
    }
}

/// Moves a slot as `redis-cli --cluster reshard` does, key by key; the number of them.
pub(crate) fn move_slot(cluster: &RedisCluster, slot: u16, from: usize, to: usize) -> usize {
    begin_to_move_slot(cluster, slot, from, to);
    let moved = move_keys(cluster, slot, from, to);
    end_move_of_slot(cluster, slot, to);
    moved
}

/// Moves a slot while `requests` counts those that are answered: some meet the slot in two places.
fn move_slot_slowly(
    cluster: &RedisCluster,
    slot: u16,
    [from, to]: [usize; 2],
    requests: &AtomicU64,
) -> usize {
    begin_to_move_slot(cluster, slot, from, to);
    let mut moved = 0;
    while move_key(cluster, slot, from, to) {
        moved += 1;
        if moved % 8 == 0 {
            some_requests(requests);
        }
    }
    end_move_of_slot(cluster, slot, to);
    moved
}

/// Waits until some more requests are answered.
fn some_requests(requests: &AtomicU64) {
    let before = requests.load(Ordering::Relaxed);
    eventually("some requests", || requests.load(Ordering::Relaxed) >= before + 10);
}

#[test]
fn requests_go_on_exactly_while_a_slot_moves_to_a_new_node_and_back() {
    let mut cluster = exclusive();
    let store = wait(connect(&cluster.url()));
    let tenant = Tenant::new(&store, &unique("moved"));
    let slot: u16 = cluster.ask(0, "CLUSTER KEYSLOT acme").parse().unwrap();
    let owner = owner(slot);
    // A node that serves nothing is in nobody's list of who serves what.
    let new = cluster.add_node();

    let stop = Arc::new(AtomicBool::new(false));
    let (allowed, alone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let answered = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..6_u64 {
        let (tenant, stop) = (tenant.clone(), stop.clone());
        let (allowed, alone, answered) = (allowed.clone(), alone.clone(), answered.clone());
        let work = async move {
            let mut number = worker * 100_000;
            while !stop.load(Ordering::Relaxed) {
                let count = if number.is_multiple_of(3) { &alone } else { &allowed };
                if tenant.check(number).await {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                number += 1;
                answered.fetch_add(1, Ordering::Relaxed);
                // The pace of a client: nothing waits for it.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tasks.spawn_on(work, runtime().handle());
    }
    let count = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    eventually("keys to move", || cluster.ask(owner, &count).parse::<usize>().unwrap() > 60);
    let moved = move_slot_slowly(&cluster, slot, [owner, new], &answered)
        + move_slot_slowly(&cluster, slot, [new, owner], &answered);
    some_requests(&answered);
    stop.store(true, Ordering::Relaxed);
    wait(async {
        while let Some(done) = tasks.join_next().await {
            done.expect("no request failed");
        }
    });

    assert!(moved > 100, "{moved} keys were moved");
    let (allowed, alone) = (allowed.load(Ordering::Relaxed), alone.load(Ordering::Relaxed));
    println!("{allowed} together and {alone} alone allowed, {moved} keys moved");
    wait(async {
        let used = tenant.tenant.status("acme").await.unwrap().used();
        assert_eq!(used, allowed, "what was allowed was charged, and nothing else");
        assert!(used <= 1200);
        let mut by_users = 0;
        for user in 0..USERS {
            let used = tenant.user.status(("acme", user)).await.unwrap().used();
            assert!(used <= 100);
            by_users += used;
        }
        assert_eq!(by_users, allowed + alone);
    });
    assert!(keys_that_all_expire(&cluster) > 0);
}
