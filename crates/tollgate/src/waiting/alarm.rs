//! Waiting as a future: tokio's timer, or the manual clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::time::Sleep;

use super::acquire::{Acquire, AcquireError, Step};
use crate::decision::Decision;
use crate::time::{Clock, ManualClock, Timestamp};

/// What wakes a task at a time.
#[derive(Debug, Default)]
pub(super) enum Alarm {
    #[default]
    Off,
    /// Held, since dropping it turns it off.
    Tokio {
        _sleep: Pin<Box<Sleep>>,
    },
    Manual(ManualClock, (Timestamp, u64)),
}

impl Alarm {
    /// Sets the alarm anew; true if the time has come already.
    fn set(&mut self, until: Option<Timestamp>, clock: &Clock, context: &mut Context<'_>) -> bool {
        // Dropping the old one turns it off.
        *self = Alarm::Off;
        let Some(until) = until else {
            return false;
        };
        if let Some(manual) = clock.manual() {
            *self = Alarm::Manual(manual.clone(), manual.wake_at(until, context.waker()));
            return false;
        }
        let mut sleep = Box::pin(tokio::time::sleep(until.since(clock.now())));
        let rings = sleep.as_mut().poll(context).is_ready();
        *self = Alarm::Tokio { _sleep: sleep };
        rings
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Alarm::Manual(clock, sleeper) = self {
            clock.forget(*sleeper);
        }
    }
}

impl Future for Acquire {
    type Output = Result<Decision, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquire = self.get_mut();
        loop {
            match acquire.step(&Waker::clone(context.waker())) {
                Step::Ready(answer) => return Poll::Ready(answer),
                Step::Wait(until) => {
                    let clock = acquire.clock();
                    if !acquire.alarm.set(until, &clock, context) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}
