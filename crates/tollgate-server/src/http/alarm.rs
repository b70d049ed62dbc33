//! How long a connection of HTTP is waited for. Every head and every body has a time of its own, and
//! the runtime keeps all timers in one place behind a lock: setting one may wake a thread only to
//! tell it how long to sleep. So a connection has one alarm, which is moved only when it has gone
//! off too early, or must go off earlier.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt;
use parking_lot::Mutex;
use tokio::time::{self, Sleep, sleep_until};

/// The alarm of one connection. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarm(Arc<Mutex<Option<Pin<Box<Sleep>>>>>);

/// That the alarm goes off, and not before its own time.
#[derive(Debug)]
pub(super) struct Wait {
    until: time::Instant,
    alarm: Arc<Mutex<Option<Pin<Box<Sleep>>>>>,
}

impl Alarm {
    /// What one waits for, for so long from now.
    pub(super) fn wait(&self, duration: Duration) -> Wait {
        self.wait_until(time::Instant::now() + duration)
    }

    fn wait_until(&self, until: time::Instant) -> Wait {
        Wait { until, alarm: Arc::clone(&self.0) }
    }
}

impl rt::Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.wait(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.wait_until(deadline.into()))
    }

    fn now(&self) -> Instant {
        time::Instant::now().into()
    }
}

impl rt::Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.alarm.lock();
        let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(self.until)));
        if alarm.deadline() > self.until {
            alarm.as_mut().reset(self.until);
        }
        loop {
            ready!(alarm.as_mut().poll(context));
            if alarm.deadline() >= self.until {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(self.until);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::rt::Timer;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn set(alarm: &Alarm, seconds: u32) -> Pin<Box<dyn rt::Sleep>> {
        alarm.sleep(SECOND * seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_time_whatever_others_before_it_waited_for() {
        let alarm = Alarm::default();
        for seconds in [5, 9, 2, 7, 1] {
            // One that is waited for and given up, as when a head has come.
            let given_up = time::timeout(SECOND / 2, set(&alarm, 3)).await;
            assert!(given_up.is_err());
            let before = time::Instant::now();
            set(&alarm, seconds).await;
            assert_eq!(before.elapsed(), SECOND * seconds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_longer_leaves_the_alarm_as_it_is() {
        let alarm = Alarm::default();
        let first = time::Instant::now() + 3 * SECOND;
        assert!(time::timeout(SECOND, set(&alarm, 3)).await.is_err());
        assert!(time::timeout(SECOND, set(&alarm, 60)).await.is_err());
        let armed = alarm.0.lock().as_ref().map(|sleep| sleep.deadline());
        assert_eq!(armed, Some(first));
    }
}
