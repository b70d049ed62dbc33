//! The memory store under the contract of every store: the eleven properties of the specification.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Limit, ManualClock, MemoryStore};
use tollgate_testkit::{
    NANO, StoreUnderTest, cases, manual, store_contract, store_contract_of_changes, with_rewinds,
};

fn store(clock: ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock).max_keys(10_000).build().expect("the bound is possible")
}

store_contract!(store, NANO, cases: 128);
store_contract_of_changes!(store, NANO, cases: 128);

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_status_says_what_a_peek_of_one_unit_says(trace in with_rewinds(NANO)) {
        let clock = trace.clock();
        let store = store(clock.clone());
        let limiter = StoreUnderTest::limiter(&store, "limit", &trace.limit);
        for step in &trace.steps {
            step.time.apply(&clock);
            step.act.apply(&store, &limiter, "ana");
            let (status, peek) = (limiter.status("ana"), limiter.peek("ana"));
            prop_assert_eq!(status.remaining(), peek.remaining());
            prop_assert_eq!(status.limit() - status.used(), peek.remaining());
            prop_assert_eq!(Some(status.retry_after()), peek.retry_after());
            prop_assert_eq!(status.reset_after(), peek.reset_after());
            prop_assert_eq!(status.is_fresh(), peek.reset_after().is_zero());
        }
    }
}

#[test]
fn looking_at_a_log_does_not_put_its_reset_off() {
    let (limiter, clock) = manual(Limit::sliding_log(10, Duration::from_secs(60)));
    assert!(limiter.check("ana").is_allowed());
    clock.advance(Duration::from_secs(59));
    assert_eq!(limiter.status("ana").reset_after(), Duration::from_secs(1));
    assert_eq!(limiter.peek("ana").reset_after(), Duration::from_secs(1));
}
