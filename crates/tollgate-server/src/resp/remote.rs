//! Commands whose answer is in a store elsewhere: a session puts them off, and the connection waits
//! for all of them at once.

use std::net::IpAddr;

use futures_util::future::join_all;
use tollgate::{Decision, Ruling};

use super::Shared;
use super::policy::{self, Verb};
use super::session::RespSession;
use super::throttle::{self, Numbers};
use super::write::Writer;
use crate::backend::Backend;
use crate::client_limits::Database;
use crate::metrics::{Transport, add};

/// A command that waits for the store. What it holds is no longer than what was read.
#[derive(Debug)]
pub(super) enum Pending {
    Throttle {
        numbers: Numbers,
        key: Vec<u8>,
        quantity: u64,
    },
    Policy {
        verb: Verb,
        arguments: Vec<Vec<u8>>,
    },
    /// `DEL`, with each key once.
    Delete {
        database: Database,
        keys: Vec<Vec<u8>>,
    },
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is answered now.
    Now,
    /// It waits for the store.
    Off,
    /// Those that wait are answered first.
    Later,
}

/// What the store said.
enum Told {
    Decided(Numbers, Decision),
    Ruled(Ruling),
    Stands(Ruling),
    Reset(bool),
    /// The number of keys that were reset.
    Deleted(u64),
}

impl RespSession {
    /// Puts a command off that needs a store elsewhere, keeping the order of all.
    pub(super) fn put_off(&mut self, arguments: &[&[u8]]) -> Put {
        if matches!(self.shared.app.backend, Backend::Memory(_)) {
            return Put::Now;
        }
        match self.pending(arguments) {
            Some(_) if self.waiting.len() >= self.bounds().pipeline.max(1) => Put::Later,
            Some(pending) => {
                self.waiting.push(pending);
                Put::Off
            }
            None if self.waiting.is_empty() => Put::Now,
            None => Put::Later,
        }
    }

    /// The command, if it needs the store; one that is wrong does not.
    fn pending(&self, arguments: &[&[u8]]) -> Option<Pending> {
        let name = arguments.first().filter(|_| self.authenticated)?;
        if let Some(kind) = throttle::kind(name, self.database) {
            let ask = throttle::read(kind, arguments, self.bounds()).ok()?;
            let (numbers, quantity) = (ask.numbers, ask.quantity);
            return Some(Pending::Throttle { numbers, key: ask.key.to_vec(), quantity });
        }
        if throttle::is_delete(name) {
            let keys = throttle::keys(arguments, self.bounds()).ok()?;
            let mut keys: Vec<_> = keys.iter().map(|key| key.to_vec()).collect();
            keys.sort_unstable();
            keys.dedup();
            return Some(Pending::Delete { database: self.database, keys });
        }
        let verb = policy::verb(name)?;
        policy::read(verb, &self.shared.app, &arguments[1..]).ok()?;
        let arguments = arguments[1..].iter().map(|argument| argument.to_vec()).collect();
        Some(Pending::Policy { verb, arguments })
    }

    /// Whether [`answer`](Self::answer) has put commands off that [`ask_store`](Self::ask_store)
    /// answers: never so for state in memory.
    pub fn waits_for_store(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers into `out` what was put off, in the order of the commands.
    pub async fn ask_store(&mut self, out: &mut Vec<u8>) {
        let waiting = std::mem::take(&mut self.waiting);
        let (shared, from) = (&*self.shared, self.peer);
        let answers = join_all(waiting.iter().map(|pending| pending.ask(shared, from))).await;
        let mut writer = Writer { out, protocol: self.protocol };
        for answer in answers {
            let told = answer.and_then(|told| told.write(&mut writer));
            if let Err(error) = told {
                add(&shared.counters().errors);
                writer.error(&error);
            }
        }
    }
}

impl Pending {
    async fn ask(&self, shared: &Shared, from: Option<IpAddr>) -> Result<Told, String> {
        let app = &shared.app;
        match self {
            Pending::Throttle { numbers, key, quantity } => {
                let limiter = app.limits.get(numbers.kind, numbers.limit());
                let limiter = limiter.map_err(|error| format!("ERR {error}"))?;
                let (decision, degraded) = limiter.check(key, *quantity).await;
                let counts = app.metrics.client_limits(Transport::Resp);
                counts.decided(decision.outcome(), degraded);
                throttle::watch(app, numbers.kind, (key, *quantity), &decision);
                Ok(Told::Decided(*numbers, decision))
            }
            Pending::Delete { database, keys } => {
                let mut deleted = 0;
                for some in keys.chunks(app.settings.bounds.pipeline.max(1)) {
                    let reset = some.iter().map(|key| app.limits.reset(*database, key));
                    for known in join_all(reset).await {
                        deleted += u64::from(known.map_err(away)?);
                    }
                }
                Ok(Told::Deleted(deleted))
            }
            Pending::Policy { verb, arguments } => {
                let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                Ok(match policy::read(*verb, app, &arguments).map_err(|wrong| wrong.text)? {
                    policy::Asked::Check(request) => {
                        let ruling = app.backend.check(&request).await;
                        app.decided(Transport::Resp, &request, &ruling);
                        Told::Ruled(ruling)
                    }
                    policy::Asked::Peek(request) => Told::Ruled(app.backend.peek(&request).await),
                    policy::Asked::Status(request) => {
                        Told::Stands(app.backend.status(&request).await)
                    }
                    policy::Asked::Reset(rule, key) => {
                        let reset = app.backend.reset_earned(rule, &key).await;
                        if !matches!(reset, Ok(false)) {
                            let failed = reset.as_ref().err().map(ToString::to_string);
                            app.reset_by_client(from, (rule, &key), failed);
                        }
                        Told::Reset(reset.map_err(away)?)
                    }
                })
            }
        }
    }
}

impl Told {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), String> {
        match self {
            Told::Decided(numbers, decision) => throttle::decided(*numbers, decision, writer),
            Told::Ruled(ruling) => return policy::ruled(ruling, writer),
            Told::Stands(ruling) => return policy::status(ruling, writer),
            Told::Reset(known) => writer.integer(i64::from(*known)),
            Told::Deleted(keys) => writer.units(*keys),
        }
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn away(error: tollgate_redis::StoreError) -> String {
    format!("ERR {error}")
}
