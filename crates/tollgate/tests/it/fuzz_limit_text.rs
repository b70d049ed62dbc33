//! Any text: what is read as a limit is written back the same, and can be put to use at any time.

use std::time::Duration;

use tollgate::{Limit, Limiter, ManualClock, Timestamp};

/// Reads the bytes as the text of a limit.
pub(crate) fn limit_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(limit) = text.parse::<Limit>() else {
        return;
    };
    assert_eq!(limit.validate(), Ok(()), "{text:?} was read");
    let written = limit.to_string();
    assert_eq!(written.parse().as_ref(), Ok(&limit), "{text:?} was written as {written:?}");
    put_to_use(&limit);
}

fn put_to_use(limit: &Limit) {
    let last = Timestamp::MAX.as_nanos();
    let period = u64::try_from(limit.period().as_nanos()).expect("a valid period fits");
    let moments =
        [0, 1, period - 1, period, 946_684_800_000_000_000, last - period, last - 1, last, 0];
    let clock = ManualClock::new();
    let limiter = Limiter::builder(limit.clone()).clock(clock.clone()).max_keys(8).build();
    let limiter = limiter.expect("a valid limit builds");
    for (key, nanos) in (0_u64..).zip(moments) {
        clock.set(Timestamp::from_nanos(nanos));
        admits_what_it_says(&limiter, &clock, key);
        // A key that lives through all of it; what it says was checked above.
        let _ = limiter.check("old");
        let _ = limiter.check_up_to("old", u64::MAX);
        limiter.refund("old", u64::MAX / 2);
        let _ = limiter.status("old").reset_after();
    }
}

/// A new key admits the whole limit and no more, until the wait that it names is over.
fn admits_what_it_says(limiter: &Limiter, clock: &ManualClock, key: u64) {
    let (now, most) = (clock.now(), limiter.limit().capacity());
    assert!(limiter.check_n(key, most).is_allowed(), "{limiter:?} at {now:?}");
    let denied = limiter.check(key);
    assert!(!denied.is_allowed() && denied.remaining() == 0, "{limiter:?} at {now:?}");
    assert!(!limiter.check_n(key, most.saturating_add(1)).is_allowed());
    let wait = denied.retry_after().expect("one unit is possible");
    let until = now.saturating_add(wait);
    // Beyond the last moment time stands still.
    if until.saturating_since(now) == wait && until < Timestamp::MAX {
        clock.set(Timestamp::from_nanos(until.as_nanos() - 1));
        assert!(!limiter.peek(key).is_allowed(), "{limiter:?} at {now:?}, before {wait:?}");
        clock.set(until);
        assert!(limiter.peek(key).is_allowed(), "{limiter:?} at {now:?}, after {wait:?}");
        clock.set(now);
    }
    assert!(wait > Duration::ZERO);
}

#[test]
fn any_text_is_rejected_or_written_back_as_the_same_limit() {
    tollgate_testkit::fuzz("limit_text", 200_000, limit_text);
}
