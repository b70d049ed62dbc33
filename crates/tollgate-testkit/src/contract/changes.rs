//! Examples of a key whose limit changes, and of a clock that moves back.

use std::time::Duration;

use tollgate::{CalendarUnit, Limit, ManualClock, Timestamp};

use super::KEY;
use crate::traffic::one_limit_of_each;
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A midnight in UTC.
const MIDNIGHT: Timestamp = Timestamp::from_secs(1_699_920_000);

/// A sliding log is converted by what still counts of it, and no later moment admits more than its
/// share.
pub fn converted_log_keeps_its_share<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S) {
    let log = |count| Limit::sliding_log(count, HOUR);
    let play = |taken: [(u64, Duration); 2], to: u64, at: Duration| {
        let clock = ManualClock::at(MIDNIGHT);
        let store = make(clock.clone());
        let before = store.limiter("api", &log(1000));
        for (units, at) in taken {
            clock.set(MIDNIGHT.saturating_add(at));
            assert!(before.check_n(KEY, units).is_allowed());
        }
        clock.set(MIDNIGHT.saturating_add(at));
        (store.limiter("api", &log(to)), clock, store)
    };

    let taken = [(901, Duration::ZERO), (99, 59 * MINUTE)];
    let (small, ..) = play(taken, 10, 61 * MINUTE);
    assert_eq!(small.peek_n(KEY, 1).remaining, 9, "99 of 1000 are 1 of 10");

    let taken = [(500, Duration::ZERO), (499, 59 * MINUTE)];
    let (small, ..) = play(taken, 1, 61 * MINUTE);
    assert_eq!(small.check_n(KEY, 1).retry_after, Some(58 * MINUTE));

    let taken = [(1, Duration::ZERO), (999, 59 * MINUTE)];
    let (small, clock, _store) = play(taken, 1, 59 * MINUTE);
    assert_eq!(small.check_n(KEY, 1).retry_after, Some(60 * MINUTE));
    clock.set(MIDNIGHT.saturating_add(60 * MINUTE));
    assert_eq!(small.check_n(KEY, 1).retry_after, Some(59 * MINUTE));
    clock.set(MIDNIGHT.saturating_add(119 * MINUTE));
    assert!(small.check_n(KEY, 1).is_allowed());
}

/// A bucket that owes almost nothing uses one unit of a window, whatever its kind.
pub fn bucket_converted_to_a_window_rounds_once<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
) {
    for to in [
        Limit::fixed_window(1000, DAY),
        Limit::fixed_window(1000, DAY).starting_at_first_request(),
        Limit::calendar(1000, CalendarUnit::Day),
        Limit::sliding_log(1000, DAY),
        Limit::sliding_counter(1000, DAY),
    ] {
        let clock = ManualClock::at(MIDNIGHT);
        let store = make(clock.clone());
        assert!(store.limiter("api", &Limit::per_hour(1)).check_n(KEY, 1).is_allowed());
        clock.advance(HOUR - Duration::from_millis(100));
        let daily = store.limiter("api", &to);
        assert_eq!(daily.peek_n(KEY, 1).remaining, 999, "{to}");
        let answer = daily.check_n(KEY, 1);
        assert!(answer.is_allowed(), "{to}");
        assert_eq!(answer.remaining, 998, "{to}");
    }
}

/// A window that is a third used leaves a bucket exactly two thirds full.
pub fn window_converted_to_a_bucket_keeps_fractions<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
) {
    for from in
        [Limit::fixed_window(3, HOUR), Limit::sliding_log(3, HOUR), Limit::sliding_counter(3, HOUR)]
    {
        let store = make(ManualClock::at(MIDNIGHT));
        assert!(store.limiter("api", &from).check_n(KEY, 1).is_allowed());
        let bucket = store.limiter("api", &Limit::per_minute(10));
        let peek = bucket.peek_n(KEY, 1);
        assert_eq!((peek.remaining, peek.reset_after), (6, Duration::from_secs(20)), "{from}");
    }
}

/// A denied request of another tier leaves the key as it was; so does a peek of any limit.
pub fn denial_of_another_tier_changes_nothing<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S) {
    let kinds: [fn(u64) -> Limit; 7] = [
        |count| Limit::fixed_window(count, HOUR),
        |count| Limit::fixed_window(count, HOUR).starting_at_first_request(),
        |count| Limit::calendar(count, CalendarUnit::Hour),
        |count| Limit::sliding_log(count, HOUR),
        |count| Limit::sliding_counter(count, HOUR),
        Limit::per_hour,
        |count| Limit::leaky_queue(count, HOUR).burst(count - 1),
    ];
    for kind in kinds {
        let store = make(ManualClock::at(MIDNIGHT));
        let (base, tier) = (store.limiter("api", &kind(2)), store.limiter("api", &kind(100)));
        assert_eq!(tier.check_n(KEY, 1).remaining, 99);
        let denied = base.check_n(KEY, 2);
        assert!(!denied.is_allowed(), "{}", kind(2));
        assert_eq!(base.check_n(KEY, 2), denied, "{}", kind(2));
        for other in one_limit_of_each() {
            store.limiter("api", &other).peek_n(KEY, 1);
        }
        assert_eq!(tier.peek_n(KEY, 1).remaining, 99, "{}", kind(2));
        assert_eq!(tier.check_n(KEY, 1).remaining, 98, "{}", kind(2));
    }
}

/// Under another algorithm or horizon the first denial stores the conversion: the key recovers
/// under the new limit from then on, and the wait is exact.
pub fn denial_stores_a_conversion_to_another_algorithm<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
) {
    let used_up = |limit: &Limit| limit.capacity();
    for from in one_limit_of_each() {
        for to in one_limit_of_each().into_iter().filter(|to| *to != from) {
            let clock = ManualClock::at(MIDNIGHT);
            let store = make(clock.clone());
            let before = store.limiter("api", &from);
            assert!(before.check_n(KEY, used_up(&from)).is_allowed());
            let after = store.limiter("api", &to);
            let wait = after.check_n(KEY, 1).retry_after.expect("the cost is valid");
            assert!(!wait.is_zero(), "{from} to {to}");
            clock.advance(wait - Duration::from_micros(1));
            assert!(!after.peek_n(KEY, 1).is_allowed(), "{from} to {to}");
            clock.advance(Duration::from_micros(1));
            assert!(after.check_n(KEY, 1).is_allowed(), "{from} to {to}");
        }
    }
}

/// A clock that moves back by more than the horizon neither returns what was taken nor keeps the
/// key denied for the length of the step. A peek does not re-date the key.
pub fn clock_step_redates_a_key<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S) {
    let horizon = Duration::from_secs(31 * 86_400);
    for limit in one_limit_of_each() {
        let clock = ManualClock::at(MIDNIGHT);
        let store = make(clock.clone());
        let limiter = store.limiter("api", &limit);
        assert!(limiter.check_n(KEY, 10).is_allowed());
        let fresh_in = limiter.peek_n(KEY, 1).reset_after;
        let stepped = Timestamp::from_nanos(MIDNIGHT.as_nanos() - crate::answer::count(70 * DAY));
        clock.set(stepped);
        let peek = limiter.peek_n(KEY, 1);
        assert_eq!(peek.remaining, 0, "{limit}");
        assert!(peek.retry_after <= Some(horizon), "{limit}: {peek:?}");
        clock.set(MIDNIGHT);
        assert_eq!(limiter.peek_n(KEY, 1).reset_after, fresh_in, "{limit}: a peek changed it");
        clock.set(stepped);
        assert_eq!(limiter.check_n(KEY, 1), peek, "{limit}");
        // Stored: from now on the key recovers.
        clock.advance(peek.retry_after.expect("the cost is valid"));
        assert!(limiter.check_n(KEY, 1).is_allowed(), "{limit}");
    }
}
