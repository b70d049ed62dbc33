//! Several charges on one request: added up where they are of one key, and decided in any order.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Charge, CostError, Key, KeyName, KeyPart, Limit, Limiter, ManualClock, MemoryStore, Outcome,
    check_all,
};
use tollgate_testkit::{cases, one_limit_of_each};

const SECOND: Duration = Duration::from_secs(1);

fn store() -> MemoryStore {
    MemoryStore::builder()
        .clock(ManualClock::new())
        .max_keys(1000)
        .build()
        .expect("the test's numbers are valid")
}

fn limiter(limit: Limit) -> Limiter {
    store().limiter("limit", limit).expect("the test's numbers are valid")
}

/// Keys of several charges that are one variable are hashed once: what only begins there is another.
#[test]
fn a_key_and_its_first_part_at_one_address_are_two_keys() {
    #[repr(C)]
    struct Tenant {
        name: &'static str,
        number: u64,
    }
    impl Key for Tenant {
        fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
            (self.name, self.number).parts(part);
        }
    }
    let (store, tenant) = (store(), Tenant { name: "acme", number: 7 });
    let [whole, again, part] = ["whole", "again", "part"]
        .map(|name| store.limiter(name, Limit::per_hour(9)).expect("the test's numbers are valid"));
    assert!(std::ptr::addr_eq(&raw const tenant, &raw const tenant.name));
    // Known, so that it would be found.
    assert!(part.check(("acme", 7_u64)).is_allowed());
    for _ in 0..2 {
        assert!(check_all(&[whole.charge(&tenant), part.charge(tenant.name)]).is_allowed());
    }
    for _ in 0..2 {
        let charges = [whole.charge(&tenant), again.charge(&tenant), part.charge(tenant.name)];
        assert!(check_all(&charges).is_allowed());
    }
    let used = |limiter: &Limiter| limiter.status(("acme", 7_u64)).used();
    assert_eq!([&whole, &again, &part].map(used), [4, 2, 1]);
    assert_eq!(part.status("acme").used(), 4);
}

#[test]
fn charges_of_one_limiter_and_key_are_added_up() {
    for limit in one_limit_of_each() {
        let limiter = limiter(limit);
        let other = limiter.store().limiter("other", Limit::per_hour(100)).unwrap();
        let of = |cost| limiter.charge("ana").cost(cost);
        assert!(!check_all(&[of(4), other.charge("ana"), of(7)]).is_allowed());
        assert!(limiter.status("ana").is_fresh() && other.status("ana").is_fresh());

        let decisions = check_all(&[of(4), other.charge("ana"), of(5)]);
        assert!(decisions.is_allowed());
        assert_eq!(decisions.iter().len(), 2);
        assert_eq!((limiter.status("ana").used(), other.status("ana").used()), (9, 1));

        assert!(!check_all(&[of(1), of(1)]).is_allowed(), "{:?}", limiter.limit());
        assert!(check_all(&[of(1)]).is_allowed());
    }
}

#[test]
fn decisions_outlive_the_keys_of_their_charges() {
    let (user, everybody) = (limiter(Limit::per_hour(2)), limiter(Limit::per_hour(3)));
    for number in 0..4 {
        let name = format!("ana-{}", number % 2);
        let decisions = check_all(&[
            user.charge(format!("{name}!")),
            user.charge(name),
            user.charge(("acme", number)).cost(2),
            everybody.charge(()),
        ]);
        assert_eq!(decisions.is_allowed(), number < 3);
        assert_eq!(decisions.iter().count(), 4);
    }
    assert_eq!(user.status("ana-0!").used(), 2);
    assert_eq!(user.status("ana-1").used(), 1);
    assert_eq!(user.status(("acme", 2)).used(), 2);
    assert_eq!(everybody.status(()).used(), 3);
}

#[test]
fn keys_of_charges_are_listed_by_their_names() {
    let limiter = limiter(Limit::per_hour(9));
    let long = "x".repeat(1000);
    let charges = [
        limiter.charge("ana"),
        limiter.charge(7),
        limiter.charge(('a', true)),
        limiter.charge(&long),
    ];
    assert!(check_all(&charges).is_allowed());
    for key in [KeyName::new("ana"), KeyName::new(&7), KeyName::new(&('a', true))] {
        assert_eq!(limiter.status(&key).used(), 1, "{key}");
    }
    assert_eq!(limiter.status(long).used(), 1);
    assert_eq!(limiter.keys().count(), 4);
    assert!(limiter.keys().all(|(name, _)| !name.to_string().is_empty()));
}

#[test]
fn equal_charges_each_count() {
    for limit in one_limit_of_each() {
        let limiter = limiter(limit);
        assert!(check_all(&[(); 3].map(|()| limiter.charge("ana"))).is_allowed());
        assert_eq!(limiter.status("ana").used(), 3, "{:?}", limiter.limit());
    }
}

#[test]
fn costs_that_add_up_past_the_largest_number_can_never_be() {
    for limit in [Limit::per_second(u64::MAX), Limit::fixed_window(u64::MAX, SECOND)] {
        let (limiter, other) = (limiter(limit), limiter(Limit::per_hour(10)));
        let large = || limiter.charge("ana").cost(u64::MAX);
        let small = || limiter.charge("ana").cost(1);
        assert!(check_all(&[large()]).is_allowed(), "by itself it fits");
        limiter.reset("ana");
        for charges in
            [[large(), other.charge("ana"), small()], [small(), large(), other.charge("ana")]]
        {
            let decisions = check_all(&charges);
            assert!(!decisions.is_allowed());
            let (name, decision) = decisions.deciding().unwrap();
            assert_eq!((name, decision.retry_after()), ("limit", None));
            let never = CostError::ExceedsCapacity { cost: u64::MAX, limit: u64::MAX };
            assert_eq!(decision.outcome(), Outcome::Invalid(never));
        }
        assert!(limiter.status("ana").is_fresh() && other.status("ana").is_fresh());
    }
}

#[test]
fn of_one_limiter_under_several_numbers_the_smallest_decide() {
    let store = store();
    let of = |limit| store.limiter("api", limit).unwrap();
    let (small, large) = (of(Limit::per_hour(2)), of(Limit::per_hour(100)));
    for charges in [
        [small.charge("ana").cost(2), large.charge("ana").cost(2)],
        [large.charge("ana").cost(2), small.charge("ana").cost(2)],
    ] {
        assert!(!check_all(&charges).is_allowed());
    }
    assert!(check_all(&[large.charge("ana"), small.charge("ana")]).is_allowed());
    assert_eq!(small.status("ana").used(), 2);
}

#[test]
fn of_one_limiter_under_numbers_as_large_the_slowest_decide() {
    let store = store();
    let of = |limit| store.limiter("api", limit).unwrap();
    let (slow, fast) = (of(Limit::per_hour(5)), of(Limit::per_second(5)));
    for charges in
        [[slow.charge("ana"), fast.charge("ana")], [fast.charge("ana"), slow.charge("ana")]]
    {
        let decisions = check_all(&charges);
        assert!(decisions.is_allowed());
        assert_eq!(decisions.deciding().unwrap().1.reset_after(), 2 * 720 * SECOND);
        slow.reset("ana");
    }
}

#[test]
fn whichever_of_three_known_keys_denies_all_stay_as_they_were() {
    let (ana, ben, cleo) = ("ana", "ben", "cleo");
    for keys in [[&ana, &ana, &ana], [&ana, &ben, &cleo]] {
        for denying in 0..3 {
            let store = store();
            let limiters =
                ["a", "b", "c"].map(|name| store.limiter(name, Limit::per_hour(10)).unwrap());
            let used = [0, 1, 2].map(|number| if number == denying { 10 } else { 3 + number });
            for number in 0..3 {
                let used = used[number].try_into().unwrap();
                assert!(limiters[number].check_n(*keys[number], used).is_allowed());
            }
            let charges = [0, 1, 2].map(|number| limiters[number].charge(keys[number]));
            let decisions = check_all(&charges);
            assert!(!decisions.is_allowed());
            for (number, (_, decision)) in decisions.iter().enumerate() {
                let used = u64::try_from(used[number]).unwrap();
                assert_eq!(decision.is_allowed(), number != denying);
                assert_eq!(decision.remaining(), 10 - used);
                assert_eq!(limiters[number].status(*keys[number]).used(), used);
            }
        }
    }
}

#[test]
fn where_all_is_allowed_the_smallest_share_remaining_decides() {
    let store = store();
    let of = |name, count| store.limiter(name, Limit::per_hour(count)).unwrap();
    let (plenty, least, scarce) = (of("plenty", 1000), of("least", 10), of("scarce", 100));
    assert!(plenty.check_n("ana", 99).is_allowed());
    assert!(least.check_n("ana", 5).is_allowed());
    assert!(scarce.check_n("ana", 69).is_allowed());
    // 90, 40 and 30 percent are left: of units the fewest are left elsewhere, and the most.
    let charges = [plenty.charge("ana"), least.charge("ana"), scarce.charge("ana")];
    for turn in 0..3 {
        let mut charges = charges.clone();
        charges.rotate_left(turn);
        let decisions = check_all(&charges);
        let (name, decision) = decisions.deciding().unwrap();
        assert_eq!((name, decision.remaining()), ("scarce", 30));
        [&plenty, &least, &scarce].iter().for_each(|limiter| limiter.refund("ana", 1));
    }
}

#[test]
fn where_some_deny_the_longest_wait_decides() {
    let store = store();
    let of = |name, limit| store.limiter(name, limit).unwrap();
    let (slow, fast) = (of("slow", Limit::per_hour(2)), of("fast", Limit::per_second(2)));
    let open = of("open", Limit::per_day(1));
    assert!(slow.check_n("ana", 2).is_allowed() && fast.check_n("ana", 2).is_allowed());
    let charges = [open.charge("ana"), fast.charge("ana"), slow.charge("ana")];
    for turn in 0..3 {
        let mut charges = charges.clone();
        charges.rotate_left(turn);
        assert_eq!(check_all(&charges).deciding().unwrap().0, "slow");
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn the_order_of_charges_changes_no_decision(
        before in prop::collection::vec((0..6_usize, 0..2_usize, 1..6_u64), 0..5),
        (given, shuffled) in prop::collection::vec((0..6_usize, 0..2_usize, 0..6_u64), 1..7)
            .prop_flat_map(|charges| (Just(charges.clone()), Just(charges).prop_shuffle())),
    ) {
        let numbers = [("a", "3/h"), ("a", "9/h"), ("a", "9/s"), ("a", "9/h fixed_window"),
            ("b", "5/h sliding_log"), ("b", "5/h")];
        let stores = [store(), store()];
        let limiters = stores.each_ref().map(|store| numbers.map(|(name, limit)| {
            store.limiter(name, limit.parse().unwrap()).unwrap()
        }));
        let keys = ["ana", "ben"];
        let outcomes = [(0, &given), (1, &shuffled)].map(|(at, charges)| {
            let limiters = &limiters[at];
            for (limiter, key, cost) in &before {
                let _ = limiters[*limiter].check_n(keys[*key], *cost);
            }
            let charges: Vec<Charge<'_, '_>> = charges
                .iter()
                .map(|(limiter, key, cost)| limiters[*limiter].charge(keys[*key]).cost(*cost))
                .collect();
            let allowed = check_all(&charges).is_allowed();
            let left = limiters.each_ref().map(|limiter| keys.map(|key| limiter.status(key).remaining()));
            (allowed, left)
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}
