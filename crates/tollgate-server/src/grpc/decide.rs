//! Deciding the descriptors of a request: all of them are charged, or none.
//!
//! One descriptor is one decision. Of several, each is reserved in turn; if any refuses, what the
//! others hold is given back. So it may for a moment refuse what would have fit, and never lets
//! too much through.

use smallvec::SmallVec;
use tollgate::{Decision, Limit, Outcome, Ruling};

use super::answer;
use super::ask::{self, Act, Ask, Asks, Numbers, Sent, SentKey, Wrong};
use super::sent::SentHold;
use super::{RateLimitRequest, RateLimitResponse};
use crate::app::App;
use crate::backend::{Backend, Held};
use crate::bounds::DESCRIPTORS_HELD;
use crate::client_limits::ClientLimiter;
use crate::metrics::Transport;

/// What becomes of a descriptor.
#[allow(clippy::large_enum_variant, reason = "nearly all are the large one, and none is boxed")]
pub(super) enum Verdict {
    /// By the policy.
    Ruled(Ruling),
    /// By a limit that the client has sent.
    Sent(Limit, Decision),
    /// The limit that the client has sent lets nothing pass.
    Nothing(Numbers),
}

/// What has become of a descriptor so far.
enum Standing {
    Held(Holding),
    /// Refused in earnest, and whether that was without the store.
    Refused(Verdict, bool),
    /// Only looked at, or given back to.
    Seen(Verdict),
}

#[allow(clippy::large_enum_variant, reason = "as of verdicts")]
enum Holding {
    Ruled(Held),
    Sent(Limit, SentHold),
}

impl Verdict {
    pub(super) fn is_allowed(&self) -> bool {
        match self {
            Verdict::Ruled(ruling) => ruling.is_allowed(),
            Verdict::Sent(_, decision) => decision.is_allowed(),
            Verdict::Nothing(_) => false,
        }
    }
}

impl App {
    /// The answer to a request of Envoy's, however it came.
    ///
    /// # Errors
    /// What is wrong with it. Then nothing was charged.
    pub(crate) async fn rate_limit(
        &self,
        transport: Transport,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Wrong> {
        let mut asks = ask::read(request, &self.settings.bounds)?;
        if asks.iter().any(|ask| ask.sent.is_some()) && !self.names_domain(&request.domain) {
            asks.iter_mut().for_each(|ask| ask.sent = None);
        }
        if let Some(answer) = self.rate_limit_now(transport, &asks) {
            return Ok(answer);
        }
        // In a box of its own: it takes up ten kilobytes, and calls that need none of it would leave
        // them behind in the heap, where the next connection's buffers come to lie.
        Box::pin(self.rate_limit_asked(transport, asks)).await
    }

    /// Whether the policy names `domain`. A policy without rules is for all domains, unless it is
    /// made of files, each of which would name one.
    fn names_domain(&self, domain: &str) -> bool {
        let policy = self.backend.policy();
        let is_without_files = self.operators.envoy_folder().is_some()
            && policy.rules.is_empty()
            && policy.deny.is_empty();
        !is_without_files && self.active_domains.contain(&policy, domain)
    }

    /// The answer where nothing has to be waited for, as nearly always: one descriptor that the
    /// policy counts in memory. `None`, and nothing is charged, where it is anything else.
    fn rate_limit_now(&self, transport: Transport, asks: &[Ask<'_>]) -> Option<RateLimitResponse> {
        let [ask] = asks else { return None };
        let Act::Take(units) = ask.act else { return None };
        if ask.sent.is_some() || self.is_postpaid(ask) {
            return None;
        }
        let request = ask.descriptor.request().cost(units);
        let ruling = self.backend.check_now(&request)?;
        self.decided(transport, &request, &ruling);
        Some(answer::response(self, transport, asks, &[Verdict::Ruled(ruling)]))
    }

    async fn rate_limit_asked(
        &self,
        transport: Transport,
        asks: Asks<'_>,
    ) -> Result<RateLimitResponse, Wrong> {
        // Before anything is charged.
        let limiters: SmallVec<[Option<ClientLimiter>; 2]> =
            asks.iter().map(|ask| self.sent_limiter(ask)).collect::<Result<_, _>>()?;
        let asked = asks.iter().zip(&limiters);
        if asks.len() == 1 {
            let mut verdicts = SmallVec::<[Verdict; 1]>::new();
            for (ask, limiter) in asked {
                verdicts.push(self.decide_alone(transport, ask, limiter.as_ref()).await);
            }
            return Ok(answer::response(self, transport, &asks, &verdicts));
        }
        let mut standings = Vec::with_capacity(asks.len());
        let mut refused = false;
        for (ask, limiter) in asked.clone() {
            let standing = self.stand(ask, limiter.as_ref(), refused).await;
            refused |= standing.is_refused();
            standings.push(standing);
        }
        let mut verdicts = Vec::with_capacity(standings.len());
        for (standing, (ask, limiter)) in standings.into_iter().zip(asked) {
            verdicts.push(match standing {
                Standing::Held(holding) if refused && !self.is_postpaid(ask) => {
                    holding.cancel().await;
                    self.look(ask, limiter.as_ref()).await
                }
                standing => {
                    if refused && !matches!(standing, Standing::Held(_)) {
                        self.owe(ask).await;
                    }
                    self.conclude(transport, ask, standing).await
                }
            });
        }
        Ok(answer::response(self, transport, &asks, &verdicts))
    }

    fn sent_limiter(&self, ask: &Ask<'_>) -> Result<Option<ClientLimiter>, Wrong> {
        ask.sent.map_or(Ok(None), |sent| sent.numbers.limiter(&self.limits))
    }

    async fn decide_alone(
        &self,
        transport: Transport,
        ask: &Ask<'_>,
        limiter: Option<&ClientLimiter>,
    ) -> Verdict {
        let Act::Take(units) = ask.act else {
            return self.look_or_give_back(ask, limiter).await;
        };
        match (ask.sent, limiter) {
            (Some(Sent { key, .. }), Some(limiter)) => {
                let (decision, degraded) = limiter.take(key, units).await;
                self.decided_sent((transport, degraded), (key, units), &decision);
                Verdict::Sent(limiter.limit().clone(), decision)
            }
            (Some(Sent { numbers, .. }), None) => {
                self.metrics.client_limits(transport).decided(Outcome::Denied, false);
                Verdict::Nothing(numbers)
            }
            (None, _) => {
                let request = ask.descriptor.request().cost(units);
                let ruling = self.backend.check(&request).await;
                self.decided(transport, &request, &ruling);
                if !ruling.is_allowed() {
                    self.owe(ask).await;
                }
                Verdict::Ruled(ruling)
            }
        }
    }

    /// Holds what a descriptor asks for, unless another has `refused` already.
    async fn stand(
        &self,
        ask: &Ask<'_>,
        limiter: Option<&ClientLimiter>,
        refused: bool,
    ) -> Standing {
        let units = match ask.act {
            Act::Take(units) if !refused => units,
            _ => return Standing::Seen(self.look_or_give_back(ask, limiter).await),
        };
        match (ask.sent, limiter) {
            (Some(Sent { key, .. }), Some(limiter)) => {
                let limit = limiter.limit().clone();
                match limiter.hold(key, units).await {
                    Ok(hold) => Standing::Held(Holding::Sent(limit, hold)),
                    Err((decision, degraded)) => {
                        Standing::Refused(Verdict::Sent(limit, decision), degraded)
                    }
                }
            }
            (Some(Sent { numbers, .. }), None) => {
                Standing::Refused(Verdict::Nothing(numbers), false)
            }
            (None, _) => {
                let request = ask.descriptor.request().cost(units);
                match self.backend.reserve(&request, DESCRIPTORS_HELD).await {
                    Ok(held) => Standing::Held(Holding::Ruled(held)),
                    Err(ruling) => Standing::Refused(Verdict::Ruled(ruling), false),
                }
            }
        }
    }

    /// Whether a descriptor is charged whatever becomes of the request.
    fn is_postpaid(&self, ask: &Ask<'_>) -> bool {
        let takes = matches!(ask.act, Act::Take(_));
        self.settings.postpaid && takes && ask.says_hits && ask.sent.is_none()
    }

    /// Charges what was refused, into debt, where the operator has it so. Who is in debt already
    /// owes no more: without a unit left nothing was let pass.
    async fn owe(&self, ask: &Ask<'_>) {
        let Act::Take(units) = ask.act else { return };
        if !self.is_postpaid(ask) {
            return;
        }
        let one = ask.descriptor.request().cost(1);
        if let Ok(held) = self.backend.reserve(&one, DESCRIPTORS_HELD).await {
            // Where the store has no answer the units come back by themselves.
            let _ = held.settle(units).await;
        }
    }

    /// Keeps what is held, and counts what was decided.
    async fn conclude(&self, transport: Transport, ask: &Ask<'_>, standing: Standing) -> Verdict {
        let (verdict, degraded) = match standing {
            Standing::Seen(verdict) => return verdict,
            Standing::Refused(verdict, degraded) => (verdict, degraded),
            Standing::Held(holding) => {
                let degraded = holding.is_degraded(&self.backend);
                (holding.commit().await, degraded)
            }
        };
        let Act::Take(units) = ask.act else { return verdict };
        match (&verdict, ask.sent) {
            (Verdict::Ruled(ruling), _) => {
                self.decided(transport, &ask.descriptor.request().cost(units), ruling);
            }
            (Verdict::Sent(_, decision), Some(Sent { key, .. })) => {
                self.decided_sent((transport, degraded), (key, units), decision);
            }
            _ => self.metrics.client_limits(transport).decided(Outcome::Denied, false),
        }
        verdict
    }

    /// Counts a decision by a limit that the client has sent, and remembers whom it was about.
    fn decided_sent(
        &self,
        (transport, degraded): (Transport, bool),
        (key, units): (SentKey<'_>, u64),
        decision: &Decision,
    ) {
        self.metrics.client_limits(transport).decided(decision.outcome(), degraded);
        self.watch_own((transport, units), decision, |seen| seen(&key.shown()));
    }

    async fn look_or_give_back(&self, ask: &Ask<'_>, limiter: Option<&ClientLimiter>) -> Verdict {
        if let Act::GiveBack(units) = ask.act {
            match (ask.sent, limiter) {
                (Some(Sent { key, .. }), Some(limiter)) => limiter.give_back(key, units).await,
                (Some(_), None) => {}
                (None, _) => {
                    let request = ask.descriptor.request().cost(units);
                    // Where the store has no answer nothing was given back, and nobody can be told.
                    let _ = self.backend.refund(&request).await;
                }
            }
        }
        self.look(ask, limiter).await
    }

    /// How a descriptor stands: what its own charge would meet, or one unit where it has none.
    async fn look(&self, ask: &Ask<'_>, limiter: Option<&ClientLimiter>) -> Verdict {
        let units = match ask.act {
            Act::Take(units) => units,
            Act::Look | Act::GiveBack(_) => 1,
        };
        match (ask.sent, limiter) {
            (Some(Sent { key, .. }), Some(limiter)) => {
                let decision = limiter.look(key, units).await;
                Verdict::Sent(limiter.limit().clone(), decision)
            }
            (Some(Sent { numbers, .. }), None) => Verdict::Nothing(numbers),
            (None, _) => {
                let request = ask.descriptor.request().cost(units);
                Verdict::Ruled(self.backend.peek(&request).await)
            }
        }
    }
}

impl Standing {
    fn is_refused(&self) -> bool {
        match self {
            Standing::Held(_) => false,
            Standing::Refused(..) => true,
            Standing::Seen(verdict) => !verdict.is_allowed(),
        }
    }
}

impl Holding {
    /// Whether the units are of this node alone, since the store is away. A ruling says so itself.
    fn is_degraded(&self, backend: &Backend) -> bool {
        let elsewhere = matches!(backend, Backend::Redis(_));
        elsewhere && matches!(self, Holding::Sent(_, SentHold::Memory(_)))
    }

    async fn commit(self) -> Verdict {
        match self {
            Holding::Ruled(held) => {
                let ruling = held.ruling().clone();
                // Where the store has no answer the units come back by themselves.
                let _ = held.commit().await;
                Verdict::Ruled(ruling)
            }
            Holding::Sent(limit, hold) => Verdict::Sent(limit, hold.commit().await),
        }
    }

    async fn cancel(self) {
        match self {
            Holding::Ruled(held) => drop(held.cancel().await),
            Holding::Sent(_, hold) => hold.cancel().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Gate, Policy};

    use super::*;
    use crate::app::Settings;

    #[test]
    fn a_call_that_need_not_wait_takes_up_no_room_for_one_that_must() {
        let gate = Gate::new(Policy::new()).unwrap();
        let app = App::new(gate.into(), Settings::default());
        let request = RateLimitRequest::default();
        let call = size_of_val(&app.rate_limit(Transport::Grpc, &request));
        assert!(call < 1024, "{call} bytes for every call");
    }
}
