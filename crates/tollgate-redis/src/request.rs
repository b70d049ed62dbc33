//! A request to the script, and what is done where it cannot be answered at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tollgate::port::ScriptState;

use crate::bounds::{MAX_RESERVATION, TRIES};
use crate::denied::CacheSlot;
use crate::error::StoreError;
use crate::fetch::{self, Conversion};
use crate::layout::shown;
use crate::limiter::RedisLimiterInner;
use crate::rescale::{self, Replacement};
use crate::reservation::OpenRedisReservation;
use crate::script::{self, PackedBytes};
use crate::store::RedisStore;

/// About what a charge takes that is sent.
const PACKED_CHARGE: usize = 80;

/// A charge on its way to the script.
#[derive(Clone, Debug)]
pub(crate) struct ScriptCharge<'a> {
    pub(crate) limiter: &'a Arc<RedisLimiterInner>,
    /// The key's name in Redis.
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
}

/// Whether charges that fit are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptMode {
    Take,
    Look,
}

/// A reservation on its way: its time-out, and each charge's ticket with its units and amount.
#[derive(Debug)]
pub(crate) struct ScriptReservation {
    pub(crate) timeout: String,
    pub(crate) tickets: Vec<Vec<u8>>,
}

impl ScriptReservation {
    pub(crate) fn of(claims: &[OpenRedisReservation], timeout: Duration) -> ScriptReservation {
        let timeout = timeout.min(MAX_RESERVATION).as_micros().to_string();
        ScriptReservation {
            timeout,
            tickets: claims.iter().map(OpenRedisReservation::record).collect(),
        }
    }
}

/// What goes with the charges of several rules: which are whose, and the keys of the rules' blocks.
#[derive(Debug)]
pub(crate) struct ScriptRules {
    pub(crate) packed: Vec<u8>,
    pub(crate) blocks: Vec<Vec<u8>>,
}

/// How charges are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOptions<'a> {
    pub(crate) mode: ScriptMode,
    pub(crate) hold: Option<&'a ScriptReservation>,
    pub(crate) rules: Option<&'a ScriptRules>,
    /// Whether states of other numbers are left as they are: [`ScriptReply::is_scaled`] then says that there are
    /// some, and nothing else is known.
    pub(crate) leaves_numbers: bool,
}

impl From<ScriptMode> for CallOptions<'_> {
    fn from(mode: ScriptMode) -> Self {
        CallOptions { mode, hold: None, rules: None, leaves_numbers: false }
    }
}

/// What the script met.
#[derive(Debug)]
pub(crate) struct ScriptReply {
    /// Microseconds since 1970.
    pub(crate) now: u64,
    /// Whether every charge fits.
    pub(crate) fits: bool,
    /// Each key's state before anything was taken.
    pub(crate) states: Vec<ScriptState>,
    /// Whether what does not fit is held by others who are on their way, so that it may fit soon.
    pub(crate) is_contended: bool,
    /// Whether one of them is kept in other numbers than those that ask.
    pub(crate) is_scaled: bool,
    /// What the script says of each rule, if it was asked.
    pub(crate) rules: Vec<u8>,
}

impl ScriptReply {
    /// A refusal by what is known here.
    pub(crate) fn refused(now: u64, states: Vec<ScriptState>) -> ScriptReply {
        let (is_contended, is_scaled, rules) = (false, false, Vec::new());
        ScriptReply { now, fits: false, states, is_contended, is_scaled, rules }
    }

    /// Whether a denial may be repeated without asking. What a request on its way holds may be back
    /// at once. A converted state recovers under the limit that asks: it was stored, or its
    /// conversion commutes with time.
    pub(crate) fn may_be_learned(&self) -> bool {
        !self.is_contended
    }
}

/// An answer of the script: the time, what came of it, and more.
pub(crate) struct RawReply {
    pub(crate) now: u64,
    pub(crate) verdict: i64,
    rest: Vec<Value>,
}

impl RawReply {
    pub(crate) fn read(value: Value) -> Result<RawReply, StoreError> {
        let broken = || StoreError::Script("its answer is not a list of numbers".to_owned());
        let Value::Array(values) = value else { return Err(broken()) };
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(Value::Int(now)), Some(Value::Int(verdict))) => {
                Ok(RawReply { now: script::micros(now), verdict, rest: values.collect() })
            }
            _ => Err(broken()),
        }
    }

    /// The first value behind the verdict.
    pub(crate) fn into_first(self) -> Option<Value> {
        self.rest.into_iter().next()
    }

    /// The number of the charge that kept it from an answer.
    pub(crate) fn culprit(&self) -> usize {
        match self.rest.first() {
            Some(Value::Int(number)) => usize::try_from(number - 1).unwrap_or(0),
            _ => 0,
        }
    }

    /// What was met at each charge: a state, or `None` where it is of other numbers. Then what the
    /// script says of rules.
    fn met(
        self,
        charges: &[ScriptCharge<'_>],
    ) -> Result<(Vec<Option<ScriptState>>, Vec<u8>), StoreError> {
        let lacks = || StoreError::Script("its answer lacks a state".to_owned());
        let mut values = self.rest.into_iter();
        let mut states = Vec::with_capacity(charges.len());
        for charge in charges {
            let terms = &charge.limiter.terms;
            states.push(match values.next() {
                Some(Value::Nil) => Some(ScriptState::New),
                Some(Value::Int(script::OTHER)) => None,
                Some(Value::BulkString(raw)) => {
                    let words =
                        if terms.is_log() { Some(&raw[..]) } else { raw.get(terms.tag.len()..) };
                    Some(words.and_then(|words| terms.read(words)).ok_or_else(lacks)?)
                }
                _ => return Err(lacks()),
            });
        }
        let rules =
            if let Some(Value::BulkString(told)) = values.next() { told } else { Vec::new() };
        Ok((states, rules))
    }

    /// What a request met that was decided, each state in the numbers that asked.
    pub(crate) fn met_as_asked(
        self,
        charges: &[ScriptCharge<'_>],
    ) -> Result<ScriptReply, StoreError> {
        let (now, fits, is_contended) = (self.now, self.verdict == 1, self.verdict == script::HELD);
        let (states, rules) = self.met(charges)?;
        let states: Option<Vec<ScriptState>> = states.into_iter().collect();
        let states =
            states.ok_or_else(|| StoreError::Script("its answer lacks a state".to_owned()))?;
        Ok(ScriptReply { now, fits, states, is_contended, is_scaled: false, rules })
    }
}

impl RedisStore {
    /// Decides charges of different keys, and takes all or none; of rules, what they let pass. What
    /// was just refused is refused again without asking; of rules, their gate sees to that.
    pub(crate) async fn ask(
        &self,
        charges: &[ScriptCharge<'_>],
        how: impl Into<CallOptions<'_>>,
    ) -> Result<ScriptReply, StoreError> {
        let how = how.into();
        let is_known_here = how.rules.is_none() && how.mode == ScriptMode::Take;
        let places = match is_known_here.then(|| self.denials().look(charges)) {
            Some(Ok(met)) => return Ok(met),
            Some(Err(places)) => places,
            None => Vec::new(),
        };
        let asking = pin!(self.ask_until_answered(charges, how));
        let met = self.connection().within(asking).await;
        if how.rules.is_none() && how.mode == ScriptMode::Look {
            // The next check agrees with it.
            charges.iter().for_each(|charge| self.denials().forget(&charge.key));
        }
        if is_known_here && let Ok(met) = &met {
            self.remember(charges, how, &places, met);
        }
        met
    }

    /// Tells the deny cache what came of a take.
    pub(crate) fn remember(
        &self,
        charges: &[ScriptCharge<'_>],
        how: CallOptions<'_>,
        places: &[CacheSlot],
        met: &ScriptReply,
    ) {
        if met.fits {
            self.denials().outdate(places);
        } else if met.may_be_learned() || how.hold.is_some() {
            // A caller's reservation cannot tell what requests on their way hold from what other
            // callers hold for as long as itself.
            self.denials().learn(charges, places, met);
        }
    }

    /// The same; the caller bounds the time.
    pub(crate) async fn ask_until_answered(
        &self,
        charges: &[ScriptCharge<'_>],
        how: CallOptions<'_>,
    ) -> Result<ScriptReply, StoreError> {
        // Converted states, by charge.
        let mut replaced: Vec<Replacement> = Vec::new();
        let mut conversion: Option<Box<Conversion<'_>>> = None;
        let tries = charges.len() + TRIES;
        let mut tried = 0;
        while fetch::may_try(conversion.as_deref(), &mut tried, tries) {
            let reply = self.ask_once(charges, how, &replaced).await?;
            let (now, verdict, number) = (reply.now, reply.verdict, reply.culprit());
            if let 0 | 1 | script::HELD = verdict {
                let (states, rules) = reply.met(charges)?;
                let is_scaled = !replaced.is_empty() || states.iter().any(Option::is_none);
                // What is rare is boxed, so that the others do not carry its size.
                let states = match states.iter().all(Option::is_some) {
                    true => Some(states.into_iter().flatten().collect()),
                    false => Box::pin(self.rescaled(charges, states, now)).await?,
                };
                if let Some(states) = states {
                    if let Some(conversion) = conversion {
                        Box::pin(conversion.release()).await;
                    }
                    self.count_redated(replaced.iter().filter(|one| one.is_redated).count());
                    let (fits, is_contended) = (verdict == 1, verdict == script::HELD);
                    return Ok(ScriptReply { now, fits, states, is_contended, is_scaled, rules });
                }
                continue;
            }
            if verdict == script::FOREIGN {
                let blocks = how.rules.map_or(&[][..], |rules| &rules.blocks);
                let key = number.checked_sub(charges.len()).and_then(|number| blocks.get(number));
                return Err(StoreError::ForeignKey(shown(key.map_or(&[], Vec::as_slice))));
            }
            let Some(culprit) = charges.get(number) else {
                return Err(StoreError::Script("its answer names no charge".to_owned()));
            };
            match verdict {
                script::OTHER if how.leaves_numbers => {
                    return Ok(ScriptReply {
                        is_scaled: true,
                        ..ScriptReply::refused(now, Vec::new())
                    });
                }
                script::OTHER => {
                    let converted = Box::pin(self.convert(culprit, now, &mut conversion));
                    replaced.resize_with(charges.len(), Replacement::default);
                    replaced[number] = converted.await?;
                }
                script::CALENDAR => culprit.limiter.learn_window(now),
                script::DUE => {
                    let due = || vec![b"due".to_vec()];
                    Box::pin(self.change_until_done(culprit.limiter, &culprit.key, due)).await?;
                }
                script::MANY => {
                    return Err(StoreError::InvalidRequest(
                        "the key has 512 open reservations, settle some first".to_owned(),
                    ));
                }
                other => return Err(StoreError::Script(format!("it answered {other}"))),
            }
        }
        Err(StoreError::Script(format!("no answer after {tries} tries")))
    }

    /// Converts the state of a charge, if it is this request's turn. Empty otherwise.
    async fn convert<'s>(
        &'s self,
        charge: &ScriptCharge<'_>,
        now: u64,
        conversion: &mut Option<Box<Conversion<'s>>>,
    ) -> Result<Replacement, StoreError> {
        let conversion = conversion.get_or_insert_with(|| Box::new(Conversion::new(self)));
        let Some(state) = conversion.fetch(&charge.key).await? else {
            return Ok(Replacement::default());
        };
        Ok(rescale::replacement(charge, &state, now)?.unwrap_or_default())
    }

    /// The states, those of other numbers as they would be under the charge's: a look changes
    /// nothing, not even the numbers a state is kept in. `None` if one has changed meanwhile.
    async fn rescaled(
        &self,
        charges: &[ScriptCharge<'_>],
        met: Vec<Option<ScriptState>>,
        now: u64,
    ) -> Result<Option<Vec<ScriptState>>, StoreError> {
        let mut states = Vec::with_capacity(met.len());
        for (charge, state) in charges.iter().zip(met) {
            let state = match state {
                None => rescale::look(self, charge, now).await?,
                met => met,
            };
            let Some(state) = state else { return Ok(None) };
            states.push(state);
        }
        Ok(Some(states))
    }

    /// `replaced` has what the script is to take the states of some charges for.
    async fn ask_once(
        &self,
        charges: &[ScriptCharge<'_>],
        how: CallOptions<'_>,
        replaced: &[Replacement],
    ) -> Result<RawReply, StoreError> {
        let now = self.told_time();
        let mut keys: Vec<&[u8]> = charges.iter().map(|charge| charge.key.as_slice()).collect();
        let what: &[u8] = match (how.rules, how.mode) {
            (Some(_), _) => b"rules",
            (None, ScriptMode::Take) => b"take",
            (None, ScriptMode::Look) => b"look",
        };
        let is_log = charges.iter().any(|charge| charge.limiter.terms.is_log());
        let packed = packed(charges);
        let mut args: Vec<&[u8]> = Vec::with_capacity(8);
        args.extend([now.as_bytes(), what, if is_log { b"log" } else { b"" }, &packed]);
        if let Some(ScriptRules { packed, blocks }) = how.rules {
            keys.extend(blocks.iter().map(Vec::as_slice));
            args.push(packed);
        }
        let replacements = replacements(replaced);
        if how.hold.is_some() || !replacements.is_empty() {
            args.resize(5, b"");
            args.push(&replacements);
        }
        if let Some(ScriptReservation { timeout, tickets }) = how.hold {
            args.push(timeout.as_bytes());
            args.extend(tickets.iter().map(Vec::as_slice));
        }
        RawReply::read(self.connection().run(&keys, &args).await?)
    }
}

/// Charges as the script reads them.
pub(crate) fn packed(charges: &[ScriptCharge<'_>]) -> Vec<u8> {
    let packed = PackedBytes(Vec::with_capacity(PACKED_CHARGE * charges.len()));
    let add = |packed, charge: &ScriptCharge<'_>| charge.limiter.add_charge(charge.cost, packed);
    charges.iter().fold(packed, add).0
}

/// What the states of some charges are to be taken for, each behind the charge's number.
fn replacements(replaced: &[Replacement]) -> Vec<u8> {
    let numbered = (1..=u8::MAX).zip(replaced).filter(|(_, one)| !one.packed.is_empty());
    numbered.flat_map(|(number, one)| [&[number], one.packed.as_slice()].concat()).collect()
}
