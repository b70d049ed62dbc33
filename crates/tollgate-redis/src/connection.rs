//! The connection: commands on the link that the breaker keeps, each call within its time.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::timeout;

use crate::breaker::{Breaker, Failure, Numbered};
use crate::error::{StoreError, cannot_serve};
use crate::link::Dialer;
use crate::outage::Health;
use crate::script;

/// A connection to one server, made again when it breaks. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Breaker>);

impl Connection {
    /// A connection that is made when it is first needed.
    pub(crate) fn new(
        url: &str,
        call_timeout: Duration,
        connect_timeout: Duration,
    ) -> Result<Connection, StoreError> {
        Ok(Connection(Breaker::new(Dialer::new(url, connect_timeout)?, call_timeout)))
    }

    /// Makes it now.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        self.0.join().await
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> &str {
        self.0.dialer().address()
    }

    pub(crate) fn health(&self) -> Health {
        self.0.health()
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
        let began_with = self.0.number();
        let limit = self.0.timeout();
        let done = timeout(limit, work).await.unwrap_or_else(|_| {
            let late = StoreError::TimedOut(limit);
            self.0.failed(began_with, Failure::Late, &late);
            Err(late)
        });
        if matches!(&done, Err(error) if error.is_outage()) {
            self.0.count_failed_call();
        }
        done
    }

    /// Sends a command and waits for the answer, no longer than a call may take.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.within(self.ask(command)).await
    }

    /// Sends a command and waits for the answer. The caller bounds the time.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        let link = self.0.link().await?;
        self.heard(&link, link.link.ask(command).await)
    }

    /// Runs the script, by its hash if the server knows it. The caller bounds the time.
    pub(crate) async fn run(&self, keys: &[&[u8]], args: &[&[u8]]) -> Result<Value, StoreError> {
        let link = self.0.link().await?;
        let mut answer = link.link.ask(&command("EVALSHA", script::hash(), keys, args)).await;
        if matches!(&answer, Err(error) if is_unknown_script(error)) {
            // Sent whole, the server keeps it from then on.
            answer = link.link.ask(&command("EVAL", script::source(), keys, args)).await;
        }
        let answer = self.heard(&link, answer)?;
        self.checked(&link, answer)
    }

    /// The script answers with a list. Whatever else comes is not its answer: who knows whose, or
    /// whose the next will be.
    fn checked(&self, link: &Numbered, answer: Value) -> Result<Value, StoreError> {
        if matches!(answer, Value::Array(_)) {
            return Ok(answer);
        }
        let error =
            StoreError::Unreachable(format!("{}: a broken answer, not a list", self.address()));
        self.0.link_failed(link, Failure::Lost, &error);
        Err(error)
    }

    /// An answer in our words; the breaker hears of it, too.
    fn heard(
        &self,
        link: &Numbered,
        answer: Result<Value, RedisError>,
    ) -> Result<Value, StoreError> {
        let error = match answer {
            Ok(answer) => {
                self.0.answered(link);
                return Ok(answer);
            }
            Err(error) => error,
        };
        let told = self.0.dialer().tell(&error);
        match &told {
            StoreError::Unreachable(_) => self.0.link_failed(link, Failure::Lost, &told),
            StoreError::Refused(_) if cannot_serve(&error) => {
                self.0.link_failed(link, Failure::Refused, &told);
            }
            StoreError::Unsuitable(_) => self.0.link_failed(link, Failure::Refused, &told),
            _ => self.0.answered(link),
        }
        Err(told)
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn command(name: &str, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len());
    for bytes in keys.iter().chain(args) {
        command.arg(*bytes);
    }
    command
}
