//! Keys, searched for in parts and told in pages.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tollgate::{KeyName, KeyStatus, Rule};

use super::held::{HeldValues, holds};
use super::{AdminFailure, ClientAttributes, RuleKey, blocking, values};
use crate::backend::Backend;
use crate::bounds::{MAX_BLOCK_READS, MAX_PARTS, MAX_STEPS};

/// Which keys are wanted, and where to go on.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Of this rule; of all if not said.
    pub(crate) rule: Option<String>,
    /// The first value begins so.
    pub(crate) prefix: String,
    /// Some value holds this.
    pub(crate) contains: String,
    /// Those that hold attributes of a client; of any client if not said.
    pub(crate) attributes: Option<ClientAttributes>,
    /// Only those that would be denied now.
    pub(crate) limited: bool,
    pub(crate) most: usize,
    pub(crate) from: Option<Place>,
}

/// A place in the list of all keys.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Place {
    rule: String,
    /// As the store calls it; `None` for the first.
    part: Option<String>,
    /// After this key.
    after: Option<Vec<String>>,
}

/// Some of the keys that were searched for, and where to go on if there may be more.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) keys: Vec<Listed>,
    pub(crate) next: Option<Place>,
}

/// A search among the keys of one rule.
struct RuleSearch<'s> {
    search: &'s Search,
    rule: &'s Rule,
    held: Option<HeldValues<'s>>,
}

/// A key that is not fresh.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) rule: String,
    pub(crate) values: Vec<String>,
    /// Of a key that is too long only the beginning is known.
    pub(crate) whole: bool,
    pub(crate) status: KeyStatus,
    /// For how long it is blocked; not known of a key that is not whole.
    pub(crate) blocked: Option<Duration>,
}

/// The keys of one part, and the part after it.
struct Keys {
    keys: Vec<(KeyName, KeyStatus)>,
    next: Option<String>,
}

impl Backend {
    /// The keys that are searched for, as many as the answer may hold.
    pub(crate) async fn keys(&self, search: Search) -> Result<Page, AdminFailure> {
        let mut page = self.search(&search).await?;
        let listed = page.keys.iter().filter(|listed| listed.whole).map(|listed| {
            let key = RuleKey { rule: listed.rule.clone(), values: listed.values.clone() };
            async move { self.blocked_for(&key).await }
        });
        let listed: Vec<_> = listed.collect();
        let blocked = stream::iter(listed).buffered(MAX_BLOCK_READS);
        let blocked: Vec<Option<Duration>> = blocked.try_collect().await?;
        let whole = page.keys.iter_mut().filter(|listed| listed.whole);
        whole.zip(blocked).for_each(|(listed, left)| listed.blocked = left);
        Ok(page)
    }

    async fn search(&self, search: &Search) -> Result<Page, AdminFailure> {
        let (policy, mut page) = (self.policy(), Page::default());
        let wanted = |rule: &&Rule| search.rule.as_ref().is_none_or(|name| rule.name == *name);
        let mut from = search.from.clone();
        let first = from.as_ref().map(|from| from.rule.clone());
        // Where the rule is gone since, nothing of it is left to go on with: it begins anew.
        let known = policy.rules.iter().any(|rule| Some(&rule.name) == first.as_ref());
        let before = |rule: &&Rule| known && Some(&rule.name) != first.as_ref();
        from = from.filter(|_| known);
        let mut parts = 0;
        for rule in policy.rules.iter().filter(wanted).skip_while(before) {
            let of_rule = RuleSearch::new(search, rule);
            if of_rule.finds_none() {
                continue;
            }
            let (mut part, mut after) = from.take().map_or((None, None), |of| (of.part, of.after));
            loop {
                if parts == self.most_parts() {
                    page.next = Some(Place { rule: rule.name.clone(), part, after });
                    return Ok(page);
                }
                parts += 1;
                let Some(Keys { keys, next }) = self.part(&rule.name, part.as_deref()).await?
                else {
                    break;
                };
                if !page.add(&of_rule, (part, after.take()), keys) {
                    return Ok(page);
                }
                let Some(next) = next else { break };
                part = Some(next);
            }
        }
        Ok(page)
    }

    /// One part of a rule's keys; `None` where there is none.
    async fn part(&self, rule: &str, part: Option<&str>) -> Result<Option<Keys>, AdminFailure> {
        match self {
            Backend::Memory(gate) => {
                let Ok(number) = part.unwrap_or("0").parse::<usize>() else { return Ok(None) };
                let (gate, rule) = (gate.clone(), rule.to_owned());
                let keys = blocking(move || gate.keys_page(&rule, number)).await?;
                let next = number.checked_add(1).map(|next| next.to_string());
                Ok(keys.map(|keys| Keys { keys, next }))
            }
            Backend::Redis(gate) => {
                let walk = match part {
                    None => gate.keys(rule),
                    Some(place) => gate.keys_from_cursor(rule, place),
                };
                let Some(mut walk) = walk else { return Ok(None) };
                let keys = walk.next().await?;
                Ok(keys.map(|keys| Keys { keys, next: walk.cursor() }))
            }
        }
    }

    fn most_parts(&self) -> usize {
        match self {
            Backend::Memory(_) => MAX_PARTS,
            Backend::Redis(_) => MAX_STEPS,
        }
    }
}

impl Page {
    /// Adds what is wanted of one part; false where the page is full.
    fn add(
        &mut self,
        of_rule: &RuleSearch<'_>,
        (part, after): (Option<String>, Option<Vec<String>>),
        keys: Vec<(KeyName, KeyStatus)>,
    ) -> bool {
        let RuleSearch { search, rule, .. } = of_rule;
        let named = |(name, status): (KeyName, KeyStatus)| (values(&name), name.is_whole(), status);
        let mut keys: Vec<_> = keys.into_iter().map(named).collect();
        keys.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        // The last of this part that is told: another part's would be no place in this one.
        let mut last = after;
        for (values, whole, status) in keys {
            // A key of another policy's rule of this name has other attributes, and no request.
            let is_ours = values.len() == rule.key.len();
            let is_later = last.as_ref().is_none_or(|last| values > *last);
            if !is_ours || !is_later || !of_rule.wants(&values, whole, &status) {
                continue;
            }
            if self.keys.len() == search.most {
                self.next = Some(Place { rule: rule.name.clone(), part, after: last });
                return false;
            }
            last = Some(values.clone());
            let rule = rule.name.clone();
            self.keys.push(Listed { rule, values, whole, status, blocked: None });
        }
        true
    }
}

impl<'s> RuleSearch<'s> {
    fn new(search: &'s Search, rule: &'s Rule) -> RuleSearch<'s> {
        let held = search.attributes.as_ref().map(|attributes| attributes.of_rule(rule));
        RuleSearch { search, rule, held }
    }

    /// `true` if no key of the rule can be one that is searched for.
    fn finds_none(&self) -> bool {
        self.held.as_ref().is_some_and(Vec::is_empty)
    }

    fn wants(&self, values: &[String], whole: bool, status: &KeyStatus) -> bool {
        let Search { prefix, contains, limited, .. } = self.search;
        let begins = values.first().is_some_and(|value| value.starts_with(prefix));
        let has_text = values.iter().any(|value| value.contains(contains));
        (begins || prefix.is_empty())
            && (has_text || contains.is_empty())
            && self.held.as_ref().is_none_or(|held| holds(held, values, whole))
            && (!limited || !status.retry_after().is_zero())
    }
}
