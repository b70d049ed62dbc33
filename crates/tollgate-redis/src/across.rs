//! A request whose keys lie in several slots of a Cluster, where no call can decide it as a whole.
//!
//! What each slot has is reserved there, all at once, as one reserves for a caller: with a record
//! that gives the units back by itself. If everything was there it is committed, and only then is the
//! request allowed; if not, it is given back. So nothing is allowed twice over, whoever dies when; what
//! others hold on their way may for a moment be missing.
//!
//! A queue's turns cannot be given back: who came later waits behind them. They are taken last,
//! when everything else is held.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tollgate::Algorithm;
use tollgate::port::ScriptState;

use crate::bounds::{CONTENDED_PAUSE, CONTENDED_TRIES, LEAST_HOLD, MAX_RESERVATION};
use crate::error::StoreError;
use crate::request::{CallOptions, ScriptCharge, ScriptMode, ScriptReply, ScriptReservation};
use crate::rescale;
use crate::reservation::OpenRedisReservation;
use crate::routed::slot;
use crate::store::RedisStore;

/// What a request met, wherever its keys lie.
#[derive(Debug)]
pub(crate) struct SlotReplies {
    /// Whether every charge fits.
    pub(crate) fits: bool,
    /// Whether a refusal may be repeated without asking: see [`ScriptReply::may_be_learned`].
    pub(crate) may_be_learned: bool,
    /// For each charge the time where its key lies, in microseconds since 1970, and the key's state
    /// before anything was taken.
    pub(crate) states: Vec<(u64, ScriptState)>,
}

impl SlotReplies {
    /// What a request without charges met.
    pub(crate) fn nothing() -> SlotReplies {
        SlotReplies { fits: true, may_be_learned: false, states: Vec::new() }
    }

    /// What one call met.
    pub(crate) fn of(met: ScriptReply) -> SlotReplies {
        let may_be_learned = met.may_be_learned();
        let ScriptReply { now, fits, states, .. } = met;
        let states = states.into_iter().map(|state| (now, state)).collect();
        SlotReplies { fits, may_be_learned, states }
    }
}

/// The charges of one slot, and their numbers in the request.
struct SlotGroup<'a> {
    charges: Vec<ScriptCharge<'a>>,
    numbers: Vec<usize>,
}

impl SlotGroup<'_> {
    fn is_queue(&self) -> bool {
        let is_queue = |charge: &ScriptCharge<'_>| {
            charge.limiter.terms.limit.algorithm() == Algorithm::LeakyQueue
        };
        self.charges.iter().any(is_queue)
    }
}

/// For how long a group is reserved, and whether states of other numbers are left as they are.
#[derive(Clone, Copy)]
struct SlotReservation {
    hold: Duration,
    leaves_numbers: bool,
}

/// What the groups of a request met, in their order.
type ScriptReplies = Vec<ScriptReply>;

impl RedisStore {
    /// Decides charges of different keys, wherever they lie, and takes all or none.
    pub(crate) async fn ask_across(
        &self,
        charges: &[ScriptCharge<'_>],
        mode: ScriptMode,
    ) -> Result<SlotReplies, StoreError> {
        if !self.connection().is_cluster() {
            return Ok(SlotReplies::of(self.ask(charges, mode).await?));
        }
        // Boxed, so that the calls of a single server do not carry its size.
        Ok(Box::pin(self.ask_slots(charges, mode, None)).await?.0)
    }

    /// Reserves charges of different keys, wherever they lie: all or none.
    pub(crate) async fn reserve_across(
        &self,
        charges: &[ScriptCharge<'_>],
        timeout: Duration,
    ) -> Result<(SlotReplies, SlotClaims), StoreError> {
        self.ask_slots(charges, ScriptMode::Take, Some(timeout)).await
    }

    async fn ask_slots(
        &self,
        charges: &[ScriptCharge<'_>],
        mode: ScriptMode,
        keep: Option<Duration>,
    ) -> Result<(SlotReplies, SlotClaims), StoreError> {
        let groups = by(charges, |charge| slot(&charge.key));
        match self.ask_groups(charges, &groups, mode, keep).await {
            // While a slot is moved, keys of it that are not all at one place, or not at all there
            // yet, cannot be asked for together; one by one they can.
            Err(StoreError::SlotMigrating(_)) if groups.len() < charges.len() => {
                let mut number = 0;
                let singles = by(charges, |_| {
                    number += 1;
                    number
                });
                self.ask_groups(charges, &singles, mode, keep).await
            }
            answer => answer,
        }
    }

    /// Whether one call of the script can decide charges of these keys.
    pub(crate) fn is_one_place<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        if !self.connection().is_cluster() {
            return true;
        }
        let first = keys.next().map(slot);
        keys.all(|key| Some(slot(key)) == first)
    }

    async fn ask_groups(
        &self,
        charges: &[ScriptCharge<'_>],
        groups: &[SlotGroup<'_>],
        mode: ScriptMode,
        keep: Option<Duration>,
    ) -> Result<(SlotReplies, SlotClaims), StoreError> {
        if let ([group], None) = (groups, keep) {
            let met = self.ask(&group.charges, mode).await?;
            return Ok((together(groups, vec![met]), SlotClaims::default()));
        }
        if mode == ScriptMode::Look {
            let mut looks = Vec::with_capacity(groups.len());
            for group in groups {
                looks.push(Box::pin(self.ask(&group.charges, mode)));
            }
            return Ok((together(groups, try_join_all(looks).await?), SlotClaims::default()));
        }
        let places = match self.denials().look_across(charges) {
            Ok(refused) => return Ok((refused, SlotClaims::default())),
            Err(places) => places,
        };
        let (patience, start) = (self.connection().timeout(), Instant::now());
        let mut taking = Box::pin(self.take_groups(groups, keep));
        let (met, held) = self.connection().within(taking.as_mut()).await?;
        let across = together(groups, met);
        if across.fits {
            self.denials().outdate(&places);
            return Ok((across, held));
        } else if across.may_be_learned {
            self.denials().learn_across(charges, &places, &across);
        }
        if let Some(back) = held.give_back() {
            // Waited for so that the caller's next request finds the units; should it take too
            // long, the denial stands all the same.
            let _ = timeout(patience.saturating_sub(start.elapsed()), back).await;
        }
        Ok((across, SlotClaims::default()))
    }

    /// Takes what all groups ask for or nothing, trying again while others are on their way.
    /// What is still held is to be given back, or was to be kept for so long.
    async fn take_groups(
        &self,
        groups: &[SlotGroup<'_>],
        keep: Option<Duration>,
    ) -> Result<(ScriptReplies, SlotClaims), StoreError> {
        let mut pause = CONTENDED_PAUSE;
        for _ in 1..CONTENDED_TRIES {
            let (met, held) = self.try_groups(groups, keep).await?;
            if !may_fit_soon(&met) {
                return Ok((met, held));
            }
            if let Some(back) = held.give_back() {
                let _ = back.await;
            }
            // Not all at the same time again.
            let random = getrandom::u32().unwrap_or(0) % 1024;
            sleep(pause / 2 + pause * random / 1024).await;
            pause *= 2;
        }
        self.try_groups(groups, keep).await
    }

    /// Reserves the groups once; what is denied goes on under the numbers that ask.
    async fn try_groups(
        &self,
        groups: &[SlotGroup<'_>],
        keep: Option<Duration>,
    ) -> Result<(ScriptReplies, SlotClaims), StoreError> {
        let (met, held) = self.try_groups_once(groups, keep).await?;
        if !met.iter().all(|met| met.fits) {
            for (group, met) in groups.iter().zip(&met).filter(|(_, met)| met.is_scaled) {
                Box::pin(rescale::rescale_denied(self, &group.charges, met.now)).await?;
            }
        }
        Ok((met, held))
    }

    /// A state that is reserved under other numbers than it was made with goes on under them, at
    /// their pace, also when it is given back. So whether all have room is then looked at first.
    async fn try_groups_once(
        &self,
        groups: &[SlotGroup<'_>],
        keep: Option<Duration>,
    ) -> Result<(ScriptReplies, SlotClaims), StoreError> {
        let (met, held) = self.reserve_groups(groups, keep, true).await?;
        if !met.iter().any(|met| met.is_scaled && met.states.is_empty()) {
            return Ok((met, held));
        }
        if let Some(back) = held.give_back() {
            let _ = back.await;
        }
        let met = try_join_all(groups.iter().map(|group| self.look_at(group))).await?;
        if !met.iter().all(|met| met.fits) {
            return Ok((met, SlotClaims::default()));
        }
        self.reserve_groups(groups, keep, false).await
    }

    async fn reserve_groups(
        &self,
        groups: &[SlotGroup<'_>],
        keep: Option<Duration>,
        leaves_numbers: bool,
    ) -> Result<(ScriptReplies, SlotClaims), StoreError> {
        let least = self.connection().timeout().saturating_mul(2).max(LEAST_HOLD);
        let hold = keep.unwrap_or(least).min(MAX_RESERVATION);
        let how = SlotReservation { hold, leaves_numbers };
        let mut held = SlotClaims(Vec::new());
        let mut asking = Vec::with_capacity(groups.len());
        for group in groups {
            let claims = if group.is_queue() { Vec::new() } else { self.claims(group) };
            held.0.extend(claims.iter().cloned());
            asking.push(self.reserve_group(group, claims, how));
        }
        let mut met = try_join_all(asking).await?;
        held.keep(groups, &met);
        if !met.iter().all(|met| met.fits) {
            return Ok((met, held));
        }
        for (group, met) in groups.iter().zip(&mut met) {
            if !group.is_queue() {
                continue;
            }
            let claims = if keep.is_some() { self.claims(group) } else { Vec::new() };
            let before = held.0.len();
            held.0.extend(claims.iter().cloned());
            let kept = (!claims.is_empty()).then(|| ScriptReservation::of(&claims, hold));
            let how = CallOptions { hold: kept.as_ref(), ..ScriptMode::Take.into() };
            *met = self.ask_until_answered(&group.charges, how).await?;
            if !met.fits {
                held.0.truncate(before);
                break;
            }
        }
        if keep.is_none() && met.iter().all(|met| met.fits) {
            held.commit().await?;
        }
        Ok((met, held))
    }

    fn claims(&self, group: &SlotGroup<'_>) -> Vec<OpenRedisReservation> {
        group.charges.iter().map(|charge| OpenRedisReservation::new(self, charge)).collect()
    }

    /// Reserves a group's units; of queues it only says whether they are there.
    async fn reserve_group(
        &self,
        group: &SlotGroup<'_>,
        claims: Vec<OpenRedisReservation>,
        how: SlotReservation,
    ) -> Result<ScriptReply, StoreError> {
        if claims.is_empty() {
            return self.look_at(group).await;
        }
        let hold = ScriptReservation::of(&claims, how.hold);
        let leaves_numbers = how.leaves_numbers;
        let how = CallOptions { hold: Some(&hold), leaves_numbers, ..ScriptMode::Take.into() };
        Box::pin(self.ask_until_answered(&group.charges, how)).await
    }

    /// Whether a group's units are there, taking nothing.
    async fn look_at(&self, group: &SlotGroup<'_>) -> Result<ScriptReply, StoreError> {
        let asked = Box::pin(self.ask_until_answered(&group.charges, ScriptMode::Look.into()));
        let mut met = asked.await?;
        met.fits = group.charges.iter().zip(&met.states).all(|(charge, state)| {
            charge.limiter.terms.ported.peek(state, met.now, charge.cost).is_allowed()
        });
        Ok(met)
    }
}

/// What is reserved, or may be: given back when it is dropped, whoever gives up when.
#[derive(Default)]
pub(crate) struct SlotClaims(Vec<OpenRedisReservation>);

impl SlotClaims {
    /// What is now somebody else's to end.
    pub(crate) fn into_claims(mut self) -> Vec<OpenRedisReservation> {
        std::mem::take(&mut self.0)
    }

    /// Keeps only what was reserved: a group that did not fit has taken nothing.
    fn keep(&mut self, groups: &[SlotGroup<'_>], met: &[ScriptReply]) {
        let mut claims = std::mem::take(&mut self.0).into_iter();
        for (group, met) in groups.iter().zip(met).filter(|(group, _)| !group.is_queue()) {
            let own = claims.by_ref().take(group.charges.len());
            if met.fits {
                self.0.extend(own);
            } else {
                own.for_each(drop);
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let commits: Vec<_> = self.0.iter().map(OpenRedisReservation::commit_part).collect();
        try_join_all(commits).await?;
        self.0.clear();
        Ok(())
    }

    /// Gives everything back, whether or not that is waited for; `None` where nothing is held.
    fn give_back(mut self) -> Option<JoinHandle<()>> {
        let claims = std::mem::take(&mut self.0);
        spawn(claims, |claim| async move { claim.cancel_part().await })
    }
}

impl Drop for SlotClaims {
    fn drop(&mut self) {
        let claims = std::mem::take(&mut self.0);
        // Some may have been committed: the deny cache forgets.
        drop(spawn(claims, |claim| async move { claim.cancel().await }));
    }
}

/// Ends claims in the background; `None` where there are none.
fn spawn<F>(
    claims: Vec<OpenRedisReservation>,
    end: impl Fn(OpenRedisReservation) -> F,
) -> Option<JoinHandle<()>>
where
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    if claims.is_empty() {
        return None;
    }
    // Should one fail, its units come back when the reservation times out.
    let ends: Vec<F> = claims.into_iter().map(end).collect();
    Some(runtime.spawn(async move {
        join_all(ends).await;
    }))
}

/// Whether whatever does not fit is held by others who are on their way.
fn may_fit_soon(met: &[ScriptReply]) -> bool {
    let is_denied = |met: &&ScriptReply| !met.fits;
    met.iter().any(|met| !met.fits) && met.iter().filter(is_denied).all(|met| met.is_contended)
}

/// The charges in groups, by what `place` says of each.
fn by<'a>(
    charges: &[ScriptCharge<'a>],
    mut place: impl FnMut(&ScriptCharge<'a>) -> usize,
) -> Vec<SlotGroup<'a>> {
    let mut groups: BTreeMap<usize, SlotGroup<'a>> = BTreeMap::new();
    for (number, charge) in charges.iter().enumerate() {
        let empty = || SlotGroup { charges: Vec::new(), numbers: Vec::new() };
        let group = groups.entry(place(charge)).or_insert_with(empty);
        group.charges.push(charge.clone());
        group.numbers.push(number);
    }
    groups.into_values().collect()
}

/// What the groups met, in the order of the request.
fn together(groups: &[SlotGroup<'_>], met: ScriptReplies) -> SlotReplies {
    let fits = met.iter().all(|met| met.fits);
    let may_be_learned = met.iter().all(ScriptReply::may_be_learned);
    let mut states: Vec<(usize, (u64, ScriptState))> = Vec::new();
    for (group, met) in groups.iter().zip(met) {
        let own = met.states.into_iter().map(|state| (met.now, state));
        states.extend(group.numbers.iter().copied().zip(own));
    }
    states.sort_by_key(|(number, _)| *number);
    let states = states.into_iter().map(|(_, state)| state).collect();
    SlotReplies { fits, may_be_learned, states }
}
