//! The signals that stop what runs, and the one that has files read again.

use std::io;

/// SIGINT and SIGTERM; on other systems Ctrl-C.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(not(unix))]
pub(crate) struct Signals;

/// SIGHUP; on other systems never.
pub(crate) struct Hangups {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Hangups {
    /// From now on the signal does not end the process.
    pub(crate) fn new() -> io::Result<Hangups> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Hangups {
            #[cfg(unix)]
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one; those that come while nobody waits are one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if self.hangup.recv().await.is_some() {
            return;
        }
        std::future::pending().await
    }
}

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
