//! A call of the script for several requests.
//!
//! The script decides them in order. What it cannot decide at once is asked for alone, as a single
//! request is; those behind it on the same keys were put off, and go into another call after it.

use std::pin::pin;

use futures_util::future::join_all;
use redis::Value;

use super::NumberedReply;
use crate::across::SlotReplies;
use crate::bounds::TRIES;
use crate::charge::ChargeRequest;
use crate::denied::CacheSlot;
use crate::error::StoreError;
use crate::request::{RawReply, ScriptMode, ScriptReply, packed};
use crate::script;
use crate::store::RedisStore;

/// A byte of the call says how many charges a request has, and with this that they are looked at.
const LOOK: u8 = 128;

/// A request on its way with others.
pub(super) struct SentBatch<'r, 'a> {
    pub(super) number: usize,
    pub(super) request: &'r ChargeRequest<'a>,
    places: Vec<CacheSlot>,
    /// What it met, once it is decided.
    met: Option<Result<ScriptReply, StoreError>>,
}

impl<'r, 'a> SentBatch<'r, 'a> {
    pub(super) fn new(
        number: usize,
        request: &'r ChargeRequest<'a>,
        places: Vec<CacheSlot>,
    ) -> Self {
        SentBatch { number, request, places, met: None }
    }

    /// Keeps what it met, and tells the deny cache.
    fn settle(&mut self, store: &RedisStore, met: Result<ScriptReply, StoreError>) {
        let ChargeRequest { charges, mode } = self.request;
        match (&met, mode) {
            (Ok(met), ScriptMode::Take) => {
                store.remember(charges, ScriptMode::Take.into(), &self.places, met)
            }
            (Err(_), ScriptMode::Take) => {}
            // The next check agrees with it.
            (_, ScriptMode::Look) => {
                charges.iter().for_each(|charge| store.denials().forget(&charge.key));
            }
        }
        self.met = Some(met);
    }

    /// Takes the script's answer to it; whether it must be asked for alone. One that was put off
    /// stays open.
    fn hear(&mut self, store: &RedisStore, reply: Value) -> bool {
        if reply == Value::Nil {
            return false;
        }
        let charges = &self.request.charges;
        let reply = match RawReply::read(reply) {
            Ok(reply) => reply,
            Err(broken) => {
                self.settle(store, Err(broken));
                return false;
            }
        };
        match (reply.verdict, charges.get(reply.culprit())) {
            (0 | 1 | script::HELD, _) => self.settle(store, reply.met_as_asked(charges)),
            // With the right window it can be decided with the others.
            (script::CALENDAR, Some(culprit)) => culprit.limiter.learn_window(reply.now),
            _ => return true,
        }
        false
    }
}

impl RedisStore {
    /// Decides requests of one lane in one call, or as few as it takes.
    pub(super) async fn decide_together(
        &self,
        mut sent: Vec<SentBatch<'_, '_>>,
    ) -> Vec<NumberedReply> {
        let done = self.connection().within(pin!(self.call_until_decided(&mut sent))).await;
        let mut answers = Vec::with_capacity(sent.len());
        for sent in sent {
            let SentBatch { number, request, met, .. } = sent;
            let undecided =
                || done.clone().and(Err(StoreError::Script("it left one out".to_owned())));
            let answer = match met.unwrap_or_else(undecided) {
                Ok(met) => request.decisions(&SlotReplies::of(met)),
                // While a slot is moved, its keys cannot be asked for together.
                Err(StoreError::SlotMigrating(_)) => self.decide(request).await,
                Err(error) => Err(error),
            };
            answers.push((number, answer));
        }
        answers
    }

    /// The caller bounds the time.
    async fn call_until_decided(&self, sent: &mut [SentBatch<'_, '_>]) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            let mut open: Vec<_> = sent.iter_mut().filter(|sent| sent.met.is_none()).collect();
            if open.is_empty() {
                return Ok(());
            }
            // Some are decided each time, but where a calendar's window has ended just now.
            let before = open.len();
            let replies = self.call_once(&open).await?;
            if replies.len() != open.len() {
                return Err(StoreError::Script("it did not answer each request".to_owned()));
            }
            let mut alone = Vec::new();
            for (sent, reply) in open.drain(..).zip(replies) {
                if sent.hear(self, reply) {
                    alone.push(sent);
                }
            }
            // They have no key in common.
            let alone = alone.into_iter().map(|sent| async move {
                let ChargeRequest { charges, mode } = sent.request;
                let met = self.ask_until_answered(charges, (*mode).into()).await;
                sent.settle(self, met);
            });
            join_all(alone).await;
            let after = sent.iter().filter(|sent| sent.met.is_none()).count();
            tries = if after < before { 0 } else { tries + 1 };
            if tries == TRIES {
                return Err(StoreError::Script(format!("no answer after {TRIES} tries")));
            }
        }
    }

    /// The script's answer to each.
    async fn call_once(&self, sent: &[&mut SentBatch<'_, '_>]) -> Result<Vec<Value>, StoreError> {
        let charges = || sent.iter().flat_map(|sent| &sent.request.charges);
        let sizes: Vec<u8> = sent.iter().map(|sent| size(sent.request)).collect();
        let packed: Vec<Vec<u8>> = sent.iter().map(|sent| packed(&sent.request.charges)).collect();
        let keys: Vec<&[u8]> = charges().map(|charge| charge.key.as_slice()).collect();
        let is_log = charges().any(|charge| charge.limiter.terms.is_log());
        let now = self.told_time();
        let mut args: Vec<&[u8]> = Vec::with_capacity(3 + packed.len());
        args.extend([now.as_bytes(), &sizes, if is_log { b"log" } else { b"" }]);
        args.extend(packed.iter().map(Vec::as_slice));
        match self.connection().run_text(&script::BATCH, &keys, &args).await? {
            Value::Array(replies) => Ok(replies),
            _ => Err(StoreError::Script("its answer is not a list".to_owned())),
        }
    }
}

fn size(request: &ChargeRequest<'_>) -> u8 {
    let count = u8::try_from(request.charges.len()).unwrap_or(LOOK - 1);
    if request.mode == ScriptMode::Look { count | LOOK } else { count }
}
