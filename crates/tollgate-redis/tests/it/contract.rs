//! The Redis store under the contract of every store, on a real server with injected time.

use crate::common::{MICRO, connect, injected, injected_without_cache, server, unique, wait};
use proptest::prelude::*;
use tollgate::{Algorithm, Limit, ManualClock, MemoryStore, Timestamp};
use tollgate_testkit::{
    cases, changing, changing_counts, changing_with_clock_steps, one_limit_of_each, store_contract,
    store_contract_of_changes,
};

store_contract!(injected, MICRO, cases: 24);
store_contract_of_changes!(injected_without_cache, MICRO, cases: 24);

proptest! {
    #![proptest_config(cases(96))]

    /// The deny cache answers as the server would, also after a denial that stored a conversion. Of
    /// a denied log it knows too little for every figure.
    #[test]
    fn denials_without_a_call_are_those_of_memory_under_changed_limits(
        trace in prop_oneof![changing(MICRO), changing_counts(MICRO), changing_with_clock_steps(MICRO)]
    ) {
        let is_log = |limit: &Limit| limit.algorithm() == Algorithm::SlidingLog;
        prop_assume!(!trace.limits.iter().any(is_log));
        let clock = trace.clock();
        let memory = MemoryStore::builder().clock(clock.clone()).max_keys(64).build().unwrap();
        let expected = trace.play(&memory, &clock);
        let clock = trace.clock();
        let answers = trace.play(&injected(clock.clone()), &clock);
        for (number, (answer, wanted)) in answers.into_iter().zip(expected).enumerate() {
            let wanted = wanted.map(|answer| answer.in_ticks(MICRO));
            prop_assert_eq!(answer, wanted, "step {} of {:#?}", number, trace);
        }
    }
}

#[test]
fn redated_states_are_counted_once() {
    let clock = ManualClock::new();
    let store = wait(connect(&server().url())).with_test_clock(clock.clone());
    let memory = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let limiters: Vec<_> = one_limit_of_each()
        .into_iter()
        .map(|limit| {
            let redis = store.limiter(&unique("steps"), limit.clone()).unwrap();
            (redis, memory.limiter(&limit.to_string(), limit).unwrap())
        })
        .collect();
    for (redis, memory) in &limiters {
        assert!(wait(redis.check("ana")).unwrap().is_allowed());
        assert!(memory.check("ana").is_allowed());
    }
    assert_eq!((store.redated(), memory.redated()), (0, 0));
    clock.set(Timestamp::from_nanos(clock.now().as_nanos() / 2));
    for ((redis, limiter), number) in limiters.iter().zip(1..) {
        wait(redis.peek("ana")).unwrap();
        let _ = limiter.peek("ana");
        assert_eq!((store.redated(), memory.redated()), (number - 1, number - 1));
        for _ in 0..2 {
            wait(redis.check("ana")).unwrap();
            let _ = limiter.check("ana");
            assert_eq!((store.redated(), memory.redated()), (number, number), "{limiter:?}");
        }
    }
}
