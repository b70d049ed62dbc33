//! Many requests at once, in few calls of the script.

mod call;

use std::collections::{BTreeMap, HashSet};
use std::iter::Peekable;

use futures_util::future::join_all;

use self::call::SentBatch;
use crate::across::SlotReplies;
use crate::bounds::{BATCH, BATCH_CALL};
use crate::charge::{ChargeRequest, RedisCharge, RedisDecisions};
use crate::error::StoreError;
use crate::request::{ScriptCharge, ScriptMode};
use crate::routed::slot;
use crate::store::RedisStore;

/// A request, and its number in the batch.
type NumberedRequest<'r, 'a> = (usize, &'r ChargeRequest<'a>);

/// What comes of a request, and its number in the batch.
type NumberedReply = (usize, Result<RedisDecisions, StoreError>);

impl RedisStore {
    /// Decides many requests, each as [`check_all`](Self::check_all) does: all its charges or none.
    /// It is as if they were sent one after the other, but that one call of the script decides many
    /// of them at one instant: as many as have 64 charges together, so that no call holds up the
    /// server's other clients for longer than a single request may.
    ///
    /// A script's keys must lie in one slot of a Cluster. There the requests of each slot share a call,
    /// and the slots' calls are pipelined, up to a thousand requests at a time. Those of one slot are
    /// decided in order; requests over several slots are decided after the others of their thousand, one
    /// by one, so that they do not stand in each other's way.
    ///
    /// Answers come in the order of the requests. Each has its own answer or error; those of one call
    /// have its time-out in common.
    ///
    /// ```no_run
    /// # async fn example(store: tollgate_redis::RedisStore) -> Result<(), tollgate_redis::StoreError> {
    /// let per_user = store.limiter("per user", tollgate::Limit::per_minute(100))?;
    /// let requests: Vec<_> = (0..500).map(|user| [per_user.charge(user)]).collect();
    /// for answer in store.check_many(&requests).await {
    ///     println!("{}", answer?.is_allowed());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_many<'a>(
        &self,
        requests: &[impl AsRef<[RedisCharge<'a>]>],
    ) -> Vec<Result<RedisDecisions, StoreError>> {
        let mut answers = Vec::with_capacity(requests.len());
        for some in requests.chunks(BATCH) {
            let some = some.iter().map(|charges| ChargeRequest::new(charges.as_ref())).collect();
            answers.extend(self.check_some(some).await);
        }
        answers
    }

    async fn check_some(
        &self,
        requests: Vec<Result<ChargeRequest<'_>, StoreError>>,
    ) -> Vec<Result<RedisDecisions, StoreError>> {
        let mut answers: Vec<NumberedReply> = Vec::with_capacity(requests.len());
        let mut lanes: BTreeMap<usize, Vec<NumberedRequest<'_, '_>>> = BTreeMap::new();
        let mut over_several = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            match request {
                Err(wrong) => answers.push((number, Err(wrong.clone()))),
                Ok(request) => match self.lane(request) {
                    Some(lane) => lanes.entry(lane).or_default().push((number, request)),
                    None => over_several.push((number, request)),
                },
            }
        }
        let lanes = lanes.into_values().map(|lane| self.decide_lane(lane));
        answers.extend(join_all(lanes).await.into_iter().flatten());
        for (number, request) in over_several {
            answers.push((number, self.decide(request).await));
        }
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Requests of one lane can share a call: on a single server there is one, in a Cluster one for
    /// each slot, and none for a request over several.
    fn lane(&self, request: &ChargeRequest<'_>) -> Option<usize> {
        let mut keys = request.charges.iter().map(|charge| charge.key.as_slice());
        if !self.connection().is_cluster() {
            return Some(0);
        }
        self.is_one_place(keys.clone()).then(|| keys.next().map_or(0, slot))
    }

    /// Decides the requests of a lane, call by call: a later one may find what an earlier one left.
    async fn decide_lane(&self, requests: Vec<NumberedRequest<'_, '_>>) -> Vec<NumberedReply> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let call = self.next_call(&mut requests, &mut answers);
            match &call[..] {
                [] => {}
                // The plain way, which knows more ways out in a Cluster.
                [alone] => answers.push((alone.number, self.decide(alone.request).await)),
                _ => answers.extend(self.decide_together(call).await),
            }
        }
        answers
    }

    /// The requests that go into the next call. Those before its last one that need none are answered.
    fn next_call<'r, 'a>(
        &self,
        requests: &mut Peekable<impl Iterator<Item = NumberedRequest<'r, 'a>>>,
        answers: &mut Vec<NumberedReply>,
    ) -> Vec<SentBatch<'r, 'a>> {
        let mut call = Vec::new();
        let (mut left, mut keys) = (BATCH_CALL, HashSet::new());
        let has_room = |left: usize, request: &ChargeRequest<'_>| request.charges.len() <= left;
        while let Some((number, request)) = requests.next_if(|(_, next)| has_room(left, next)) {
            let charges = &request.charges;
            if charges.is_empty() {
                answers.push((number, request.decisions(&SlotReplies::nothing())));
                continue;
            }
            // What is known of a key is not what it will be after those before it.
            let is_first = !charges.iter().any(|charge| keys.contains(charge.key.as_slice()));
            let places = if is_first && request.mode == ScriptMode::Take {
                match self.denials().look(charges) {
                    Ok(refused) => {
                        answers.push((number, request.decisions(&SlotReplies::of(refused))));
                        continue;
                    }
                    Err(places) => places,
                }
            } else {
                self.denials().known(charges).1
            };
            left -= charges.len();
            keys.extend(charges.iter().map(|charge: &'r ScriptCharge<'a>| charge.key.as_slice()));
            call.push(SentBatch::new(number, request, places));
        }
        call
    }
}
