//! Each line through a gate, in the log's time.

use tollgate::{Gate, ManualClock, MemoryStore, Policy, Reason, Request, Ruling, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::against::Against;
use super::clients::{Refusal, Refusals};
use super::fields::{Attribute, Wanted};
use super::ladder::{Ladders, Offer};
use super::merge::{Batch, Logs, Taken};
use super::report::OrderReport;
use super::tally::Tally;
use super::{Failure, Settings};

/// Decides lines, and counts what comes of it.
pub(super) struct Decider<'w> {
    wanted: &'w Wanted,
    clock: ManualClock,
    pub(super) gate: Gate,
    /// The latest time of a line so far, in microseconds.
    now: u64,
    /// What the clock shows.
    shown: u64,
    pub(super) order: OrderReport,
    /// Of each attribute, how many lines have it.
    pub(super) present: Vec<u64>,
    pub(super) tally: Tally,
    pub(super) refusals: Refusals,
    pub(super) ladders: Option<Ladders>,
    pub(super) against: Option<(Gate, Against)>,
    /// Where keys are written down.
    key: Vec<u8>,
}

impl<'w> Decider<'w> {
    pub(super) fn new(
        wanted: &'w Wanted,
        policy: &Policy,
        against: Option<&Policy>,
        settings: &Settings,
    ) -> Result<Decider<'w>, Failure> {
        let clock = ManualClock::at(Timestamp::from_nanos(0));
        let gate = |policy: &Policy| {
            let store = MemoryStore::builder().clock(clock.clone()).max_keys(settings.max_keys);
            let store = store.discard_key_names().build();
            let store = store.map_err(|error| Failure::Mistake(error.to_string()))?;
            Gate::with_store(store, policy.clone())
                .map_err(|error| Failure::Mistake(error.to_string()))
        };
        let against = match against {
            Some(old) => Some((gate(old)?, Against::new(old, policy))),
            None => None,
        };
        Ok(Decider {
            wanted,
            gate: gate(policy)?,
            clock,
            now: 0,
            shown: 0,
            order: OrderReport::default(),
            present: vec![0; wanted.attributes.len()],
            tally: Tally::new(policy),
            refusals: Refusals::default(),
            ladders: settings.suggest.then(|| Ladders::new(limits(policy))),
            against,
            key: Vec::new(),
        })
    }

    /// Decides lines, in their order.
    ///
    /// All are looked at before the first is decided: what the gate knows of their keys is then
    /// brought near while others are, and waiting for it is most of what a decision takes.
    pub(super) fn decide(&mut self, logs: &Logs<'_, '_>, batch: &Batch) {
        let all: Vec<Seen<'_>> = batch.iter().map(|taken| self.see(logs.line(*taken))).collect();
        all.iter().for_each(|seen| self.decide_one(seen));
    }

    #[inline]
    fn see<'r>(&mut self, line: Taken<'r>) -> Seen<'r>
    where
        'w: 'r,
    {
        let now = self.time_of(line.entry.time);
        // Overrides end by the clock.
        self.show(now);
        let request = self.request(&line);
        let tier = self.look(&request);
        Seen { line, request, now, tier }
    }

    #[inline]
    fn decide_one(&mut self, seen: &Seen<'_>) {
        let Seen { line, request, now, tier } = seen;
        self.show(*now);
        let ruling = self.gate.check(request);
        self.tally.count(&ruling, *now);
        if is_refused(&ruling) {
            self.tally.count_refused_tier(*tier);
            self.refusals.add(&Refusal { ruling: &ruling, request, line, now: *now });
        }
        if let Some((old, against)) = &mut self.against {
            let before = old.check(request);
            let of = |ruling| Refusal { ruling, request, line, now: *now };
            // What can never pass is refused here: it is to a client, and its cost may have been
            // fine for the other policy.
            match (!ruling.is_allowed(), !before.is_allowed()) {
                (true, false) => against.newly_refused(&of(&ruling)),
                (false, true) => against.newly_allowed(&of(&before)),
                (true, true) => against.still_refused(),
                (false, false) => {}
            }
        }
    }

    /// When a line is decided: at its time, or where that is past, now.
    #[inline]
    fn time_of(&mut self, time: u64) -> u64 {
        if time < self.now {
            self.order.late += 1;
            self.order.latest_micros = self.order.latest_micros.max(self.now - time);
        }
        self.now = self.now.max(time);
        self.now
    }

    #[inline]
    fn show(&mut self, time: u64) {
        if time != self.shown {
            self.shown = time;
            self.clock.set(Timestamp::from_nanos(time.saturating_mul(1000)));
        }
    }

    #[inline]
    fn request<'r>(&mut self, line: &Taken<'r>) -> Request<'r>
    where
        'w: 'r,
    {
        let wanted = self.wanted;
        let mut request = Request::new();
        for (attribute, present) in wanted.attributes.iter().zip(&mut self.present) {
            if let Some(value) = value(wanted, attribute, line) {
                *present += 1;
                request.set(&attribute.name, value);
            }
        }
        let cost = wanted.cost.and_then(|slot| line.value(slot)?.parse().ok());
        match cost {
            Some(units) => request.cost(units),
            None => request,
        }
    }

    /// Counts the request under the rules that apply to it and under its tier, whose place it
    /// tells.
    #[inline]
    fn look(&mut self, request: &Request<'_>) -> Option<usize> {
        let (tally, ladders, key, now) =
            (&mut self.tally, &mut self.ladders, &mut self.key, self.now);
        self.gate.visit(request, |visited| {
            for rule in visited.rules() {
                rule.bring_near();
                tally.count_rule(rule.number());
                let Some(ladders) = ladders.as_mut() else { continue };
                key.clear();
                rule.write_key(key);
                let offer = Offer { hash: xxh3_64(key), now, cost: rule.cost() };
                for limit in rule.limits() {
                    ladders.offer(rule.number(), limit, offer);
                }
            }
            tally.count_tier(visited.tier())
        })
    }
}

/// A line that was looked at and is still to be decided.
struct Seen<'r> {
    line: Taken<'r>,
    request: Request<'r>,
    /// When it is decided.
    now: u64,
    /// The place of its tier.
    tier: Option<usize>,
}

/// How many limits a policy has, those of overrides left aside.
fn limits(policy: &Policy) -> usize {
    let rules = policy.rules.iter();
    let rules = rules.flat_map(|rule| std::iter::once(&rule.limits).chain(rule.tiers.values()));
    let tiers = policy.tiers.values().flat_map(|rules| rules.values());
    rules.chain(tiers).map(|numbers| numbers.limits().len()).sum()
}

/// What a line says of an attribute.
#[inline]
fn value<'r>(wanted: &'r Wanted, of: &Attribute, line: &Taken<'r>) -> Option<&'r str> {
    let own = line.value(of.slot);
    let (None, Some(path)) = (own, of.path) else { return own };
    let path = line.value(path)?;
    let route = wanted.routes.iter().find(|template| template.fits(path));
    Some(route.map_or(path, |template| template.as_str()))
}

/// Whether a request is turned away for now, and not because it makes no sense.
pub(super) fn is_refused(ruling: &Ruling) -> bool {
    !ruling.is_allowed() && ruling.reason() != Reason::InvalidRequest
}

#[cfg(test)]
mod tests {
    use tollgate::{Limit, Rule, RuleLimits};

    use super::*;

    #[test]
    fn every_limit_of_rules_and_tiers_has_its_share_of_the_memory() {
        let two = || RuleLimits::All(vec![Limit::per_minute(1), Limit::per_hour(2)]);
        let rule = Rule::new("a").limit(Limit::per_minute(9)).limit(Limit::per_day(9));
        let policy =
            Policy::new().rule(rule.tier("pro", two()).tier("free", RuleLimits::Unlimited));
        assert_eq!(limits(&policy), 4);
        assert_eq!(limits(&policy.tier("gold", "a", two()).tier("base", "a", two())), 8);
    }
}
