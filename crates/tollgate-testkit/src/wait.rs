//! Waiting for something another thread, process or server does. The only polling loop of the tests.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The time after which waiting fails the test. No test passes or fails by this number: it is far
/// longer than anything takes, also on a machine that does other work.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// The result of one poll: `true`, `Some` and `Ok` end the wait.
pub trait Poll {
    /// The value that the wait returns.
    type Value;

    /// The value if the wait is over.
    ///
    /// # Errors
    /// The reason to poll again, shown if the deadline passes.
    fn value(self) -> Result<Self::Value, String>;
}

impl Poll for bool {
    type Value = ();

    fn value(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("it is false".to_owned()) }
    }
}

impl<T> Poll for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.ok_or_else(|| "there is none".to_owned())
    }
}

impl<T, E: Debug> Poll for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Polls until `poll` returns `true`, `Some` or `Ok`, and returns the value.
///
/// # Panics
/// With `what` and the last poll's reason after [`DEADLINE`].
#[track_caller]
pub fn eventually<P: Poll>(what: &str, mut poll: impl FnMut() -> P) -> P::Value {
    let start = Instant::now();
    loop {
        match poll().value() {
            Ok(value) => return value,
            Err(reason) => fail_after_deadline(start, what, &reason),
        }
        std::thread::sleep(PAUSE);
    }
}

/// [`eventually`] in async code: other tasks of the runtime run between two polls.
///
/// # Panics
/// With `what` and the last poll's reason after [`DEADLINE`].
pub async fn eventually_async<P: Poll>(what: &str, mut poll: impl AsyncFnMut() -> P) -> P::Value {
    let start = Instant::now();
    loop {
        match poll().await.value() {
            Ok(value) => return value,
            Err(reason) => fail_after_deadline(start, what, &reason),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[track_caller]
fn fail_after_deadline(start: Instant, what: &str, reason: &str) {
    assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}: {reason}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventually_returns_the_first_value_there_is() {
        let mut polls = 0;
        let value = eventually("the third poll", || {
            polls += 1;
            (polls == 3).then_some(polls)
        });
        assert_eq!(value, 3);
        eventually("a result", || if polls == 3 { Ok(()) } else { Err(polls) });
    }

    #[test]
    #[should_panic(expected = "for a server: \"refused\"")]
    fn a_wait_that_fails_names_what_it_waited_for_and_why() {
        let long_ago = Instant::now().checked_sub(DEADLINE).expect("the machine runs long enough");
        let Err(reason) = Err::<(), _>("refused").value() else { return };
        fail_after_deadline(long_ago, "a server", &reason);
    }
}
