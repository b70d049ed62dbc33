//! A wait as a future: it sleeps by tokio's timer, or on the manual clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::Sleep;

use super::acquire::{Acquire, AcquireError, WaitStep};
use crate::decision::Decision;
use crate::time::{Clock, ManualClock, Timestamp};

/// A timer that wakes a task.
#[derive(Debug, Default)]
pub(super) enum WaitTimer {
    #[default]
    Off,
    /// Kept, because dropping it turns it off.
    Tokio {
        _sleep: Pin<Box<Sleep>>,
    },
    Manual(ManualClock, (Timestamp, u64)),
}

impl WaitTimer {
    /// Sets the timer anew. Returns whether the time has come already.
    fn set(
        &mut self,
        (now, until): (Timestamp, Option<Timestamp>),
        clock: &Clock,
        context: &mut Context<'_>,
    ) -> bool {
        // Dropping the previous timer turns it off.
        *self = WaitTimer::Off;
        let Some(until) = until else {
            return false;
        };
        if let Some(manual) = clock.manual() {
            *self = WaitTimer::Manual(manual.clone(), manual.wake_at(until, context.waker()));
            return false;
        }
        let mut sleep = Box::pin(tokio::time::sleep(until.saturating_since(now)));
        let is_over = sleep.as_mut().poll(context).is_ready();
        *self = WaitTimer::Tokio { _sleep: sleep };
        is_over
    }
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        if let WaitTimer::Manual(clock, sleeper) = self {
            clock.forget(*sleeper);
        }
    }
}

impl Future for Acquire {
    type Output = Result<Decision, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquire = self.get_mut();
        loop {
            let now = acquire.now();
            match acquire.step(now, context.waker()) {
                WaitStep::Ready(answer) => return Poll::Ready(answer),
                WaitStep::Sleep(until) => {
                    let clock = acquire.clock().clone();
                    if !acquire.alarm.set((now, until), &clock, context) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
