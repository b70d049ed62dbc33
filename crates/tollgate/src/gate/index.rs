//! Which conditions a request fulfils, without asking those of every rule.
//!
//! Each entry (a rule or a list) is filed under one of its conditions, the most telling one: an
//! exact value in a table of texts, a network by its length, a beginning in a sorted list, globs in
//! a set that is matched in one pass. A request's values find the entries filed under them, each at
//! most once, and only those are asked for their other conditions.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::attributes::{AttributeId, AttributeValues};
use super::glob_set::GlobSet;
use super::prefixes::Prefixes;
use super::texts::TextTable;
use crate::policy::{Condition, Glob, parse_address};

/// The number of an entry.
pub(super) type EntryId = u32;

/// Entries that a request fulfils.
pub(super) type MatchedEntries = SmallVec<[EntryId; 8]>;

/// What must hold for an entry, attributes by number.
pub(super) type EntryConditions = Box<[(AttributeId, Condition)]>;

#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    entries: Vec<EntryConditions>,
    /// Of each entry: the position of the condition that it is filed under, which holds wherever
    /// the entry is found. `None` if it is filed under none.
    filed_under: Vec<Option<usize>>,
    /// Conditions of many globs that their entries are not filed under, by entry and position.
    glob_sets: HashMap<(EntryId, usize), GlobSet>,
    /// By attribute.
    drawers: Vec<AttributeIndex>,
    /// The attributes under which anything is filed.
    filed: Vec<AttributeId>,
    /// Those whose conditions tell nothing in advance.
    always: Vec<EntryId>,
}

/// What is filed under one attribute.
#[derive(Debug, Default)]
struct AttributeIndex {
    exact: TextTable,
    /// What is filed under each of those.
    under: Vec<Vec<EntryId>>,
    networks: HashMap<IpNet, Vec<EntryId>>,
    /// The lengths of those networks, for IPv4 and IPv6.
    lengths: [Vec<u8>; 2],
    prefixes: Prefixes,
    present: Vec<EntryId>,
    globs: GlobSet,
    /// Whether anything is filed under more than exact values.
    more: bool,
}

/// The texts under which entries are filed in a drawer, while it is filled.
#[derive(Clone, Default)]
struct IndexedTexts {
    exact: BTreeMap<Box<str>, Vec<EntryId>>,
    beginnings: Vec<(Box<str>, EntryId)>,
    globs: Vec<(Glob, EntryId)>,
}

/// Up to this many globs of a condition that its entry is not filed under are matched one by one.
const FEW_GLOBS: usize = 8;

impl RuleIndex {
    pub(super) fn new(entries: Vec<EntryConditions>, attributes: usize) -> RuleIndex {
        let mut index = RuleIndex::default();
        index.drawers.resize_with(attributes, AttributeIndex::default);
        let crowd = Selectivity::new(&entries);
        let mut texts = vec![IndexedTexts::default(); attributes];
        for (number, conditions) in (0..).zip(&entries) {
            let filed_under = crowd.most_telling(conditions);
            index.filed_under.push(filed_under);
            match filed_under.map(|position| &conditions[position]) {
                None => index.always.push(number),
                Some((attribute, condition)) => {
                    let drawer = &mut index.drawers[*attribute as usize];
                    drawer.file(condition, number, &mut texts[*attribute as usize]);
                }
            }
            for (position, (_, condition)) in conditions.iter().enumerate() {
                let globs = many_globs(condition).filter(|_| filed_under != Some(position));
                if let Some(globs) = globs {
                    let set = GlobSet::new(globs.iter().map(|glob| (glob.clone(), number)));
                    index.glob_sets.insert((number, position), set);
                }
            }
        }
        for (drawer, texts) in index.drawers.iter_mut().zip(texts) {
            let (exact, under): (Vec<_>, _) = texts.exact.into_iter().unzip();
            (drawer.exact, drawer.under) = (TextTable::new(exact), under);
            drawer.prefixes = Prefixes::new(texts.beginnings);
            drawer.globs = GlobSet::new(texts.globs);
        }
        let used = (0..).zip(&index.drawers).filter(|(_, drawer)| !drawer.is_empty());
        index.filed = used.map(|(attribute, _)| attribute).collect();
        index.entries = entries;
        index
    }

    /// Puts the entries whose conditions all hold into `found`, which is empty, in order. An entry
    /// is filed in one place, where a value finds it at most once.
    #[inline]
    pub(super) fn find(&self, values: &AttributeValues<'_>, found: &mut MatchedEntries) {
        self.add(&self.always, values, found);
        for attribute in &self.filed {
            let Some(value) = values.get(*attribute) else { continue };
            let drawer = &self.drawers[*attribute as usize];
            if let Some(number) = drawer.exact.number(value) {
                self.add(&drawer.under[number as usize], values, found);
            }
            if drawer.more {
                drawer.each(value, &mut |entries| self.add(entries, values, found));
            }
        }
        if found.len() > 1 {
            found.sort_unstable();
        }
    }

    /// Adds those of `entries` whose conditions all hold.
    #[inline(always)]
    fn add(&self, entries: &[EntryId], values: &AttributeValues<'_>, found: &mut MatchedEntries) {
        for entry in entries {
            if self.others_hold(*entry, values) {
                found.push(*entry);
            }
        }
    }

    /// Whether the conditions of `entry` hold, but for the one that it is filed under.
    #[inline(always)]
    fn others_hold(&self, entry: EntryId, values: &AttributeValues<'_>) -> bool {
        let conditions = &self.entries[entry as usize];
        match (&**conditions, self.filed_under[entry as usize]) {
            ([] | [_], Some(_)) => true,
            (conditions, filed_under) => {
                let mut others = conditions.iter().enumerate();
                others.all(|(position, (attribute, condition))| {
                    let value = values.get(*attribute);
                    filed_under == Some(position) || self.holds((entry, position), condition, value)
                })
            }
        }
    }

    fn holds(&self, of: (EntryId, usize), condition: &Condition, value: Option<&str>) -> bool {
        let set = many_globs(condition).and_then(|_| self.glob_sets.get(&of));
        let Some(set) = set else { return condition.matches(value) };
        let is_match = value.is_some_and(|value| set.is_match(value));
        is_match != matches!(condition, Condition::Not(_))
    }

    /// The first condition of `entry` that does not hold.
    pub(super) fn first_failing(
        &self,
        entry: EntryId,
        values: &AttributeValues<'_>,
    ) -> Option<&(AttributeId, Condition)> {
        let conditions = &self.entries[entry as usize];
        conditions.iter().find(|(attribute, condition)| !condition.matches(values.get(*attribute)))
    }
}

impl AttributeIndex {
    fn is_empty(&self) -> bool {
        self.under.is_empty() && !self.more
    }

    fn file(&mut self, condition: &Condition, entry: EntryId, texts: &mut IndexedTexts) {
        if let Condition::Glob(globs) = condition {
            self.more = true;
            texts.globs.extend(globs.iter().map(|glob| (glob.clone(), entry)));
            return;
        }
        for place in places(condition) {
            self.more |= !matches!(place, IndexKey::Exact(_));
            match place {
                IndexKey::Exact(value) => {
                    let under = texts.exact.entry(value.into()).or_default();
                    // A value may be listed twice, and is not looked for repetitions when found.
                    if under.last() != Some(&entry) {
                        under.push(entry);
                    }
                }
                IndexKey::Network(network) => {
                    self.networks.entry(network).or_default().push(entry);
                    let lengths = &mut self.lengths[usize::from(network.addr().is_ipv6())];
                    if !lengths.contains(&network.prefix_len()) {
                        lengths.push(network.prefix_len());
                    }
                }
                IndexKey::Beginning(text) => texts.beginnings.push((text.into(), entry)),
                IndexKey::Present => self.present.push(entry),
            }
        }
    }

    /// Calls `consider` with what is filed under `value` other than as it is written.
    #[inline(never)]
    fn each(&self, value: &str, consider: &mut impl FnMut(&[EntryId])) {
        if !self.networks.is_empty()
            && let Some(ip) = parse_address(value)
        {
            self.each_network(ip, consider);
        }
        self.prefixes.each(value, consider);
        consider(&self.present);
        if !self.globs.is_empty() {
            consider(&self.globs.owners(value));
        }
    }

    fn each_network(&self, ip: IpAddr, consider: &mut impl FnMut(&[EntryId])) {
        for length in &self.lengths[usize::from(ip.is_ipv6())] {
            let network = IpNet::new(ip, *length).map(|network| network.trunc());
            if let Some(entries) = network.ok().and_then(|network| self.networks.get(&network)) {
                consider(entries);
            }
        }
    }
}

/// The globs of a condition that has many, also if it is negated.
fn many_globs(condition: &Condition) -> Option<&[Glob]> {
    match condition {
        Condition::Glob(globs) => Some(&**globs).filter(|globs| globs.len() > FEW_GLOBS),
        Condition::Not(negated) => match &**negated {
            Condition::Glob(globs) => Some(&**globs).filter(|globs| globs.len() > FEW_GLOBS),
            _ => None,
        },
        _ => None,
    }
}

/// How many entries could be filed in each place: a place that many share tells little.
struct Selectivity<'a>(HashMap<(AttributeId, IndexKey<'a>), usize>);

/// Where in a drawer an entry can be filed, from the most to the least telling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum IndexKey<'a> {
    Exact(&'a str),
    Network(IpNet),
    Beginning(&'a str),
    Present,
}

impl<'a> Selectivity<'a> {
    fn new(entries: &'a [EntryConditions]) -> Selectivity<'a> {
        let mut crowd = HashMap::new();
        for (attribute, condition) in entries.iter().flatten() {
            for place in places(condition) {
                *crowd.entry((*attribute, place)).or_default() += 1;
            }
        }
        Selectivity(crowd)
    }

    /// The position of the condition that is filed where the fewest other entries are.
    fn most_telling(&self, conditions: &[(AttributeId, Condition)]) -> Option<usize> {
        let all = conditions.iter().enumerate();
        let telling = all.filter_map(|(position, of)| Some((self.rank(of)?, position)));
        telling.min_by_key(|(rank, _)| *rank).map(|(_, position)| position)
    }

    /// The lower, the more it tells; `None` tells nothing.
    fn rank<'c>(
        &self,
        (attribute, condition): &'c (AttributeId, Condition),
    ) -> Option<(usize, IndexKey<'c>)> {
        let places = places(condition);
        let others = |place: &IndexKey<'_>| self.0.get(&(*attribute, *place)).copied();
        let crowd = places.iter().filter_map(others).sum();
        Some((crowd, places.first().copied()?))
    }
}

/// Where an entry with this condition could be filed, so that a value finds it in one place at
/// most; nowhere if the condition tells nothing in advance.
fn places(condition: &Condition) -> Vec<IndexKey<'_>> {
    match condition {
        Condition::Equals(value) => vec![IndexKey::Exact(value)],
        Condition::AnyOf(values) => values.iter().map(|value| IndexKey::Exact(value)).collect(),
        Condition::Cidr(nets) => {
            let mut nets: Vec<IpNet> = nets.iter().map(IpNet::trunc).collect();
            nets.sort_unstable();
            widest(nets, |wide, net| wide.contains(net))
                .into_iter()
                .map(IndexKey::Network)
                .collect()
        }
        Condition::Prefix(texts) => shortest(texts.iter().map(String::as_str)),
        Condition::Glob(globs) => shortest(globs.iter().map(Glob::literal_prefix)),
        Condition::Present => vec![IndexKey::Present],
        Condition::Absent | Condition::Not(_) => Vec::new(),
    }
}

/// The beginnings that begin with no other of them.
fn shortest<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<IndexKey<'t>> {
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    let widest = widest(texts, |wide, text| text.starts_with(wide));
    widest.into_iter().map(IndexKey::Beginning).collect()
}

/// Those of `sorted` that are in no other of them. What is in another follows it.
fn widest<T>(sorted: Vec<T>, is_in: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut widest: Vec<T> = Vec::with_capacity(sorted.len());
    for item in sorted {
        if !widest.last().is_some_and(|last| is_in(last, &item)) {
            widest.push(item);
        }
    }
    widest
}

/// A hash for maps whose keys the policy chose: what clients send is only looked up in them.
#[derive(Debug, Default)]
pub(super) struct PolicyHasher(u64);

impl Hasher for PolicyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    // The end of a text, which needs no marking where keys are single texts.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many entries a value finds in the drawer of the first attribute.
    fn found(condition: Condition, value: &str) -> usize {
        let index = RuleIndex::new(vec![[(0, condition)].into(), [].into()], 1);
        let mut found = 0;
        index.drawers[0].each(value, &mut |entries| found += entries.len());
        found
    }

    #[test]
    fn entry_with_many_globs_beginnings_or_networks_is_found_once() {
        let globs = (0..100).map(|number| Glob::new(format!("*{number}*"))).collect();
        assert_eq!(found(Condition::Glob(globs), "0123456789"), 1);
        let beginnings = (0..100).map(|length| "a".repeat(length)).collect();
        assert_eq!(found(Condition::Prefix(beginnings), &"a".repeat(50)), 1);
        let networks = (0..=32).map(|length| format!("10.0.0.0/{length}").parse());
        let networks = networks.collect::<Result<_, _>>().expect("networks");
        assert_eq!(found(Condition::Cidr(networks), "10.0.0.0"), 1);
    }
}
