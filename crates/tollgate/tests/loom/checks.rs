//! One key and several: what is taken is taken once, and together or not at all.

use loom::thread;
use tollgate::{Limit, Limiter, check_all};

use super::*;

fn one_of_two_is_admitted(limit: fn() -> Limit) {
    explore(move || {
        let limiter = limiter(limit());
        let other = limiter.clone();
        let (a, b) = both(move || other.check("ana"), || limiter.check("ana"));
        assert_eq!(allowed(&[a, b]), 1);
        assert_eq!(limiter.status("ana").remaining(), 0);
    });
}

#[test]
fn two_threads_get_one_token_once() {
    one_of_two_is_admitted(|| Limit::per_hour(1));
}

#[test]
fn two_threads_fill_a_meter_once() {
    one_of_two_is_admitted(|| Limit::leaky_bucket(1, HOUR));
}

#[test]
fn two_threads_get_one_turn_once() {
    one_of_two_is_admitted(|| Limit::leaky_queue(1, HOUR).burst(0));
}

#[test]
fn two_threads_get_one_unit_of_a_fixed_window_once() {
    one_of_two_is_admitted(|| hourly(1));
}

#[test]
fn two_threads_get_one_unit_of_a_sliding_log_once() {
    one_of_two_is_admitted(|| Limit::sliding_log(1, HOUR));
}

#[test]
fn two_threads_get_one_unit_of_a_sliding_counter_once() {
    one_of_two_is_admitted(|| Limit::sliding_counter(1, HOUR));
}

#[test]
fn three_threads_share_a_known_key_without_losing_a_unit() {
    explore(|| {
        let limiter = limiter(hourly(3));
        let first = limiter.check("ana");
        let threads = [1, 2].map(|_| {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.check("ana"))
        });
        let here = limiter.check("ana");
        let [a, b] = threads.map(|thread| thread.join().unwrap());
        assert_eq!(allowed(&[first, a, b, here]), 3);
    });
}

#[test]
fn two_threads_that_take_all_there_is_get_it_once() {
    explore(|| {
        let limiter = limiter(hourly(5));
        let other = limiter.clone();
        let take = |limiter: &Limiter| limiter.check_up_to("ana", 4).units;
        let (a, b) = both(move || take(&other), || take(&limiter));
        assert_eq!(a + b, 5);
    });
}

#[test]
fn a_refund_beside_a_check_is_neither_lost_nor_doubled() {
    explore(|| {
        let limiter = limiter(hourly(2));
        assert!(limiter.check_n("ana", 2).is_allowed());
        let other = limiter.clone();
        let (_, check) = both(move || other.refund("ana", 1), || limiter.check("ana"));
        assert_eq!(limiter.status("ana").used(), 1 + allowed(&[check]));
    });
}

#[test]
fn a_reset_beside_a_check_leaves_a_key_as_one_order_of_them_would() {
    explore(|| {
        let store = store(1);
        let limiter = store.limiter("limit", hourly(2)).unwrap();
        assert!(limiter.check_n("ana", 2).is_allowed());
        let other = limiter.clone();
        let (known, check) = both(move || other.reset("ana"), || limiter.check("ana"));
        assert!(known);
        assert_eq!(limiter.status("ana").used(), allowed(&[check]));
        // The key's place is free again unless the check has taken it.
        assert_eq!(store.len(), limiter.len());
    });
}

/// Keys of two limiters: one key is in one shard whoever counts it, and of several pairs some are in
/// two, whatever the hash is.
const ONE_KEY: [&str; 2] = ["ana", "ana"];
const PAIRS: [[&str; 2]; 5] =
    [["ana", "a"], ["ben", "b"], ["cem", "c"], ["dea", "d"], ["eva", "e"]];

/// Over `user` (two units) and `ip` (one), each thread naming them in another order.
fn opposite_orders_take_all_or_nothing(max_keys: usize, [who, from]: [&'static str; 2]) {
    explore(move || {
        let store = store(max_keys);
        let user = store.limiter("user", hourly(2)).unwrap();
        let ip = store.limiter("ip", hourly(1)).unwrap();
        let (other_user, other_ip) = (user.clone(), ip.clone());
        let (a, b) = both(
            move || check_all(&[other_user.charge(&who), other_ip.charge(&from)]).is_allowed(),
            || check_all(&[ip.charge(&from), user.charge(&who)]).is_allowed(),
        );
        assert!(a != b, "one of two fits");
        assert_eq!((user.status(who).used(), ip.status(from).used()), (1, 1));
        assert_eq!(store.len(), 2);
    });
}

#[test]
fn two_limits_in_opposite_orders_are_taken_all_or_nothing() {
    opposite_orders_take_all_or_nothing(ONE_SHARD, ONE_KEY);
}

#[test]
fn two_limits_in_two_shards_never_wait_for_each_other_in_a_circle() {
    for keys in PAIRS {
        opposite_orders_take_all_or_nothing(TWO_SHARDS, keys);
    }
}

/// Known buckets of one variable, which are side by side, are decided on a path of their own.
#[test]
fn two_known_buckets_side_by_side_are_taken_all_or_nothing() {
    explore(|| {
        let store = store(ONE_SHARD);
        let [minute, hour] = [("minute", 2), ("hour", 3)]
            .map(|(name, count)| store.limiter(name, Limit::per_hour(count)).unwrap());
        let take = |minute: &Limiter, hour: &Limiter| {
            let key = "ana";
            check_all(&[minute.charge(&key), hour.charge(&key)]).is_allowed()
        };
        assert!(take(&minute, &hour));
        let (other_minute, other_hour) = (minute.clone(), hour.clone());
        let (a, b) = both(move || take(&other_minute, &other_hour), || take(&minute, &hour));
        assert!(a != b, "one of two fits");
        assert_eq!((minute.status("ana").used(), hour.status("ana").used()), (2, 2));
    });
}

/// Known buckets are decided on a path of their own.
#[test]
fn two_known_buckets_in_opposite_orders_are_taken_all_or_nothing() {
    let in_two = PAIRS.map(|keys| (TWO_SHARDS, keys));
    for (max_keys, [who, from]) in in_two.into_iter().chain([(ONE_SHARD, ONE_KEY)]) {
        explore(move || {
            let store = store(max_keys);
            let user = store.limiter("user", Limit::per_hour(3)).unwrap();
            let ip = store.limiter("ip", Limit::per_hour(2)).unwrap();
            assert!(check_all(&[user.charge(&who), ip.charge(&from)]).is_allowed());
            let (other_user, other_ip) = (user.clone(), ip.clone());
            let (a, b) = both(
                move || check_all(&[other_user.charge(&who), other_ip.charge(&from)]).is_allowed(),
                || check_all(&[ip.charge(&from), user.charge(&who)]).is_allowed(),
            );
            assert!(a != b, "one of two fits");
            assert_eq!((user.status(who).used(), ip.status(from).used()), (2, 2));
        });
    }
}

#[test]
fn a_denied_limit_is_never_seen_charging_the_others() {
    explore(|| {
        let store = store(ONE_SHARD);
        let user = store.limiter("user", hourly(1)).unwrap();
        let ip = store.limiter("ip", hourly(1)).unwrap();
        assert!(ip.check("ana").is_allowed());
        let (other_user, other_ip) = (user.clone(), ip.clone());
        let (joint, single) = both(
            move || check_all(&[other_user.charge("ana"), other_ip.charge("ana")]).is_allowed(),
            || user.check("ana").is_allowed(),
        );
        assert!(!joint && single);
    });
}

/// The fast path decides all charges before it takes one.
#[test]
fn a_known_bucket_that_denies_is_never_seen_charging_the_others() {
    let in_two = PAIRS.map(|keys| (TWO_SHARDS, keys));
    for (max_keys, [who, from]) in in_two.into_iter().chain([(ONE_SHARD, ONE_KEY)]) {
        explore(move || {
            let store = store(max_keys);
            let user = store.limiter("user", Limit::per_hour(2)).unwrap();
            let ip = store.limiter("ip", Limit::per_hour(1)).unwrap();
            assert!(check_all(&[user.charge(&who), ip.charge(&from)]).is_allowed());
            let (other_user, other_ip) = (user.clone(), ip.clone());
            let (joint, single) = both(
                move || check_all(&[other_user.charge(&who), other_ip.charge(&from)]).is_allowed(),
                || user.check(who).is_allowed(),
            );
            assert!(!joint && single);
        });
    }
}

/// One thread checks a key that it has just been denied, while another gives a unit back.
fn denied_key_is_allowed_once_after(change: fn(&Limiter)) {
    explore(move || {
        let limiter = limiter(Limit::per_hour(1));
        let before = [(); 3].map(|()| limiter.check("ana"));
        assert_eq!(allowed(&before), 1);
        let other = limiter.clone();
        let thread = thread::spawn(move || change(&other));
        let meanwhile = limiter.check("ana");
        thread.join().unwrap();
        let afterwards = limiter.check("ana");
        assert_eq!(allowed(&[meanwhile, afterwards]), 1, "one unit came back");
    });
}

#[test]
fn denied_key_is_allowed_once_after_a_refund() {
    denied_key_is_allowed_once_after(|limiter| limiter.refund("ana", 1));
}

#[test]
fn denied_key_is_allowed_once_after_a_reset() {
    denied_key_is_allowed_once_after(|limiter| drop(limiter.reset("ana")));
}
