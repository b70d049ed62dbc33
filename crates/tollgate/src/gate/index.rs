//! Which conditions a request fulfils, without asking those of every rule.
//!
//! Each entry (a rule or a list) is filed under one of its conditions, the most telling one: an
//! exact value in a table of texts, a network by its length, a beginning in a sorted list. A request's
//! values find the entries filed under them, and only those are asked for their other conditions.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::attributes::{Attribute, Values};
use super::prefixes::Prefixes;
use super::texts::Texts;
use crate::policy::{Condition, address};

/// The number of an entry.
pub(super) type Entry = u32;

/// Entries that a request fulfils.
pub(super) type Found = SmallVec<[Entry; 8]>;

/// What must hold for an entry, attributes by number.
pub(super) type Conditions = Box<[(Attribute, Condition)]>;

#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<Conditions>,
    /// Of each entry: whether it applies wherever it is found, having no further condition.
    sure: Vec<bool>,
    /// By attribute.
    drawers: Vec<Drawer>,
    /// The attributes under which anything is filed.
    filed: Vec<Attribute>,
    /// Those whose conditions tell nothing in advance.
    always: Vec<Entry>,
}

/// What is filed under one attribute.
#[derive(Debug, Default)]
struct Drawer {
    exact: Texts,
    /// What is filed under each of those.
    under: Vec<Vec<Entry>>,
    networks: HashMap<IpNet, Vec<Entry>>,
    /// The lengths of those networks, for IPv4 and IPv6.
    lengths: [Vec<u8>; 2],
    prefixes: Prefixes,
    present: Vec<Entry>,
    /// Whether anything is filed under more than exact values.
    more: bool,
}

/// The texts under which entries are filed in a drawer, while it is filled.
#[derive(Clone, Default)]
struct FiledTexts {
    exact: BTreeMap<Box<str>, Vec<Entry>>,
    beginnings: Vec<(Box<str>, Entry)>,
}

impl Index {
    pub(super) fn new(entries: Vec<Conditions>, attributes: usize) -> Index {
        let mut index = Index::default();
        index.drawers.resize_with(attributes, Drawer::default);
        let crowd = Crowd::new(&entries);
        let mut texts = vec![FiledTexts::default(); attributes];
        for (number, conditions) in (0..).zip(&entries) {
            index.sure.push(is_sure(conditions));
            match crowd.most_telling(conditions) {
                None => index.always.push(number),
                Some((attribute, condition)) => {
                    let drawer = &mut index.drawers[*attribute as usize];
                    drawer.file(condition, number, &mut texts[*attribute as usize]);
                }
            }
        }
        for (drawer, texts) in index.drawers.iter_mut().zip(texts) {
            let (exact, under): (Vec<_>, _) = texts.exact.into_iter().unzip();
            (drawer.exact, drawer.under) = (Texts::new(exact), under);
            drawer.prefixes = Prefixes::new(texts.beginnings);
        }
        let used = (0..).zip(&index.drawers).filter(|(_, drawer)| !drawer.is_empty());
        index.filed = used.map(|(attribute, _)| attribute).collect();
        index.entries = entries;
        index
    }

    /// Puts the entries whose conditions all hold into `found`, which is empty, in order.
    #[inline]
    pub(super) fn find(&self, values: &Values<'_>, found: &mut Found) {
        let mut may_repeat = false;
        self.add(&self.always, values, found);
        for attribute in &self.filed {
            let Some(value) = values.get(*attribute) else { continue };
            let drawer = &self.drawers[*attribute as usize];
            if let Some(number) = drawer.exact.number(value) {
                self.add(&drawer.under[number as usize], values, found);
            }
            if drawer.more {
                may_repeat = true;
                drawer.each(value, &mut |entries| self.add(entries, values, found));
            }
        }
        if found.len() > 1 {
            found.sort_unstable();
        }
        if may_repeat {
            // An entry with two networks, or two beginnings, that both fit was found twice.
            found.dedup();
        }
    }

    /// Adds those of `entries` whose conditions all hold.
    #[inline(always)]
    fn add(&self, entries: &[Entry], values: &Values<'_>, found: &mut Found) {
        for entry in entries {
            if self.sure[*entry as usize] || self.first_failing(*entry, values).is_none() {
                found.push(*entry);
            }
        }
    }

    /// The first condition of `entry` that does not hold.
    pub(super) fn first_failing(
        &self,
        entry: Entry,
        values: &Values<'_>,
    ) -> Option<&(Attribute, Condition)> {
        let conditions = &self.entries[entry as usize];
        conditions.iter().find(|(attribute, condition)| !condition.holds(values.get(*attribute)))
    }
}

impl Drawer {
    fn is_empty(&self) -> bool {
        self.under.is_empty() && !self.more
    }

    fn file(&mut self, condition: &Condition, entry: Entry, texts: &mut FiledTexts) {
        for place in places(condition) {
            self.more |= !matches!(place, Place::Exact(_));
            match place {
                Place::Exact(value) => {
                    let under = texts.exact.entry(value.into()).or_default();
                    // A value may be listed twice, and is not looked for repetitions when found.
                    if under.last() != Some(&entry) {
                        under.push(entry);
                    }
                }
                Place::Network(network) => {
                    self.networks.entry(network).or_default().push(entry);
                    let lengths = &mut self.lengths[usize::from(network.addr().is_ipv6())];
                    if !lengths.contains(&network.prefix_len()) {
                        lengths.push(network.prefix_len());
                    }
                }
                Place::Beginning(text) => texts.beginnings.push((text.into(), entry)),
                Place::Present => self.present.push(entry),
            }
        }
    }

    /// Calls `consider` with what is filed under `value` other than as it is written.
    #[inline(never)]
    fn each(&self, value: &str, consider: &mut impl FnMut(&[Entry])) {
        if !self.networks.is_empty()
            && let Some(ip) = address(value)
        {
            self.each_network(ip, consider);
        }
        self.prefixes.each(value, consider);
        consider(&self.present);
    }

    fn each_network(&self, ip: IpAddr, consider: &mut impl FnMut(&[Entry])) {
        for length in &self.lengths[usize::from(ip.is_ipv6())] {
            let network = IpNet::new(ip, *length).map(|network| network.trunc());
            if let Some(entries) = network.ok().and_then(|network| self.networks.get(&network)) {
                consider(entries);
            }
        }
    }
}

/// Whether where an entry is filed says all of its conditions: only a glob says more than how it
/// begins.
fn is_sure(conditions: &[(Attribute, Condition)]) -> bool {
    match conditions {
        [] => true,
        [(_, condition)] => {
            !matches!(condition, Condition::Glob(_)) && !places(condition).is_empty()
        }
        _ => false,
    }
}

/// How many entries could be filed in each place: a place that many share tells little.
struct Crowd<'a>(HashMap<(Attribute, Place<'a>), usize>);

/// Where in a drawer an entry can be filed, from the most to the least telling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place<'a> {
    Exact(&'a str),
    Network(IpNet),
    Beginning(&'a str),
    Present,
}

impl<'a> Crowd<'a> {
    fn new(entries: &'a [Conditions]) -> Crowd<'a> {
        let mut crowd = HashMap::new();
        for (attribute, condition) in entries.iter().flatten() {
            for place in places(condition) {
                *crowd.entry((*attribute, place)).or_default() += 1;
            }
        }
        Crowd(crowd)
    }

    /// The condition that is filed where the fewest other entries are.
    fn most_telling<'c>(
        &self,
        conditions: &'c [(Attribute, Condition)],
    ) -> Option<&'c (Attribute, Condition)> {
        let telling = conditions.iter().filter_map(|of| Some((self.rank(of)?, of)));
        telling.min_by_key(|(rank, _)| *rank).map(|(_, of)| of)
    }

    /// The lower, the more it tells; `None` tells nothing.
    fn rank<'c>(
        &self,
        (attribute, condition): &'c (Attribute, Condition),
    ) -> Option<(usize, Place<'c>)> {
        let places = places(condition);
        let others = |place: &Place<'_>| self.0.get(&(*attribute, *place)).copied();
        let crowd = places.iter().filter_map(others).sum();
        Some((crowd, places.first().copied()?))
    }
}

/// Where an entry with this condition could be filed; nowhere if it tells nothing in advance.
fn places(condition: &Condition) -> Vec<Place<'_>> {
    match condition {
        Condition::Is(value) => vec![Place::Exact(value)],
        Condition::OneOf(values) => values.iter().map(|value| Place::Exact(value)).collect(),
        Condition::Cidr(nets) => nets.iter().map(|net| Place::Network(net.trunc())).collect(),
        Condition::Prefix(texts) => texts.iter().map(|text| Place::Beginning(text)).collect(),
        Condition::Glob(globs) => {
            globs.iter().map(|glob| Place::Beginning(glob.literal_prefix())).collect()
        }
        Condition::Present => vec![Place::Present],
        Condition::Absent | Condition::Not(_) => Vec::new(),
    }
}

/// A hash for maps whose keys the policy chose: what clients send is only looked up in them.
#[derive(Debug, Default)]
pub(super) struct Quick(u64);

impl Hasher for Quick {
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
    use crate::policy::Glob;

    /// How many entries a value finds in the drawer of the first attribute.
    fn found(condition: Condition, value: &str) -> usize {
        let index = Index::new(vec![[(0, condition)].into(), [].into()], 1);
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
