//! Counts: of all requests, by rule, by list, by tier and over time.

use std::collections::HashMap;

use tollgate::{Policy, Reason, Ruling};

use super::bounds::{SERIES, TIERS};
use super::report::{ListReport, OverTime, RuleReport, Step, TierReport};
use super::series::Series;

/// Counts of everything there is one of for every rule.
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) allowed: u64,
    pub(super) unlimited: u64,
    pub(super) refused: u64,
    pub(super) wrong: u64,
    /// The rules, and then the lists.
    pub(super) rules: Vec<RuleReport>,
    pub(super) lists: Vec<ListReport>,
    /// Where each name is in `rules`, and after them in `lists`.
    places: HashMap<String, usize>,
    /// Whether rules have to be asked also where a request passes.
    has_shadow: bool,
    has_tiers: bool,
    tiers: Vec<TierReport>,
    /// Which tier the last request was of.
    last_tier: usize,
    series: Series,
    /// The place in `rules` or `lists` that each series is of.
    series_of: Vec<usize>,
    /// When the first request was, in microseconds.
    pub(super) first: Option<u64>,
}

impl Tally {
    pub(super) fn new(policy: &Policy) -> Tally {
        let rules = policy.rules.iter().map(|rule| RuleReport {
            rule: rule.name.clone(),
            shadow: rule.shadow,
            ..RuleReport::default()
        });
        let rules: Vec<RuleReport> = rules.collect();
        let lists = [(&policy.allow, true), (&policy.deny, false)];
        let lists = lists.into_iter().flat_map(|(lists, passes)| {
            let list = move |name: &str| ListReport { list: name.to_owned(), passes, requests: 0 };
            lists.iter().map(move |of| list(&of.name))
        });
        let lists: Vec<ListReport> = lists.collect();
        let names = rules.iter().map(|of| &of.rule).chain(lists.iter().map(|of| &of.list));
        let places = names.cloned().zip(0..).collect();
        let has_tiers =
            !policy.tiers.is_empty() || policy.rules.iter().any(|rule| !rule.tiers.is_empty());
        Tally {
            requests: 0,
            allowed: 0,
            unlimited: 0,
            refused: 0,
            wrong: 0,
            places,
            has_shadow: rules.iter().any(|rule| rule.shadow),
            rules,
            lists,
            has_tiers,
            tiers: Vec::new(),
            last_tier: 0,
            series: Series::default(),
            series_of: Vec::new(),
            first: None,
        }
    }

    /// Counts a request.
    #[inline]
    pub(super) fn count(&mut self, ruling: &Ruling, now: u64) {
        self.requests += 1;
        self.first.get_or_insert(now);
        let reason = ruling.reason();
        if ruling.is_allowed() && !self.has_shadow && reason != Reason::AllowList {
            self.allowed += 1;
            self.unlimited += u64::from(reason == Reason::NoRule);
            return self.series.add(now, 0);
        }
        self.count_rest(ruling, now);
    }

    /// Counts a request that rules have to be asked about.
    #[inline(never)]
    fn count_rest(&mut self, ruling: &Ruling, now: u64) {
        for figures in ruling.rules().filter(|figures| !figures.is_allowed()) {
            if let Some(place) = self.places.get(figures.rule()) {
                let rule = &mut self.rules[*place];
                // Nobody refuses what can never pass.
                rule.says_no += u64::from(rule.shadow || ruling.reason() != Reason::InvalidRequest);
            }
        }
        let place = ruling.decided_by_name().and_then(|name| self.places.get(name).copied());
        let list = place.and_then(|place| self.lists.get_mut(place.checked_sub(self.rules.len())?));
        if let Some(list) = list {
            list.requests += 1;
        }
        match (ruling.is_allowed(), ruling.reason()) {
            (true, reason) => {
                self.allowed += 1;
                self.unlimited += u64::from(reason == Reason::NoRule);
                self.series.add(now, 0);
            }
            (false, Reason::InvalidRequest) => self.wrong += 1,
            (false, reason) => {
                self.refused += 1;
                if let Some(rule) = place.and_then(|place| self.rules.get_mut(place)) {
                    rule.refused += 1;
                    rule.blocked += u64::from(reason == Reason::Blocked);
                }
                let kind = self.kind(place);
                self.series.add(now, kind);
            }
        }
    }

    /// Which series a refusal belongs to.
    fn kind(&mut self, place: Option<usize>) -> usize {
        let Some(place) = place else { return 1 };
        let known = self.series_of.iter().position(|of| *of == place);
        let at = known.or_else(|| {
            let at = self.series_of.len();
            (at < SERIES).then(|| self.series_of.push(place)).map(|()| at)
        });
        at.map_or(1, |at| at + 2)
    }

    /// Counts a request that a rule applies to.
    #[inline]
    pub(super) fn count_rule(&mut self, number: usize) {
        self.rules[number].requests += 1;
    }

    /// Counts a request of a tier, and tells where.
    #[inline]
    pub(super) fn count_tier(&mut self, tier: Option<&str>) -> Option<usize> {
        if !self.has_tiers {
            return None;
        }
        if self.tiers.get(self.last_tier).is_none_or(|of| of.tier.as_deref() != tier) {
            self.last_tier = self.tier(tier);
        }
        self.tiers[self.last_tier].requests += 1;
        Some(self.last_tier)
    }

    /// Counts that a request of a tier was refused.
    pub(super) fn count_refused_tier(&mut self, tier: Option<usize>) {
        if let Some(counted) = tier.and_then(|tier| self.tiers.get_mut(tier)) {
            counted.refused += 1;
        }
    }

    fn tier(&mut self, tier: Option<&str>) -> usize {
        let known = self.tiers.iter().position(|of| of.tier.as_deref() == tier);
        known.unwrap_or_else(|| {
            if self.tiers.len() >= TIERS {
                return self.tiers.len() - 1;
            }
            // The last there is room for stands for all that come after it.
            let is_last = self.tiers.len() + 1 == TIERS;
            let tier = if is_last { Some("(others)") } else { tier };
            self.tiers.push(TierReport { tier: tier.map(str::to_owned), requests: 0, refused: 0 });
            self.tiers.len() - 1
        })
    }

    /// The tiers, those with the most requests first.
    pub(super) fn tiers(&self) -> Vec<TierReport> {
        let mut tiers = self.tiers.clone();
        tiers.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.tier.cmp(&b.tier)));
        tiers
    }

    /// What happened when.
    pub(super) fn over_time(&self) -> OverTime {
        let name = |place: &usize| match self.rules.get(*place) {
            Some(rule) => rule.rule.clone(),
            None => self.lists[place - self.rules.len()].list.clone(),
        };
        let named = self.series_of.len();
        let steps = self.series.points().map(|(at, point)| Step {
            at,
            allowed: point[0],
            refused: point[2..2 + named].iter().chain([&point[1]]).copied().collect(),
        });
        OverTime {
            step_seconds: self.series.seconds(),
            refused_by: self.series_of.iter().map(name).collect(),
            steps: steps.collect(),
        }
    }
}
