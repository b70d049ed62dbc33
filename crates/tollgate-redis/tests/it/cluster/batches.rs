//! Batches in a Cluster: the requests of one slot share a call.

use tollgate::{Limit, ManualClock, MemoryStore};
use tollgate_redis::RedisStore;
use tollgate_testkit::Answer;

use super::moving::{begin_to_move_slot, end_move_of_slot, move_keys, move_slot, owner, raw};
use super::shared::{asking, exclusive};
use crate::common::{MICRO, calls, connect, unique, wait};

const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// Whether each of `count` requests is allowed: a tenant's and a user's limit, both in the tenant's slot.
async fn check(store: &RedisStore, name: &str, count: usize) -> Vec<bool> {
    let tenant = store.limiter(&format!("{name} tenant"), Limit::per_day(30)).unwrap();
    let user = store.limiter(&format!("{name} user"), Limit::per_day(4)).unwrap().partition_by(0);
    let request = |number: usize| {
        let own = TENANTS[number % 4];
        vec![tenant.charge(own), user.charge((own, number % 24))]
    };
    let requests: Vec<_> = (0..count).map(request).collect();
    let answers = store.check_many(&requests).await;
    answers.into_iter().map(|answer| answer.unwrap().is_allowed()).collect()
}

#[test]
fn the_requests_of_a_slot_share_a_call() {
    let cluster = exclusive();
    wait(async {
        let store = connect(&cluster.url()).await;
        let all = || cluster.nodes().iter().map(calls).sum::<u64>();
        let [first, then] = ["first", "then"].map(unique);
        // Every node is sent the script once.
        let _ = check(&store, &first, 64).await;
        let before = all();
        let allowed = check(&store, &then, 64).await;
        assert_eq!(all() - before, 4, "one for each slot");
        assert_eq!(allowed, vec![true; 64]);
    });
}

#[test]
fn a_batch_over_many_slots_is_decided_as_in_memory() {
    let clock = ManualClock::new();
    let store = asking().with_test_clock(clock.clone());
    let memory = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let limits = ["6/s burst 9", "5/s sliding_log", "7/s fixed_window", "9/s sliding_counter"];
    let name = unique("batch");
    let both: Vec<_> = limits
        .iter()
        .map(|text| {
            let limit: Limit = text.parse().unwrap();
            let redis = store.limiter(&format!("{name} {text}"), limit.clone()).unwrap();
            (redis, memory.limiter(text, limit).unwrap())
        })
        .collect();
    wait(async {
        for round in 0..10 {
            // All charges of a request have its key, and lie where that does.
            let key = |number: usize| (number * 7 + round) % 40;
            let own = |number: usize| both.iter().take(1 + number % 4);
            let requests: Vec<Vec<_>> = (0..300)
                .map(|number| own(number).map(|(redis, _)| redis.charge(key(number))).collect())
                .collect();
            for (number, answer) in (0..).zip(store.check_many(&requests).await) {
                let key = key(number);
                let charges: Vec<_> = own(number).map(|(_, memory)| memory.charge(key)).collect();
                let expected = tollgate::check_all(&charges);
                let expected: Vec<_> =
                    expected.iter().map(|(_, one)| Answer::from(one).in_ticks(MICRO)).collect();
                let answer: Vec<_> =
                    answer.unwrap().iter().map(|(_, one)| Answer::from(*one)).collect();
                assert_eq!(answer, expected, "request {number} of round {round}");
            }
            clock.advance(std::time::Duration::from_millis(130));
        }
    });
}

#[test]
fn a_batch_is_decided_while_its_slot_lies_in_two_places() {
    let cluster = exclusive();
    wait(async {
        let (store, name) = (connect(&cluster.url()).await, unique("moved"));
        // Ten of each tenant's thirty, and some keys of all users.
        assert_eq!(check(&store, &name, 40).await, vec![true; 40]);
        let slot: u16 = cluster.ask(0, "CLUSTER KEYSLOT acme").parse().unwrap();
        let from = owner(slot);
        let to = (from + 1) % 3;
        begin_to_move_slot(&cluster, slot, from, to);
        let mut keys: Vec<Vec<u8>> = redis::cmd("CLUSTER")
            .arg(&["GETKEYSINSLOT", &slot.to_string(), "100"])
            .query(&mut raw(&cluster, from))
            .unwrap();
        assert!(keys.len() > 4, "{}", keys.len());
        for key in keys.drain(..3) {
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(cluster.nodes()[to].port()).arg(key).arg(0).arg(5000);
            let () = migrate.query(&mut raw(&cluster, from)).unwrap();
        }
        let allowed = check(&store, &name, 160).await;
        for (number, tenant) in TENANTS.iter().enumerate() {
            let own = allowed.iter().skip(number).step_by(4).filter(|allowed| **allowed).count();
            // Six users of four each, less what ten requests took of them.
            assert_eq!(own, 14, "{tenant}");
        }
        move_keys(&cluster, slot, from, to);
        end_move_of_slot(&cluster, slot, to);
        assert!(move_slot(&cluster, slot, to, from) > 4);
    });
}
