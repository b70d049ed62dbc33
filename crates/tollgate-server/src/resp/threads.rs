//! Threads of their own for connections: each is answered by one thread, which waits for all of its
//! own at once and wakes no other. A decision in memory takes less time than to wake somebody.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Resp, connection};
use crate::listen::{Accepted, Stop, drain};
use crate::serve::Stopped;

/// Threads that connections are handed to in turn; by default there are none.
#[derive(Default)]
pub(super) struct Threads {
    each: Vec<(mpsc::UnboundedSender<Accepted>, oneshot::Receiver<Stopped>)>,
    next: usize,
}

impl Threads {
    /// Starts so many; none where the system has no thread to give.
    pub(super) fn start(number: usize, resp: &Resp, stop: &Stop) -> Threads {
        let start = |number| match start(number, resp.clone(), stop.clone()) {
            Ok(started) => Some(started),
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread for connections");
                None
            }
        };
        Threads { each: (0..number).filter_map(start).collect(), next: 0 }
    }

    /// Hands a connection to the next thread that lives; gives it back where there is none.
    pub(super) fn hand(&mut self, mut accepted: Accepted) -> Result<(), Accepted> {
        for _ in 0..self.each.len() {
            self.next = (self.next + 1) % self.each.len();
            // As many as there are places at most wait to be taken up.
            match self.each[self.next].0.send(accepted) {
                Ok(()) => return Ok(()),
                Err(refused) => accepted = refused.0,
            }
        }
        Err(accepted)
    }

    #[cfg(test)]
    pub(super) fn add_dead(&mut self) {
        self.each.push((mpsc::unbounded_channel().0, oneshot::channel().1));
    }

    /// Waits until all have ended their connections, within their bound.
    pub(super) async fn end(self) -> Stopped {
        let mut stopped = Stopped::InOrder;
        let (handing, ended): (Vec<_>, Vec<_>) = self.each.into_iter().unzip();
        drop(handing);
        for ended in ended {
            if ended.await != Ok(Stopped::InOrder) {
                stopped = Stopped::CutOff;
            }
        }
        stopped
    }
}

type Started = (mpsc::UnboundedSender<Accepted>, oneshot::Receiver<Stopped>);

fn start(number: usize, resp: Resp, stop: Stop) -> io::Result<Started> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (handing, handed) = mpsc::unbounded_channel();
    let (ended, end) = oneshot::channel();
    let thread = thread::Builder::new().name(format!("tollgate-resp-{number}"));
    thread.spawn(move || {
        // Who waits for the end may be gone.
        let _ = ended.send(runtime.block_on(serve(handed, resp, stop)));
    })?;
    Ok((handing, end))
}

/// Answers what is handed over until there will be no more, and ends what is in flight.
async fn serve(mut handed: mpsc::UnboundedReceiver<Accepted>, resp: Resp, stop: Stop) -> Stopped {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = connections.join_next() => continue,
            handed = handed.recv() => handed,
        };
        let Some(accepted) = accepted else { break };
        let (resp, stop) = (resp.clone(), stop.wait());
        connections.spawn(async move {
            // A connection that cannot be taken up is closed.
            let peer = Some(accepted.peer.ip());
            if let Ok(accepted) = accepted.moved_here()
                && let Some((stream, _place)) = accepted.open().await
            {
                connection::run(stream, (resp, peer), stop).await;
            }
        });
    }
    drain(connections, resp.0.bounds.drain).await
}
