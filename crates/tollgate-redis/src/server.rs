//! A server behind its breaker: commands on the link that the breaker keeps.

use std::sync::Arc;
use std::time::Duration;

use redis::{Arg, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::timeout;

use crate::bounds::STRIKES;
use crate::breaker::{Breaker, CallFailure, NumberedLink};
use crate::error::{StoreError, cannot_serve, lacks_rights};
use crate::link::Connector;
use crate::outage::Health;

/// One server, whose link is made again when it breaks. Clones share it.
#[derive(Clone)]
pub(crate) struct GuardedServer(Arc<Breaker>);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// What went wrong on the link, or what the server said, and the same in our words.
    Link(RedisError, StoreError),
    /// Nothing was sent, or what came makes no sense.
    Told(StoreError),
}

impl CallError {
    pub(crate) fn told(self) -> StoreError {
        match self {
            CallError::Link(_, told) | CallError::Told(told) => told,
        }
    }
}

impl GuardedServer {
    /// A server that is connected to when it is first needed.
    pub(crate) fn new(dialer: Connector, timeout: Duration) -> GuardedServer {
        GuardedServer(Breaker::new(dialer, timeout))
    }

    pub(crate) fn breaker(&self) -> &Arc<Breaker> {
        &self.0
    }

    /// Makes the link now.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        self.0.join().await
    }

    pub(crate) fn health(&self) -> Health {
        self.0.health()
    }

    /// Whether decisions would be answered, by a script that runs the commands they use. Connects if
    /// there is no connection. [`health`](Self::health) has the result too. During an outage it asks
    /// nothing: the background task probes then.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        if let Some(away) = self.0.outage() {
            return Err(away);
        }
        // No caller waits here, so that a connection may take the time that connections may.
        self.0.link().await?;
        let mut probed = Ok(());
        // As often as it takes to be sure that it hangs.
        for _ in 0..STRIKES {
            let asked = async { self.ask_probe().await.map_err(CallError::told) };
            probed = self.within(asked).await;
            if !matches!(probed, Err(StoreError::Timeout(_))) {
                break;
            }
        }
        probed
    }

    async fn ask_probe(&self) -> Result<(), CallError> {
        let link = self.0.link().await.map_err(CallError::Told)?;
        let answer = self.0.dialer().ask_probe(&link.link).await;
        self.heard(&link, true, answer)
    }

    /// Does the work of one call, all its round trips together no longer than a call may take, and
    /// nothing at all during an outage. Each round trip leaves whole what it has done, so that the
    /// work may be left off between any two.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if let Some(away) = self.0.outage() {
            self.0.count_failed_call();
            return Err(away);
        }
        let (began_with, answers) = (self.0.number(), self.0.answers());
        let limit = self.0.timeout();
        let done = timeout(limit, work).await.unwrap_or_else(|_| {
            let late = StoreError::Timeout(limit);
            if self.0.answers() == answers {
                self.0.failed(began_with, CallFailure::Late, &late);
            }
            Err(late)
        });
        if matches!(&done, Err(error) if error.is_outage()) {
            self.0.count_failed_call();
        }
        done
    }

    /// Sends a command and waits for the answer. The caller bounds the time.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, CallError> {
        let link = self.0.link().await.map_err(CallError::Told)?;
        let answer = self.heard(&link, is_decision(command), link.link.ask(command).await)?;
        self.checked(&link, command, answer)
    }

    /// The same behind ASKING, for a key that is being moved to this node.
    pub(crate) async fn ask_asking(&self, command: &Cmd) -> Result<Value, CallError> {
        let link = self.0.link().await.map_err(CallError::Told)?;
        let answer = link.link.ask_asking(command).await;
        let answer = self.heard(&link, is_decision(command), answer)?;
        self.checked(&link, command, answer)
    }

    /// The script answers with a list. Whatever else comes is not its answer: who knows whose, or
    /// whose the next will be.
    fn checked(
        &self,
        link: &NumberedLink,
        command: &Cmd,
        answer: Value,
    ) -> Result<Value, CallError> {
        if matches!(answer, Value::Array(_)) || !is_script(command) {
            return Ok(answer);
        }
        let at = self.0.dialer().address();
        let error = StoreError::Connection(format!("{at}: a broken answer, not a list"));
        self.0.link_failed(link, CallFailure::Lost, &error);
        Err(CallError::Told(error))
    }

    /// An answer in our words, of which the breaker learns. A user who lacks a right that a decision
    /// needs has no store; one who lacks another right has.
    fn heard<T>(
        &self,
        link: &NumberedLink,
        is_decision: bool,
        answer: Result<T, RedisError>,
    ) -> Result<T, CallError> {
        let error = match answer {
            Ok(answer) => {
                self.0.answered(link);
                return Ok(answer);
            }
            Err(error) => error,
        };
        let told = self.0.dialer().tell(&error);
        match &told {
            _ if self.0.dialer().is_node() && is_redirection(&error) => self.0.answered(link),
            StoreError::Connection(_) => self.0.link_failed(link, CallFailure::Lost, &told),
            StoreError::Refused(_)
                if cannot_serve(&error) || is_decision && lacks_rights(&error) =>
            {
                self.0.link_failed(link, CallFailure::Refused, &told);
            }
            StoreError::Incompatible(_) => self.0.link_failed(link, CallFailure::Refused, &told),
            _ => self.0.answered(link),
        }
        Err(CallError::Link(error, told))
    }
}

/// Whether a command is a call of the script for anything but a heartbeat, without which decisions go on.
fn is_decision(command: &Cmd) -> bool {
    let mut args = command.args_iter().skip(2);
    let keys = match args.next() {
        Some(Arg::Simple(keys)) => {
            std::str::from_utf8(keys).ok().and_then(|keys| keys.parse().ok())
        }
        _ => None,
    };
    // Behind the keys stand the time and what the script is to do.
    let purpose = args.nth(keys.unwrap_or(0_usize).saturating_add(1));
    is_script(command) && !matches!(purpose, Some(Arg::Simple(b"beat")))
}

fn is_script(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"EVAL" | b"EVALSHA")))
}

/// What a node answers that is well and not the one to ask.
fn is_redirection(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::CrossSlot
        )
    )
}
