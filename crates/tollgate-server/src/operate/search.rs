//! Keys, searched for in parts and told in pages.

use tollgate::{KeyName, Rule, Status};

use super::{AdminFailure, blocking, values};
use crate::backend::Backend;
use crate::bounds::{MAX_PARTS, MAX_STEPS};

/// Which keys are wanted, and where to go on.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Of this rule; of all if not said.
    pub(crate) rule: Option<String>,
    /// The first value begins so.
    pub(crate) prefix: String,
    /// Some value holds this.
    pub(crate) contains: String,
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

/// A key that is not as good as new.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) rule: String,
    pub(crate) values: Vec<String>,
    /// Of a key that is too long only the beginning is known.
    pub(crate) whole: bool,
    pub(crate) status: Status,
}

/// The keys of one part, and the part after it.
struct Keys {
    keys: Vec<(KeyName, Status)>,
    next: Option<String>,
}

impl Backend {
    /// The keys that are searched for, as many as the answer may hold.
    pub(crate) async fn keys(&self, search: Search) -> Result<Page, AdminFailure> {
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
                if !page.add(&search, rule, (part, after.take()), keys) {
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
                let keys = blocking(move || gate.keys_in(&rule, number)).await?;
                let next = number.checked_add(1).map(|next| next.to_string());
                Ok(keys.map(|keys| Keys { keys, next }))
            }
            Backend::Redis(gate) => {
                let walk = match part {
                    None => gate.keys(rule),
                    Some(place) => gate.keys_from(rule, place),
                };
                let Some(mut walk) = walk else { return Ok(None) };
                let keys = walk.next().await?;
                Ok(keys.map(|keys| Keys { keys, next: walk.place() }))
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
        search: &Search,
        rule: &Rule,
        (part, after): (Option<String>, Option<Vec<String>>),
        keys: Vec<(KeyName, Status)>,
    ) -> bool {
        let named = |(name, status): (KeyName, Status)| (values(&name), name.is_whole(), status);
        let mut keys: Vec<_> = keys.into_iter().map(named).collect();
        keys.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        // The last of this part that is told: another part's would be no place in this one.
        let mut last = after;
        for (values, whole, status) in keys {
            // A key of another policy's rule of this name has other attributes, and no request.
            let is_ours = values.len() == rule.key.len();
            let is_later = last.as_ref().is_none_or(|last| values > *last);
            if !is_ours || !is_later || !search.wants(&values, &status) {
                continue;
            }
            if self.keys.len() == search.most {
                self.next = Some(Place { rule: rule.name.clone(), part, after: last });
                return false;
            }
            last = Some(values.clone());
            self.keys.push(Listed { rule: rule.name.clone(), values, whole, status });
        }
        true
    }
}

impl Search {
    fn wants(&self, values: &[String], status: &Status) -> bool {
        let begins = values.first().is_some_and(|value| value.starts_with(&self.prefix));
        let holds = values.iter().any(|value| value.contains(&self.contains));
        (begins || self.prefix.is_empty())
            && (holds || self.contains.is_empty())
            && (!self.limited || !status.retry_after().is_zero())
    }
}
