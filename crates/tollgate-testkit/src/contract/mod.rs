//! The contract of a store: the eleven properties of the specification.
//!
//! Each is a function over a store and a trace that panics where the property does not hold;
//! [`store_contract!`](crate::store_contract) makes them the tests of a store.

mod changes;
mod never_too_much;
mod threads;
mod time;
mod traces;

pub use changes::{
    bucket_converted_to_a_window_rounds_once, clock_step_redates_a_key,
    converted_log_keeps_its_share, denial_of_another_tier_changes_nothing,
    denial_stores_a_conversion_to_another_algorithm, window_converted_to_a_bucket_keeps_fractions,
};
pub use never_too_much::never_too_much;
pub use threads::{all_or_nothing, linearizable};
pub use time::{clock_steps_return_nothing, exact_retry, monotone_time, truthful_remaining};
pub use traces::{
    denials_are_free, denials_are_free_under_tiers, invisible_reclaim, isolation,
    peek_agrees_with_check, same_answer_everywhere, same_answer_under_changes,
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

/// More tests of a store, of keys whose limit changes and of clocks that move back.
#[macro_export]
macro_rules! store_contract_of_changes {
    ($make:expr, $tick:expr, cases: $cases:expr) => {
        $crate::proptest::proptest! {
            #![proptest_config($crate::cases($cases))]

            #[test]
            fn every_figure_under_changed_limits_is_the_model_s(
                trace in $crate::changing($tick)
            ) {
                $crate::contract::same_answer_under_changes($make, &trace, $tick);
            }

            #[test]
            fn every_figure_under_changed_counts_is_the_model_s(
                trace in $crate::changing_counts($tick)
            ) {
                $crate::contract::same_answer_under_changes($make, &trace, $tick);
            }

            #[test]
            fn every_figure_under_changed_limits_is_the_model_s_while_the_clock_steps(
                trace in $crate::changing_with_clock_steps($tick)
            ) {
                $crate::contract::same_answer_under_changes($make, &trace, $tick);
            }

            #[test]
            fn denied_request_of_another_tier_changes_no_decision(
                trace in $crate::changing_counts($tick)
            ) {
                $crate::contract::denials_are_free_under_tiers($make, &trace);
            }

            #[test]
            fn every_figure_is_the_model_s_while_the_clock_steps(
                trace in $crate::with_clock_steps($tick)
            ) {
                $crate::contract::same_answer_everywhere($make, &trace, $tick);
            }

            #[test]
            fn clock_that_moves_back_returns_nothing(trace in $crate::monotone($tick)) {
                $crate::contract::clock_steps_return_nothing($make, &trace, $tick);
            }
        }

        #[test]
        fn converted_log_keeps_its_share() {
            $crate::contract::converted_log_keeps_its_share($make);
        }

        #[test]
        fn bucket_converted_to_a_window_rounds_once() {
            $crate::contract::bucket_converted_to_a_window_rounds_once($make);
        }

        #[test]
        fn window_converted_to_a_bucket_keeps_fractions() {
            $crate::contract::window_converted_to_a_bucket_keeps_fractions($make);
        }

        #[test]
        fn denial_of_another_tier_changes_nothing() {
            $crate::contract::denial_of_another_tier_changes_nothing($make);
        }

        #[test]
        fn denial_stores_a_conversion_to_another_algorithm() {
            $crate::contract::denial_stores_a_conversion_to_another_algorithm($make);
        }

        #[test]
        fn clock_step_redates_a_key() {
            $crate::contract::clock_step_redates_a_key($make);
        }
    };
}
