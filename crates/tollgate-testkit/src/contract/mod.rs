//! The contract of a store: the eleven properties of the specification.
//!
//! Each is a function over a store and a trace that panics where the property does not hold;
//! [`store_contract!`](crate::store_contract) makes them the tests of a store.

mod never_too_much;
mod threads;
mod time;
mod traces;

pub use never_too_much::never_too_much;
pub use threads::{all_or_nothing, linearizable};
pub use time::{exact_retry, monotone_time, truthful_remaining};
pub use traces::{
    denials_are_free, invisible_reclaim, isolation, peek_agrees_with_check, same_answer_everywhere,
};

/// The key that traces are about.
pub(crate) const KEY: &str = "the key";

/// Tests of a store: `make` makes one from a manual clock, `tick` is the shortest time it knows.
///
/// ```ignore
/// store_contract!(|clock: ManualClock| MyStore::new(clock), Duration::from_micros(1), cases: 64);
/// ```
#[macro_export]
macro_rules! store_contract {
    ($make:expr, $tick:expr, cases: $cases:expr) => {
        $crate::proptest::proptest! {
            #![proptest_config($crate::cases($cases))]

            #[test]
            fn no_interval_admits_too_much(trace in $crate::monotone($tick)) {
                $crate::contract::never_too_much($make, &trace, $tick);
            }

            #[test]
            fn a_retry_is_exact_to_the_tick(trace in $crate::with_rewinds($tick)) {
                $crate::contract::exact_retry($make, &trace, $tick);
            }

            #[test]
            fn what_remains_can_be_taken_and_no_more(trace in $crate::with_refunds($tick)) {
                $crate::contract::truthful_remaining($make, &trace);
            }

            #[test]
            fn a_trace_without_its_denials_is_decided_the_same(
                trace in $crate::with_rewinds($tick)
            ) {
                $crate::contract::denials_are_free($make, &trace);
            }

            #[test]
            fn other_keys_change_nothing(
                trace in $crate::monotone($tick), others in $crate::monotone($tick)
            ) {
                $crate::contract::isolation($make, &trace, &others);
            }

            #[test]
            fn a_clock_set_back_decides_as_at_the_latest_taking(
                trace in $crate::with_rewinds($tick)
            ) {
                $crate::contract::monotone_time($make, &trace);
            }

            #[test]
            fn reclaiming_changes_no_decision(trace in $crate::with_reclaims($tick)) {
                $crate::contract::invisible_reclaim($make, &trace);
            }

            #[test]
            fn every_figure_is_the_model_s_in_whole_microseconds(
                trace in $crate::with_refunds(std::time::Duration::from_micros(1))
            ) {
                $crate::contract::same_answer_everywhere($make, &trace, $tick);
            }

            #[test]
            fn every_figure_is_the_model_s_while_the_clock_is_set_back(
                trace in $crate::with_rewinds($tick)
            ) {
                $crate::contract::same_answer_everywhere($make, &trace, $tick);
            }

            #[test]
            fn every_figure_is_the_model_s_while_units_come_back(
                trace in $crate::with_refunds($tick)
            ) {
                $crate::contract::same_answer_everywhere($make, &trace, $tick);
            }

            #[test]
            fn a_peek_agrees_with_the_check_that_follows_and_changes_nothing(
                trace in $crate::with_refunds($tick)
            ) {
                $crate::contract::peek_agrees_with_check($make, &trace);
            }
        }

        #[test]
        fn threads_on_one_key_get_what_one_thread_would() {
            for limit in $crate::one_limit_of_each() {
                $crate::contract::linearizable($make, &limit);
            }
        }

        #[test]
        fn threads_take_all_charges_or_none() {
            for limit in $crate::one_limit_of_each() {
                $crate::contract::all_or_nothing($make, &limit);
            }
        }
    };
}
