//! What is different from another policy.

use std::collections::BTreeMap;

use tollgate::Policy;

use super::clients::{Refusal, Refusals};
use super::report::{AgainstReport, Difference};

/// Counts of what is different.
pub(super) struct Against {
    report: AgainstReport,
    rules: BTreeMap<String, Difference>,
    refused: Refusals,
    allowed: Refusals,
    /// Rules and lists as the policies have them, the new one's first.
    order: Vec<String>,
}

impl Against {
    pub(super) fn new(old: &Policy, new: &Policy) -> Against {
        let names = |policy: &Policy| {
            let lists = policy.allow.iter().chain(&policy.deny).map(|list| list.name.clone());
            policy.rules.iter().map(|rule| rule.name.clone()).chain(lists).collect::<Vec<_>>()
        };
        let mut order = names(new);
        order.extend(names(old).into_iter().filter(|name| !names(new).contains(name)));
        Against {
            report: AgainstReport::default(),
            rules: BTreeMap::new(),
            refused: Refusals::default(),
            allowed: Refusals::default(),
            order,
        }
    }

    /// A cost that is no number is no rule's.
    pub(super) fn newly_refused(&mut self, refusal: &Refusal<'_, '_>) {
        self.report.newly_refused += 1;
        if let Some(rule) = refusal.ruling.decided_by_name() {
            self.rule(rule).newly_refused += 1;
            self.refused.add(refusal);
        }
    }

    /// `refusal` is the other policy's.
    pub(super) fn newly_allowed(&mut self, refusal: &Refusal<'_, '_>) {
        self.report.refused_before += 1;
        self.report.newly_allowed += 1;
        if let Some(rule) = refusal.ruling.decided_by_name() {
            self.rule(rule).newly_allowed += 1;
            self.allowed.add(refusal);
        }
    }

    pub(super) fn still_refused(&mut self) {
        self.report.refused_before += 1;
    }

    fn rule(&mut self, name: &str) -> &mut Difference {
        if !self.rules.contains_key(name) {
            let new = Difference { rule: name.to_owned(), ..Difference::default() };
            self.rules.insert(name.to_owned(), new);
        }
        self.rules.entry(name.to_owned()).or_default()
    }

    pub(super) fn into_report(self, most: usize) -> AgainstReport {
        let Against { mut report, mut rules, refused, allowed, order } = self;
        report.rules = order.iter().filter_map(|name| rules.remove(name)).collect();
        report.refused_clients = refused.into_clients(most).top;
        report.allowed_clients = allowed.into_clients(most).top;
        report
    }
}
