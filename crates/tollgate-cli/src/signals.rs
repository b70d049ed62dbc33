//! The signals that stop what runs.

use std::io;

/// SIGINT and SIGTERM; on other systems Ctrl-C.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(not(unix))]
pub(crate) struct Signals;

/// What shells and service managers expect of a process that was not let end.
const CUT_SHORT: i32 = 130;

#[cfg(unix)]
impl Signals {
    /// From now on signals do not end the process by themselves.
    pub(crate) fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Signals {
    /// Ends the process at the next signal, whatever it is doing.
    pub(crate) fn exit_at_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(CUT_SHORT);
        });
    }
}
