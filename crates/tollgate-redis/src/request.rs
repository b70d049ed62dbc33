//! A request to the script, and what is done where it cannot be answered at once.

use redis::Value;
use tollgate::port::State;

use crate::bounds::TRIES;
use crate::error::StoreError;
use crate::limiter::Inner;
use crate::rescale;
use crate::script;
use crate::store::RedisStore;

/// A charge on its way to the script.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) limiter: &'a Inner,
    /// The key's name in Redis.
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
}

/// Whether charges that fit are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Take,
    Look,
}

/// A reservation on its way: its ticket with its units and amount, and its time-out.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) ticket: Vec<u8>,
    pub(crate) timeout: String,
}

/// What the script met.
#[derive(Debug)]
pub(crate) struct Met {
    /// Microseconds since 1970.
    pub(crate) now: u64,
    /// Whether every charge fits.
    pub(crate) fits: bool,
    /// Each key's state before anything was taken.
    pub(crate) states: Vec<State>,
}

/// An answer of the script: the time, what came of it, and more.
pub(crate) struct Reply {
    pub(crate) now: u64,
    pub(crate) verdict: i64,
    rest: Vec<Value>,
}

impl Reply {
    pub(crate) fn read(value: Value) -> Result<Reply, StoreError> {
        let broken = || StoreError::Script("its answer is not a list of numbers".to_owned());
        let Value::Array(values) = value else { return Err(broken()) };
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(Value::Int(now)), Some(Value::Int(verdict))) => {
                Ok(Reply { now: script::micros(now), verdict, rest: values.collect() })
            }
            _ => Err(broken()),
        }
    }

    /// The number of the charge that kept it from an answer.
    fn culprit(&self) -> usize {
        match self.rest.first() {
            Some(Value::Int(number)) => usize::try_from(number - 1).unwrap_or(0),
            _ => 0,
        }
    }

    fn states(self, charges: &[Asked<'_>]) -> Result<Vec<State>, StoreError> {
        let read = |(charge, value): (&Asked<'_>, Value)| match value {
            Value::Nil => Some(State::New),
            Value::BulkString(raw) => {
                let terms = &charge.limiter.terms;
                let words = if terms.is_log() { &raw[..] } else { raw.get(terms.tag.len()..)? };
                terms.read(words)
            }
            _ => None,
        };
        let states: Option<Vec<State>> = charges.iter().zip(self.rest).map(read).collect();
        let states = states.filter(|states| states.len() == charges.len());
        states.ok_or_else(|| StoreError::Script("its answer lacks a state".to_owned()))
    }
}

impl RedisStore {
    /// Decides charges of different keys, and takes all or none. What was just refused is refused
    /// again without asking.
    pub(crate) async fn ask(
        &self,
        charges: &[Asked<'_>],
        mode: Mode,
        hold: Option<&Hold>,
    ) -> Result<Met, StoreError> {
        if mode == Mode::Look {
            let met = self.connection().within(self.ask_until_answered(charges, mode, hold)).await;
            // The next check agrees with it.
            charges.iter().for_each(|charge| self.denials().forget(&charge.key));
            return met;
        }
        let places = match self.denials().look(charges) {
            Ok(met) => return Ok(met),
            Err(places) => places,
        };
        let met = self.connection().within(self.ask_until_answered(charges, mode, hold)).await?;
        if met.fits {
            self.denials().outdate(&places);
        } else {
            self.denials().learn(charges, &places, &met);
        }
        Ok(met)
    }

    async fn ask_until_answered(
        &self,
        charges: &[Asked<'_>],
        mode: Mode,
        hold: Option<&Hold>,
    ) -> Result<Met, StoreError> {
        for _ in 0..TRIES {
            let reply = self.ask_once(charges, mode, hold).await?;
            let Some(culprit) = charges.get(reply.culprit()) else {
                return Err(StoreError::Script("its answer names no charge".to_owned()));
            };
            match reply.verdict {
                0 | 1 => {
                    let (now, fits) = (reply.now, reply.verdict == 1);
                    return Ok(Met { now, fits, states: reply.states(charges)? });
                }
                script::OTHER if mode == Mode::Look && charges.len() == 1 => {
                    // A look changes nothing, not even the numbers a state is kept in.
                    if let Some(found) = rescale::look(self, culprit, reply.now).await? {
                        return Ok(Met { now: reply.now, fits: false, states: vec![found] });
                    }
                }
                script::OTHER => rescale::rescale(self, culprit, reply.now).await?,
                script::CALENDAR => culprit.limiter.learn_window(reply.now),
                script::DUE => {
                    let due = || vec![b"due".to_vec()];
                    self.change_until_done(culprit.limiter, &culprit.key, due).await?;
                }
                script::MANY => {
                    return Err(StoreError::Request(
                        "the key has 512 open reservations, settle some first".to_owned(),
                    ));
                }
                other => return Err(StoreError::Script(format!("it answered {other}"))),
            }
        }
        Err(StoreError::Script(format!("no answer after {TRIES} tries")))
    }

    async fn ask_once(
        &self,
        charges: &[Asked<'_>],
        mode: Mode,
        hold: Option<&Hold>,
    ) -> Result<Reply, StoreError> {
        let now = self.told_time();
        let specs: Vec<Vec<u8>> =
            charges.iter().map(|charge| charge.limiter.spec(charge.cost)).collect();
        let keys: Vec<&[u8]> = charges.iter().map(|charge| charge.key.as_slice()).collect();
        let mut args: Vec<&[u8]> = Vec::with_capacity(5 + 2 * charges.len());
        args.push(now.as_bytes());
        args.push(if mode == Mode::Take { b"take" } else { b"look" });
        let is_log = charges.iter().any(|charge| charge.limiter.terms.is_log());
        args.push(if is_log { b"log" } else { b"" });
        for (charge, spec) in charges.iter().zip(&specs) {
            args.push(&charge.limiter.terms.tag);
            args.push(spec);
        }
        if let Some(Hold { ticket, timeout }) = hold {
            args.extend([ticket.as_slice(), timeout.as_bytes()]);
        }
        Reply::read(self.connection().run(&keys, &args).await?)
    }

    /// Changes one key's state; whether anything was known of it. `what` is asked again for every
    /// try, since costs name the calendar's window.
    pub(crate) async fn change(
        &self,
        limiter: &Inner,
        key: &[u8],
        what: impl Fn() -> Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let _forgets = self.denials().forget_at_last(key);
        self.connection().within(self.change_until_done(limiter, key, what)).await
    }

    async fn change_until_done(
        &self,
        limiter: &Inner,
        key: &[u8],
        what: impl Fn() -> Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        for _ in 0..TRIES {
            let (now, spec, what) = (self.told_time(), limiter.spec(0), what());
            let log: &[u8] = if limiter.terms.is_log() { b"log" } else { b"" };
            let head = [now.as_bytes(), b"change", log, &limiter.terms.tag, &spec];
            let args: Vec<&[u8]> = head.into_iter().chain(what.iter().map(Vec::as_slice)).collect();
            let reply = Reply::read(self.connection().run(&[key], &args).await?)?;
            match reply.verdict {
                0 | 1 => return Ok(reply.verdict == 1),
                script::OTHER => {
                    let charge = Asked { limiter, key: key.to_vec(), cost: 0 };
                    rescale::rescale(self, &charge, reply.now).await?;
                }
                script::CALENDAR => limiter.learn_window(reply.now),
                other => return Err(StoreError::Script(format!("it answered {other}"))),
            }
        }
        Err(StoreError::Script(format!("no answer after {TRIES} tries")))
    }
}
