//! Servers that hang, die or are replaced by their replicas.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::{Decision, Limit};
use tollgate_redis::{RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{RedisCluster, RedisSentinel, RedisServer, command};

use crate::common::{PATIENCE, connect, wait};
use crate::shared::keys_that_all_expire;

/// Long for a call, short for a test.
const TIMEOUT: Duration = Duration::from_secs(1);

const KEYS: u64 = 60;

async fn impatient(url: &str) -> RedisStore {
    let builder = RedisStore::builder(url).timeout(TIMEOUT).connect_timeout(PATIENCE);
    builder.connect().await.expect("the server is there")
}

/// Checks until there is an answer.
async fn answer(limiter: &RedisLimiter, key: u64) -> Decision {
    let start = Instant::now();
    loop {
        match limiter.check(key).await {
            Ok(decision) => return decision,
            Err(error) => assert!(start.elapsed() < PATIENCE * 2, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every write is at the replica.
fn replicated(port: u16) {
    let start = Instant::now();
    loop {
        let info = command(port, "INFO replication");
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let fact = |name: &str| {
            let line = info.lines().find(|line| line.contains(name)).unwrap_or("");
            number(line.split(name).nth(1).and_then(|rest| rest.split(',').next()).unwrap_or(""))
        };
        if fact("offset=") > 0 && fact("offset=") == fact("master_repl_offset:") {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{info}");
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let mut cluster = RedisCluster::with_replicas(3, 1);
    wait(async {
        let store = impatient(&cluster.url()).await;
        let limiter = store.limiter("a", Limit::per_day(1000)).unwrap();
        for key in 0..KEYS {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 999);
        }

        // One that hangs: its keys have no answer in time, everybody else's do at once.
        let hangs = keys_of(&cluster, &limiter, 0);
        assert!(hangs.len() > 5 && hangs.len() < 40);
        cluster.ask(0, "CLIENT PAUSE 2500 ALL");
        let late = limiter.check(hangs[0]).await;
        assert!(matches!(late, Err(StoreError::TimedOut(_))), "{late:?}");
        for key in (0..KEYS).filter(|key| !hangs.contains(key)) {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 998, "{key}");
        }
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
    let mut cluster = RedisCluster::with_replicas(3, 1);
    let first = tokio::runtime::Runtime::new().unwrap();
    let (limiter, key) = first.block_on(async {
        let store = impatient(&cluster.url()).await;
        let limiter = store.limiter("a", Limit::per_day(1000)).unwrap();
        let key = keys_of(&cluster, &limiter, 1)[0];
        assert!(limiter.check(key).await.unwrap().is_allowed());
        replicated(cluster.nodes()[1].port());
        cluster.kill(1);
        while !matches!(limiter.check(key).await, Err(StoreError::Away { .. })) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (limiter, key)
    });
    drop(first);
    assert_eq!(wait(answer(&limiter, key)).remaining(), 998);
}

fn replica_of(primary: &RedisServer) -> RedisServer {
    let replica = RedisServer::with_options(&["--repl-diskless-sync-delay", "0"]);
    command(replica.port(), &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let start = Instant::now();
    while !command(replica.port(), "INFO replication").contains("master_link_status:up") {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let mut primary = RedisServer::start();
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
        let start = Instant::now();
        let refused = loop {
            match limiter.check(7).await {
                Err(StoreError::Unreachable(_)) if start.elapsed() < PATIENCE => {}
                Err(StoreError::Away { why, .. }) => break Err((*why).clone()),
                other => break other,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        command(replica.port(), "REPLICAOF NO ONE");
        assert_eq!(answer(&limiter, 7).await.remaining(), 89, "it knows what was replicated");
    });
}

#[test]
fn sentinels_say_who_goes_on_when_a_server_dies() {
    let mut primary = RedisServer::start();
    let replica = replica_of(&primary);
    let sentinel = RedisSentinel::start(primary.port());
    let start = Instant::now();
    while !command(sentinel.port(), "INFO sentinel").contains("slaves=1") {
        assert!(start.elapsed() < PATIENCE, "the sentinel does not find the replica");
        std::thread::sleep(Duration::from_millis(20));
    }
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

        let name = sentinel.url().replace("mymaster", "other");
        let error = RedisStore::connect(&name).await.unwrap_err();
        assert!(error.to_string().contains("watch nothing that is called \"other\""), "{error}");
        let plain = format!("redis://127.0.0.1:{}", sentinel.port());
        let error = RedisStore::builder(plain).timeout(PATIENCE).connect().await.unwrap_err();
        assert!(error.to_string().contains("redis+sentinel://"), "{error}");
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
        let to = |query: &str| RedisStore::builder(format!("{url}{query}")).timeout(PATIENCE);
        for query in ["?sentinel_pass=w4tch", "?sentinel_user=gate&sentinel_pass=g%34te"] {
            let store = to(query).connect().await.unwrap();
            let limiter = store.limiter("a", Limit::per_day(100)).unwrap();
            assert!(limiter.check(7).await.unwrap().is_allowed());
            assert!(!format!("{store:?}").contains("w4tch"));
        }
        let error = to("").connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains("wants a password of its own"), "{error}");
        let wrong = to("?sentinel_user=gate&sentinel_pass=wr0ng").connect().await.unwrap_err();
        assert!(matches!(wrong, StoreError::Refused(_)), "{wrong:?}");
        assert!(!format!("{wrong:?}").contains("wr0ng"), "{wrong:?}");
    });
}
