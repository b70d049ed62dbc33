//! Work that goes on by itself when the connection it is for is cut off: the end waits for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::serve::Stopped;

/// What was begun here and has not ended.
#[derive(Debug, Default)]
pub(crate) struct Tasks(watch::Sender<()>);

pin_project! {
    /// Work, and the word that it has not ended. Not an `async` block: that would have room for the
    /// work twice, and every call is moved to where it runs.
    struct Begun<F> {
        #[pin]
        work: F,
        _begun: watch::Receiver<()>,
    }
}

impl<F: Future> Future for Begun<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().work.poll(context)
    }
}

impl Tasks {
    /// Begins something that the end waits for.
    pub(crate) fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(Begun { work, _begun: self.0.subscribe() })
    }

    /// Waits until all has ended, within a bound.
    pub(crate) async fn end(&self, within: Duration) -> Stopped {
        match timeout(within, self.0.closed()).await {
            Ok(()) => Stopped::InOrder,
            Err(_) => Stopped::CutOff,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_end_is_when_all_has_ended_or_the_time_is_up() {
        let tasks = Tasks::default();
        assert_eq!(tasks.end(SECOND).await, Stopped::InOrder, "nothing was begun");
        let began = Instant::now();
        let (short, long) = (tasks.spawn(sleep(2 * SECOND)), tasks.spawn(sleep(4 * SECOND)));
        assert_eq!(tasks.end(SECOND).await, Stopped::CutOff);
        assert_eq!((began.elapsed(), short.is_finished()), (SECOND, false));
        assert_eq!(tasks.end(9 * SECOND).await, Stopped::InOrder);
        assert_eq!((began.elapsed(), long.is_finished()), (4 * SECOND, true));
    }

    #[tokio::test(start_paused = true)]
    async fn what_breaks_off_has_ended() {
        let tasks = Tasks::default();
        let broken = tasks.spawn(async { panic!("on purpose") });
        assert_eq!(tasks.end(SECOND).await, Stopped::InOrder);
        assert!(broken.await.is_err());
    }
}
