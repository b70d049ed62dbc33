//! Servers that hang, die or are replaced by their replicas.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Decision, Limit};
use tollgate_redis::{RedisLimiter, StoreError};
use tollgate_testkit::{
    DEADLINE, RedisCluster, RedisSentinel, RedisServer, command, eventually, eventually_async,
};

use super::shared::keys_that_all_expire;
use crate::common::clock::{OwnRuntime, after_timeout, alone};
use crate::common::{builder, connect, golden, wait};

const KEYS: u64 = 60;

/// Checks until there is an answer.
async fn answer(limiter: &RedisLimiter, key: u64) -> Decision {
    eventually_async("an answer", async || limiter.check(key).await).await
}

/// Waits until every write is at the replica.
fn replicated(port: u16) {
    eventually("the replica to have every write", || {
        let info = command(port, "INFO replication");
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let fact = |name: &str| {
            let line = info.lines().find(|line| line.contains(name)).unwrap_or("");
            number(line.split(name).nth(1).and_then(|rest| rest.split(',').next()).unwrap_or(""))
        };
        let is_there = fact("offset=") > 0 && fact("offset=") == fact("master_repl_offset:");
        is_there.then_some(()).ok_or(info)
    });
}

/// A thousand, so large that no unit refills during a test.
fn limit() -> Limit {
    Limit::fixed_window(1000, Duration::from_secs(365 * 24 * 60 * 60)).starting_at_first_request()
}

/// A Cluster with a replica of each node. It serves the keys of the other nodes while one is
/// unavailable.
fn cluster() -> RedisCluster {
    let cluster = RedisCluster::with_replicas(3, 1);
    for node in 0..cluster.nodes().len() {
        cluster.ask(node, "CONFIG SET cluster-require-full-coverage no");
    }
    cluster
}

/// The keys that a node serves, first to last as the test has them.
fn keys_of(cluster: &RedisCluster, limiter: &RedisLimiter, node: usize) -> Vec<u64> {
    let nodes = cluster.ask(node, "CLUSTER NODES");
    let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or("").to_owned();
    let ranges: Vec<(u64, u64)> = own
        .split(' ')
        .skip(8)
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        })
        .collect();
    let slot = |key: u64| cluster.ask(node, &format!("CLUSTER KEYSLOT {key}")).parse::<u64>();
    assert_eq!(limiter.name(), "a", "its keys are found by their number");
    (0..KEYS)
        .filter(|key| {
            let slot = slot(*key).unwrap();
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
        })
        .collect()
}

#[test]
fn a_cluster_goes_on_when_nodes_hang_are_replaced_and_die() {
    let mut cluster = cluster();
    alone(async {
        let store = connect(&cluster.url()).await;
        let limiter = store.limiter("a", limit()).unwrap();
        for key in 0..KEYS {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 999);
        }

        // One that hangs: its keys have no answer in time, everybody else's do at once.
        let hangs = keys_of(&cluster, &limiter, 0);
        assert!(hangs.len() > 5 && hangs.len() < 40);
        cluster.ask(0, "CLIENT PAUSE 3600000 WRITE");
        let late = after_timeout(DEADLINE, limiter.check(hangs[0])).await;
        assert_eq!(late.unwrap_err(), StoreError::Timeout(DEADLINE));
        for key in (0..KEYS).filter(|key| !hangs.contains(key)) {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 998, "{key}");
        }
        cluster.ask(0, "CLIENT UNPAUSE");
        // What the hanging node did in the end was charged.
        let left = answer(&limiter, hangs[0]).await.remaining();
        assert!((995..=998).contains(&left), "{left}");
        for key in hangs {
            answer(&limiter, key).await;
        }

        // One that its replica takes the place of: nothing is lost that was replicated.
        replicated(cluster.nodes()[0].port());
        let before = [limiter.status(0).await, limiter.status(1).await, limiter.status(2).await];
        assert_eq!(cluster.ask(3, "CLUSTER FAILOVER TAKEOVER"), "OK");
        let after = [limiter.status(0).await, limiter.status(1).await, limiter.status(2).await];
        for (before, after) in before.into_iter().zip(after) {
            assert_eq!(after.unwrap().used(), before.unwrap().used());
        }
        for key in 0..KEYS {
            assert!(answer(&limiter, key).await.is_allowed());
        }

        // One that dies: its keys are served again when its replica has been elected, the others' all
        // the while.
        replicated(cluster.nodes()[1].port());
        let dies = keys_of(&cluster, &limiter, 1);
        let used = limiter.status(dies[0]).await.unwrap().used();
        cluster.kill(1);
        let gone = limiter.check(dies[0]).await;
        assert!(gone.is_err(), "{gone:?}");
        for key in (0..KEYS).filter(|key| !dies.contains(key)) {
            assert!(limiter.check(key).await.unwrap().is_allowed(), "{key}");
        }
        assert!(answer(&limiter, dies[0]).await.is_allowed());
        assert!(limiter.status(dies[0]).await.unwrap().used() > used, "nothing was lost");
        for key in 0..KEYS {
            assert!(answer(&limiter, key).await.is_allowed());
        }
    });
    assert!(keys_that_all_expire(&cluster) > 0);
}

#[test]
fn a_node_is_replaced_also_when_the_runtime_that_saw_it_die_is_gone() {
    let mut cluster = cluster();
    let first = OwnRuntime::new();
    let (limiter, key) = first.block_on(async {
        let store = connect(&cluster.url()).await;
        let limiter = store.limiter("a", limit()).unwrap();
        let key = keys_of(&cluster, &limiter, 1)[0];
        assert!(limiter.check(key).await.unwrap().is_allowed());
        replicated(cluster.nodes()[1].port());
        cluster.kill(1);
        eventually_async("the node to be away", async || {
            matches!(limiter.check(key).await, Err(StoreError::Unavailable { .. }))
        })
        .await;
        (limiter, key)
    });
    drop(first);
    assert_eq!(wait(answer(&limiter, key)).remaining(), 998);
}

/// A server that does not wait for more replicas before it serves the first.
fn primary() -> RedisServer {
    RedisServer::with_options(&["--repl-diskless-sync-delay", "0"])
}

fn replica_of(primary: &RedisServer) -> RedisServer {
    let replica = RedisServer::start();
    command(replica.port(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    eventually("the replica to be connected", || {
        command(replica.port(), "INFO replication").contains("master_link_status:up")
    });
    replica
}

/// An address that leads now here, now there.
struct Forwarder {
    port: u16,
    to: Arc<AtomicU16>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Forwarder {
    fn to(port: u16) -> Forwarder {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let (to, open) = (Arc::new(AtomicU16::new(port)), Arc::new(Mutex::new(Vec::new())));
        let forwarder = Forwarder { port: own, to: to.clone(), open: open.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to.load(Ordering::Relaxed)))
                else {
                    continue;
                };
                open.lock().unwrap().push(client.try_clone().unwrap());
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    std::thread::spawn(move || {
                        let _ = copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        forwarder
    }

    fn switch(&self, port: u16) {
        self.to.store(port, Ordering::Relaxed);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_replica_behind_the_same_address_goes_on_where_the_server_was() {
    let mut primary = primary();
    let replica = replica_of(&primary);
    let address = Forwarder::to(primary.port());
    wait(async {
        let store = connect(&format!("redis://127.0.0.1:{}", address.port)).await;
        let limiter = store.limiter("a", Limit::per_day(100)).unwrap();
        for used in 1..=10 {
            assert_eq!(limiter.check(7).await.unwrap().remaining(), 100 - used);
        }
        replicated(primary.port());
        primary.kill();
        address.switch(replica.port());
        // Until it is promoted it refuses: no answer, and nothing is taken.
        eventually_async("a refusal", async || match limiter.check(7).await {
            Ok(decision) => panic!("it answers: {decision:?}"),
            Err(StoreError::Unavailable { why, .. }) => matches!(*why, StoreError::Refused(_)),
            Err(error) => matches!(error, StoreError::Refused(_)),
        })
        .await;
        command(replica.port(), "REPLICAOF NO ONE");
        assert_eq!(answer(&limiter, 7).await.remaining(), 89, "it knows what was replicated");
    });
}

#[test]
fn sentinels_say_who_goes_on_when_a_server_dies() {
    let mut primary = primary();
    let replica = replica_of(&primary);
    let sentinel = RedisSentinel::start(primary.port());
    eventually("the sentinel to find the replica", || {
        command(sentinel.port(), "INFO sentinel").contains("slaves=1")
    });
    wait(async {
        let store = connect(&sentinel.url()).await;
        let limiter = store.limiter("a", Limit::per_day(100)).unwrap();
        let pair = [limiter.charge(7), limiter.charge(8)];
        assert!(store.check_all(&pair).await.unwrap().is_allowed());
        replicated(primary.port());
        primary.kill();
        assert!(limiter.check(7).await.is_err());
        assert_eq!(answer(&limiter, 7).await.remaining(), 98, "it knows what was replicated");
        let mut walk = limiter.keys();
        assert_eq!(walk.next().await.unwrap().map(|keys| keys.len()), Some(2));
        let role = command(replica.port(), "ROLE");
        assert!(role.starts_with("master"), "{role}");

        let other = sentinel.url().replace("mymaster", "other");
        let plain = format!("redis://127.0.0.1:{}", sentinel.port());
        let mut advice = String::new();
        for url in [other, plain] {
            let error = builder(&url).connect().await.unwrap_err();
            assert!(matches!(error, StoreError::Incompatible(_)), "{error:?}");
            advice += &format!("{url}\n    {error}\n");
        }
        let advice = advice.replace(&sentinel.port().to_string(), "{port}");
        golden("urls_of_sentinels.txt", &advice);
    });
}

#[test]
fn sentinels_have_users_and_passwords_of_their_own() {
    let server = RedisServer::with_options(&["--requirepass", "s3rver"]);
    let lines =
        ["requirepass w4tch", "user gate on >g4te +@all", "sentinel auth-pass mymaster s3rver"];
    let sentinel = RedisSentinel::with_lines(server.port(), &lines);
    let url = sentinel.url().replace("://", "://:s3rver@");
    wait(async {
        let to = |query: &str| builder(format!("{url}{query}"));
        for query in ["?sentinel_pass=w4tch", "?sentinel_user=gate&sentinel_pass=g%34te"] {
            let store = to(query).connect().await.unwrap();
            let limiter = store.limiter("a", Limit::per_day(100)).unwrap();
            assert!(limiter.check(7).await.unwrap().is_allowed());
            assert!(!format!("{store:?}").contains("w4tch"));
        }
        let error = to("").connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        let port = sentinel.port().to_string();
        golden("sentinel_password.txt", &error.to_string().replace(&port, "{port}"));
        let wrong = to("?sentinel_user=gate&sentinel_pass=wr0ng").connect().await.unwrap_err();
        assert!(matches!(wrong, StoreError::Refused(_)), "{wrong:?}");
        assert!(!format!("{wrong:?}").contains("wr0ng"), "{wrong:?}");
    });
}
