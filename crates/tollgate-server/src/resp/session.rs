//! The commands of one connection, answered.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tollgate::Limiter;

use super::commands::unknown;
use super::parse::{Arguments, Parsed, parse};
use super::remote::{Pending, Put};
use super::throttle::{self, Batch, Numbers};
use super::transaction::{CommandProgress, QueuedCommands};
use super::write::{Protocol, Writer};
use super::{Shared, Wrong, greet, policy};
use crate::backend::Backend;
use crate::bounds::Bounds;
use crate::client_limits::{ClientLimiter, Database};
use crate::metrics::add;
use crate::resp::bounds::WRITE_BUFFER;

/// One client's conversation: bytes in, bytes out, no I/O.
///
/// ```
/// use tollgate::{Gate, Policy};
/// use tollgate_server::Resp;
///
/// let mut session = Resp::new(Gate::new(Policy::new())?).session();
/// let mut out = Vec::new();
/// let used = session.answer(b"CL.THROTTLE ana 4 10 60\r\nPI", &mut out);
/// assert_eq!(used, 25);
/// assert_eq!(out, b"*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n");
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
pub struct RespSession {
    pub(super) shared: Arc<Shared>,
    pub(super) id: i64,
    /// Whose it is, where that is known.
    pub(super) peer: Option<IpAddr>,
    pub(super) protocol: Protocol,
    pub(super) name: Box<[u8]>,
    pub(super) authenticated: bool,
    pub(super) over: bool,
    pub(super) database: Database,
    /// The commands since `MULTI`.
    pub(super) transaction: Option<Box<QueuedCommands>>,
    /// The limit that was used last, found again without a lock.
    last: Option<(Numbers, ClientLimiter)>,
    /// How many bytes the command at the front takes at least.
    needed: usize,
    /// What waits for a store elsewhere.
    pub(super) waiting: Vec<Pending>,
}

impl RespSession {
    pub(super) fn new(shared: Arc<Shared>, id: i64, peer: Option<IpAddr>) -> RespSession {
        RespSession {
            authenticated: shared.password.is_none(),
            shared,
            id,
            peer,
            protocol: Protocol::Resp2,
            name: Box::default(),
            over: false,
            database: Database::FIRST,
            transaction: None,
            last: None,
            needed: 0,
            waiting: Vec::new(),
        }
    }

    /// Answers the whole commands at the front of `input` into `out`, and says how many bytes
    /// they took. Stops early once `out` is full, and in long transactions; what is left is to be
    /// given again, with what follows it, as long as anything is answered. Commands that need a store elsewhere are put off until
    /// [`ask_store`](Self::ask_store).
    pub fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        let (mut batch, mut arguments) = (Batch::default(), Arguments::new());
        let mut writer = Writer { out, protocol: self.protocol };
        while !self.over && writer.out.len() < WRITE_BUFFER && input.len() - used >= self.needed {
            match parse(&input[used..], &mut arguments) {
                Ok(Parsed::Command(length)) => {
                    let progress = if self.transaction.is_some() && !arguments.is_empty() {
                        let bytes = &input[used..used + length];
                        self.answer_in_transaction(&arguments, bytes, &mut writer)
                    } else {
                        self.answer_or_put_off(&arguments, &mut batch, &mut writer)
                    };
                    if progress == CommandProgress::Unfinished {
                        break;
                    }
                    used += length;
                    self.needed = 0;
                }
                // What waits is answered before the error that ends it all.
                Err(_) if self.waits_for_store() => break,
                Ok(Parsed::Incomplete(needed)) => self.needed = needed,
                Err(error) => {
                    self.decide(&mut batch, &mut writer);
                    add(&self.shared.counters().protocol_errors);
                    writer.error(&format!("ERR Protocol error: {error}"));
                    self.over = true;
                }
            }
        }
        self.decide(&mut batch, &mut writer);
        if self.over { input.len() } else { used }
    }

    /// Returns `true` if `EXEC` has been answered in part.
    pub(super) fn is_in_exec(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_begun())
    }

    /// Whether the connection is to be closed once `out` is written.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Answers a command outside of a transaction, or puts it off.
    pub(super) fn answer_or_put_off<'a>(
        &mut self,
        arguments: &Arguments<'a>,
        batch: &mut Batch<'a>,
        writer: &mut Writer<'_>,
    ) -> CommandProgress {
        match self.put_off(arguments) {
            Put::Later => return CommandProgress::Unfinished,
            Put::Off => {}
            Put::Now => self.command(arguments, batch, writer),
        }
        CommandProgress::Done
    }

    fn command<'a>(
        &mut self,
        arguments: &Arguments<'a>,
        batch: &mut Batch<'a>,
        writer: &mut Writer<'_>,
    ) {
        let Some(name) = arguments.first() else {
            return;
        };
        let answered = match throttle::kind(name, self.database) {
            Some(kind) if self.authenticated => {
                let asked = throttle::read(kind, arguments, self.bounds());
                asked.map(|ask| self.throttle(&ask, batch, writer))
            }
            _ => {
                self.decide(batch, writer);
                self.other(name, arguments, writer)
            }
        };
        if let Err(error) = answered {
            self.decide(batch, writer);
            self.shared.count(&error);
            writer.error(&error.text);
        }
    }

    fn throttle<'a>(
        &mut self,
        ask: &throttle::Ask<'a>,
        batch: &mut Batch<'a>,
        writer: &mut Writer<'_>,
    ) {
        if !batch.takes(ask) {
            self.decide(batch, writer);
        }
        batch.push(ask);
    }

    /// Decides all that wait: before anything else is answered, so that answers keep their order.
    pub(super) fn decide(&mut self, batch: &mut Batch<'_>, writer: &mut Writer<'_>) {
        let Some(numbers) = batch.waiting() else {
            return;
        };
        match limiter(&mut self.last, &self.shared, numbers) {
            Ok(limiter) => {
                batch.decide(limiter, &self.shared.app, writer);
            }
            Err(error) => {
                let refused = batch.refuse(&error, writer);
                (0..refused).for_each(|_| add(&self.shared.counters().errors));
            }
        }
    }

    fn other(
        &mut self,
        name: &[u8],
        arguments: &Arguments<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), Wrong> {
        if let Some(answered) = greet::before_password(self, name, arguments, writer) {
            return answered.map_err(Wrong::from);
        }
        if !self.authenticated {
            let text = "NOAUTH Authentication required, send AUTH password";
            return Err(text.to_owned().into());
        }
        if let Some(verb) = policy::verb(name) {
            let app = &self.shared.app;
            return match &app.backend {
                Backend::Memory(gate) => {
                    policy::answer(verb, (app, gate, self.peer), arguments, writer)
                }
                // Only what is wrong was not put off.
                Backend::Redis(_) => policy::read(verb, app, &arguments[1..]).map(drop),
            };
        }
        if let Some(answered) = self.begin_transaction(arguments, writer) {
            return answered;
        }
        if throttle::is_delete(name) {
            return self.delete(arguments, writer);
        }
        let answered = greet::answer(self, name, arguments, writer);
        answered.unwrap_or_else(|| Err(unknown(name))).map_err(Wrong::from)
    }

    /// Resets keys in memory. Over Redis only what is wrong was not put off.
    fn delete(&self, arguments: &[&[u8]], writer: &mut Writer<'_>) -> Result<(), Wrong> {
        let keys = throttle::keys(arguments, self.bounds())?;
        let limits = &self.shared.app.limits;
        let reset = keys.iter().filter(|key| limits.reset_in_memory(self.database, key));
        writer.units(reset.count() as u64);
        Ok(())
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.shared.app.settings.bounds
    }
}

/// The limiter with these numbers, without a lock if it was the last.
fn limiter<'l>(
    last: &'l mut Option<(Numbers, ClientLimiter)>,
    shared: &Shared,
    numbers: Numbers,
) -> Result<&'l Limiter, String> {
    let known = match last.take().filter(|(last, _)| *last == numbers) {
        Some(known) => known,
        None => {
            let limiter = shared.app.limits.get(numbers.kind, numbers.limit());
            (numbers, limiter.map_err(|error| format!("ERR {error}"))?)
        }
    };
    Ok(last.insert(known).1.alone())
}

impl fmt::Debug for RespSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RespSession").field("id", &self.id).finish_non_exhaustive()
    }
}
