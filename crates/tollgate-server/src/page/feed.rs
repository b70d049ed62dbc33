//! What goes on, every second, to all who watch: one task looks, and only while somebody watches.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::sample::Sampler;
use crate::app::App;
use crate::bounds::{MAX_EVENT_STREAMS, SAMPLE_EVERY};

/// The streams that are open, and what they share.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Another with every start, so that who watches knows that counts began anew.
    pub(super) boot: u64,
    pub(super) started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nobody watches, and nothing is looked at.
    Idle,
    /// The last event, for those who watch. Dropping it ends all streams.
    Watched(watch::Sender<Bytes>),
    /// The server stops.
    Closed,
}

/// Why there is no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    TooMany,
    Stopping,
}

impl Default for Feed {
    fn default() -> Feed {
        let boot = getrandom::u64().unwrap_or_default();
        Feed { boot, started: Instant::now(), state: Mutex::new(State::Idle) }
    }
}

impl Feed {
    /// Watches. The first who does starts the task that looks.
    fn watch(&self, app: &Arc<App>) -> Result<watch::Receiver<Bytes>, NotOpened> {
        let mut state = self.state.lock();
        match &*state {
            State::Closed => Err(NotOpened::Stopping),
            State::Watched(sender) if sender.receiver_count() >= MAX_EVENT_STREAMS => {
                Err(NotOpened::TooMany)
            }
            State::Watched(sender) => {
                let mut receiver = sender.subscribe();
                if !receiver.borrow().is_empty() {
                    receiver.mark_changed();
                }
                Ok(receiver)
            }
            State::Idle => {
                let (sender, receiver) = watch::channel(Bytes::new());
                *state = State::Watched(sender);
                tokio::spawn(look(Arc::downgrade(app)));
                Ok(receiver)
            }
        }
    }

    /// Ends all streams, and opens no more.
    pub(crate) fn close(&self) {
        *self.state.lock() = State::Closed;
    }

    /// Whether somebody watches; where nobody does any more, the task that looks is told to end.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        match &*state {
            State::Watched(sender) if sender.receiver_count() > 0 => true,
            State::Watched(_) => {
                *state = State::Idle;
                false
            }
            State::Idle | State::Closed => false,
        }
    }

    fn send(&self, event: Bytes) {
        if let State::Watched(sender) = &*self.state.lock() {
            sender.send_replace(event);
        }
    }
}

/// Looks until nobody watches.
async fn look(app: Weak<App>) {
    let mut sampler = Sampler::default();
    let mut beat = tokio::time::interval(SAMPLE_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let Some(app) = app.upgrade() else { return };
        if !app.feed.goes_on() {
            return;
        }
        let event = sampler.event(&app);
        app.feed.send(event);
    }
}

/// A body of server-sent events, of at most so many, while who reads it may see them.
pub(crate) fn events(
    app: &Arc<App>,
    most: Option<usize>,
    may_see: impl Fn() -> bool + Send + 'static,
) -> Result<Body, NotOpened> {
    let receiver = app.feed.watch(app)?;
    let state = (receiver, most, may_see);
    let events = stream::unfold(state, |(mut receiver, left, may_see)| async move {
        let left = match left {
            Some(left) => Some(left.checked_sub(1)?),
            None => None,
        };
        // Who reads slowly misses events and gets the latest: each says everything.
        receiver.changed().await.ok()?;
        if !may_see() {
            return None;
        }
        let event = receiver.borrow_and_update().clone();
        Some((Ok::<_, Infallible>(event), (receiver, left, may_see)))
    });
    Ok(Body::from_stream(events))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt;
    use tollgate::{Gate, Policy};

    use super::*;
    use crate::app::Settings;
    use crate::backend::Backend;

    fn app() -> Arc<App> {
        let gate = Gate::new(Policy::new()).unwrap();
        Arc::new(App::new(Backend::Memory(gate), Settings::default()))
    }

    fn is_idle(app: &App) -> bool {
        matches!(*app.feed.state.lock(), State::Idle)
    }

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_comes_at_once_and_then_every_second() {
        let app = app();
        let before = tokio::time::Instant::now();
        let mut body = events(&app, None, || true).unwrap();
        for second in 0..3 {
            let event = next(&mut body).await.unwrap();
            assert!(event.starts_with("event: sample\ndata: {") && event.ends_with("}\n\n"));
            assert_eq!(before.elapsed().as_secs(), second);
        }
        let mut late = events(&app, Some(1), || true).unwrap();
        assert!(next(&mut late).await.is_some(), "the last one is sent to who comes later");
        assert_eq!(before.elapsed().as_secs(), 2);
        assert_eq!(next(&mut late).await, None, "as many as were asked for");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_looked_at_when_nobody_watches() {
        let app = app();
        assert!(is_idle(&app));
        let mut body = events(&app, None, || true).unwrap();
        next(&mut body).await.unwrap();
        assert!(!is_idle(&app));
        drop(body);
        tokio::time::sleep(2 * SAMPLE_EVERY).await;
        assert!(is_idle(&app));
        assert_eq!(Arc::weak_count(&app), 0, "the task has ended");
        let mut body = events(&app, None, || true).unwrap();
        assert!(next(&mut body).await.is_some(), "and it begins again");
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_bound_of_streams_and_one_task_for_all() {
        let app = app();
        let mut bodies: Vec<_> =
            (0..MAX_EVENT_STREAMS).map(|_| events(&app, None, || true).unwrap()).collect();
        assert_eq!(events(&app, None, || true).err(), Some(NotOpened::TooMany));
        for body in &mut bodies {
            next(body).await.unwrap();
        }
        assert_eq!(Arc::weak_count(&app), 1);
        bodies.pop();
        assert!(events(&app, None, || true).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_when_the_server_stops() {
        let app = app();
        let mut body = events(&app, None, || true).unwrap();
        next(&mut body).await.unwrap();
        app.feed.close();
        assert_eq!(next(&mut body).await, None);
        assert_eq!(events(&app, None, || true).err(), Some(NotOpened::Stopping));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_who_reads_it_may_no_longer() {
        let (app, may) = (app(), Arc::new(AtomicBool::new(true)));
        let still = Arc::clone(&may);
        let mut body = events(&app, None, move || still.load(Ordering::Relaxed)).unwrap();
        assert!(next(&mut body).await.is_some());
        may.store(false, Ordering::Relaxed);
        assert_eq!(next(&mut body).await, None);
    }
}
