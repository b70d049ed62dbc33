//! What is run: the subject as policies, behind doors.

use std::ops::Range;
use std::time::Duration;

use tollgate::{Algorithm, Limit, OnStoreError, Policy, Rule, Timestamp};

use super::door::{Door, Doors};
use super::{Fleet, MOST_LIMITS, MOST_NODES, SimulateError, Simulation, Subject, nanos};
use crate::traffic::Traffic;

/// One run that is to be made.
pub(super) struct Case {
    pub(super) name: String,
    /// The limits in it, as text.
    pub(super) limits: Vec<String>,
    /// The limit, where there is but one.
    pub(super) limit: Option<Limit>,
    pub(super) doors: Doors,
}

/// The attribute that a limit counts by.
pub(super) const CLIENT: &str = "client";

/// Every algorithm with a limit's numbers, as they are called; for its own, the limit as it is.
pub(super) fn variants(limit: &Limit) -> [(&'static str, Limit); 6] {
    let (count, period) = (limit.count(), limit.period());
    let burst = match limit.algorithm() {
        Algorithm::LeakyQueue => limit.capacity() - 1,
        _ => limit.capacity(),
    };
    let variants = [
        ("token bucket", Limit::token_bucket(count, period).burst(burst)),
        ("leaky bucket, meter", Limit::leaky_bucket(count, period).burst(burst)),
        ("leaky bucket, queue", Limit::leaky_queue(count, period).burst(burst)),
        ("fixed window", Limit::fixed_window(count, period)),
        ("sliding log", Limit::sliding_log(count, period)),
        ("sliding counter", Limit::sliding_counter(count, period)),
    ];
    variants.map(|(name, variant)| {
        let is_own = variant.algorithm() == limit.algorithm();
        (name, if is_own { limit.clone() } else { variant })
    })
}

/// Poisson traffic of twice the limit's rate, for three of its periods.
pub(super) fn twice_as_much(limit: &Limit) -> Result<Traffic, SimulateError> {
    let rate = Limit::token_bucket(limit.count().saturating_mul(2), limit.period());
    let length = limit.period().saturating_mul(3);
    let text = format!("poisson {rate} for {}ns", length.as_nanos());
    let whole = match length.as_secs() {
        secs if length.subsec_nanos() == 0 => format!("poisson {rate} for {secs}s"),
        _ => text,
    };
    whole.parse().map_err(|_| {
        let hint = "give some with --traffic \"poisson 20/s for 1min\"";
        SimulateError(format!("no traffic of twice {limit} can be made, {hint}"))
    })
}

impl Simulation {
    /// The runs to make; `clients` says how many keys there may be.
    pub(super) fn cases(&self, clients: usize) -> Result<Vec<Case>, SimulateError> {
        match (&self.subject, &self.fleet) {
            (_, Some(_)) if self.compare => {
                Err(SimulateError("a fleet is compared with itself, not with algorithms".into()))
            }
            (Subject::Policy(_), _) if self.compare => {
                Err(SimulateError("a policy has its algorithms, only limits are compared".into()))
            }
            (Subject::Limits(limits), None) if self.compare => self.compared(limits, clients),
            (_, Some(fleet)) => self.fleet_cases(fleet, clients),
            (_, None) => {
                let (policy, limits) = self.policy()?;
                let keys = keys(&policy, clients);
                let doors = Doors::One(Door::new(policy, self.start, keys)?);
                let name = self.subject();
                let limit = self.only_limit();
                Ok(vec![Case { name, limits, limit, doors }])
            }
        }
    }

    fn compared(&self, limits: &[Limit], clients: usize) -> Result<Vec<Case>, SimulateError> {
        let [limit] = limits else {
            return Err(SimulateError(format!(
                "{} limits were given, one is compared",
                limits.len()
            )));
        };
        let case = |(name, limit): (&str, Limit)| {
            let text = limit.to_string();
            let policy = self.policy_of(std::slice::from_ref(&limit))?;
            let doors = Doors::One(Door::new(policy, self.start, clients + 1)?);
            Ok(Case { name: name.to_owned(), limits: vec![text], limit: Some(limit), doors })
        };
        variants(limit).into_iter().map(case).collect()
    }

    /// A store that all share, a part of the limit for each, and the whole of it for each.
    fn fleet_cases(&self, fleet: &Fleet, clients: usize) -> Result<Vec<Case>, SimulateError> {
        fleet.check()?;
        let (mut policy, limits) = self.policy()?;
        if let Some(choice) = fleet.on_store_error {
            policy.on_store_error = choice;
            policy.rules.iter_mut().for_each(|rule| rule.on_store_error = None);
        }
        let mut local = policy.clone();
        local.on_store_error = OnStoreError::Local;
        local.rules.iter_mut().for_each(|rule| rule.on_store_error = None);
        let keys = keys(&policy, clients);
        let each = |policy: &Policy| -> Result<Vec<Door>, SimulateError> {
            let start = |node: u64| fleet.clock_of(node, self.start);
            (0..fleet.nodes).map(|node| Door::new(policy.clone(), start(node), keys)).collect()
        };
        let store = Doors::Store {
            store: Door::new(policy.clone(), self.start, keys)?,
            nodes: each(&policy.fallback_share(fleet.nodes))?,
            latency: fleet.latency,
            outage: fleet.outage.clone().map(|Range { start, end }| nanos(start)..nanos(end)),
        };
        let parts = Doors::Each(each(&local.fallback_share(fleet.nodes))?);
        let whole = Doors::Each(each(&policy)?);
        let named = [
            ("one store".to_owned(), store),
            (format!("1/{} for each node", fleet.nodes), parts),
            ("all of it for each node".to_owned(), whole),
        ];
        let limit = self.only_limit();
        let case =
            |(name, doors)| Case { name, limits: limits.clone(), limit: limit.clone(), doors };
        Ok(named.into_iter().map(case).collect())
    }

    fn only_limit(&self) -> Option<Limit> {
        match &self.subject {
            Subject::Limits(limits) if limits.len() == 1 => limits.first().cloned(),
            _ => None,
        }
    }

    /// The subject as a policy, and its limits as text.
    fn policy(&self) -> Result<(Policy, Vec<String>), SimulateError> {
        match &self.subject {
            Subject::Policy(policy) => {
                let rules = policy.rules.iter().map(|rule| rule.name.clone());
                Ok(((**policy).clone(), rules.collect()))
            }
            Subject::Limits(limits) => {
                let texts: Vec<String> = limits.iter().map(ToString::to_string).collect();
                Ok((self.policy_of(limits)?, texts))
            }
        }
    }

    /// A rule for each limit, called by the limit's text.
    fn policy_of(&self, limits: &[Limit]) -> Result<Policy, SimulateError> {
        if limits.is_empty() || limits.len() > MOST_LIMITS {
            let given = limits.len();
            return Err(SimulateError(format!("{given} limits, must be 1 to {MOST_LIMITS}")));
        }
        let mut policy = Policy::new();
        for limit in limits {
            let name = limit.to_string();
            if policy.rules.iter().any(|rule| rule.name == name) {
                return Err(SimulateError(format!("the limit {name:?} was given twice")));
            }
            limit.validate().map_err(|error| SimulateError(format!("{name:?}: {error}")))?;
            let rule = Rule::new(name).limit(limit.clone());
            policy = policy.rule(if self.together { rule } else { rule.key([CLIENT]) });
        }
        Ok(policy)
    }
}

/// Enough keys that none is ever forgotten before its time: a simulation is no test of memory.
fn keys(policy: &Policy, clients: usize) -> usize {
    let limits: usize = policy.rules.iter().map(|rule| rule.limits.limits().len().max(1)).sum();
    (clients + 1).saturating_mul(limits.max(1)).clamp(1_000, 1 << 30)
}

impl Fleet {
    pub(super) fn check(&self) -> Result<(), SimulateError> {
        let wrong = |message: String| Err(SimulateError(message));
        if self.nodes == 0 || self.nodes > MOST_NODES {
            return wrong(format!("{} nodes, must be 1 to {MOST_NODES}", self.nodes));
        }
        if self.outage.as_ref().is_some_and(|outage| outage.start >= outage.end) {
            return wrong("the outage ends before it begins, write for example 20s..30s".into());
        }
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        if self.skew > year || self.latency > year {
            return wrong("clocks and answers of a store may be a year off, not more".into());
        }
        Ok(())
    }

    /// What a node's clock shows when the simulation begins.
    pub(super) fn clock_of(&self, node: u64, start: Timestamp) -> Timestamp {
        let skew = u128::from(nanos(self.skew));
        let last = u128::from(self.nodes.saturating_sub(1).max(1));
        // From `skew` behind to `skew` ahead, at equal distances.
        let ahead = 2 * skew * u128::from(node) / last;
        let moment = (u128::from(start.as_nanos()) + ahead).saturating_sub(skew);
        Timestamp::from_nanos(u64::try_from(moment).unwrap_or(u64::MAX))
    }
}
