//! The overrides in force, found by the values of a request.
//!
//! Overrides that name the same attributes are one shape: a request's values of those attributes
//! are hashed and looked up. Each shape is in many pieces, so that changing one override copies
//! one piece and readers see all or nothing of it.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::canonical;
use super::compiled::{CompiledPolicy, LimitSet, counter, terms};
use super::index::PolicyHasher;
use crate::key::LimitKeyHasher;
use crate::limit::LimitError;
use crate::policy::{
    AddressAttributes, AddressPrefix, Client, ListedOverride, Override, OverrideSource, Policy,
    Request,
};
use crate::store::memory::Memory;
use crate::time::Timestamp;

const PIECES: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Overrides(Vec<OverrideShape>);

/// All overrides that name the same attributes.
#[derive(Clone, Debug)]
struct OverrideShape {
    attributes: Arc<ShapeAttributes>,
    pieces: Vec<Arc<HashTable<Arc<ClientOverride>>>>,
}

/// The attributes of a shape, each with the part of it that counts if it is an address.
#[derive(Debug)]
struct ShapeAttributes(Box<[(String, Option<AddressPrefix>)]>);

/// What is different for a client.
#[derive(Debug)]
pub(super) struct ClientOverride {
    pub(super) source: OverrideOrigin,
    numbers: SmallVec<[OverrideLimits; 1]>,
    /// The policy's override of the same client: it applies when this one, of run time, has ended.
    covered: Option<Arc<ClientOverride>>,
}

/// What an override says: the policy's are not copied, since there may be very many.
#[derive(Clone, Debug)]
pub(super) enum OverrideOrigin {
    /// The policy's of this number.
    Policy(Arc<Policy>, usize),
    /// Set at run time.
    RunTime(Box<Override>),
}

impl OverrideOrigin {
    pub(super) fn origin(&self) -> OverrideSource {
        match self {
            OverrideOrigin::Policy(..) => OverrideSource::Policy,
            OverrideOrigin::RunTime(_) => OverrideSource::RunTime,
        }
    }
}

impl Deref for OverrideOrigin {
    type Target = Override;

    fn deref(&self) -> &Override {
        match self {
            OverrideOrigin::Policy(policy, number) => &policy.overrides[*number],
            OverrideOrigin::RunTime(change) => change,
        }
    }
}

/// A client's own limits of a rule.
#[derive(Debug)]
pub(super) struct OverrideLimits {
    /// The rule's number.
    rule: u32,
    pub(super) terms: LimitSet,
    /// What finds the states of limits beyond as many as the rule itself ever has.
    pub(super) further: Vec<LimitKeyHasher>,
}

impl ClientOverride {
    /// `source` made ready; rules that the policy does not have are left out.
    pub(super) fn new(
        source: OverrideOrigin,
        compiled: &CompiledPolicy,
        memory: &Memory,
    ) -> Result<ClientOverride, LimitError> {
        let mut numbers = SmallVec::new();
        for (name, of_rule) in &source.limits {
            if let Some(rule) = compiled.rule_number(name) {
                let terms = terms(name, of_rule, memory)?;
                let known = compiled.rules[rule as usize].counters.len();
                let of_policy = &compiled.policy.rules[rule as usize];
                let further = (known..terms.len()).map(|at| counter(of_policy, at, memory));
                numbers.push(OverrideLimits { rule, further: further.collect(), terms });
            }
        }
        Ok(ClientOverride { source, numbers, covered: None })
    }

    /// Returns the override that applies at `now`, if any does.
    fn live(
        self: &Arc<ClientOverride>,
        now: impl Fn() -> Timestamp,
    ) -> Option<&Arc<ClientOverride>> {
        let is_live =
            |own: &&Arc<ClientOverride>| own.source.until.is_none_or(|until| now() < until);
        Some(self).filter(is_live).or_else(|| self.covered.as_ref().filter(is_live))
    }

    fn policy_entry(self: &Arc<ClientOverride>) -> Option<&Arc<ClientOverride>> {
        match self.source {
            OverrideOrigin::Policy(..) => Some(self),
            OverrideOrigin::RunTime(_) => self.covered.as_ref(),
        }
    }

    /// The client's own limits of a rule.
    pub(super) fn terms(&self, rule: u32) -> Option<&OverrideLimits> {
        self.numbers.iter().find(|of| of.rule == rule)
    }

    /// The values of its client in the form in which requests are looked up.
    fn values<'s>(&'s self, shape: &'s ShapeAttributes) -> impl Iterator<Item = Cow<'s, str>> {
        shape.values_of(&self.source.client)
    }
}

impl Overrides {
    /// What is different for the client of `request` now: of those that fit, the one that names
    /// the most attributes, and of as many the one whose names come first in the alphabet.
    #[inline]
    pub(super) fn find(
        &self,
        request: &Request<'_>,
        memory: &Memory,
    ) -> Option<&Arc<ClientOverride>> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.iter().filter_map(|shape| shape.find(request));
        found.filter_map(|own| own.live(|| memory.now())).next()
    }

    /// Puts `own` in, instead of any other of the same client. One of run time covers the policy's.
    pub(super) fn set(&mut self, mut own: ClientOverride, addresses: &AddressAttributes) {
        let shape = self.shape(&own.source.client, addresses);
        let attributes = Arc::clone(&shape.attributes);
        let hash = hash(own.values(&attributes));
        let piece = Arc::make_mut(&mut shape.pieces[piece(hash)]);
        let same =
            |other: &Arc<ClientOverride>| other.values(&attributes).eq(own.values(&attributes));
        if let Ok(entry) = piece.find_entry(hash, same) {
            let (replaced, _) = entry.remove();
            if let OverrideOrigin::RunTime(_) = own.source {
                own.covered = replaced.policy_entry().cloned();
            }
        }
        piece.insert_unique(hash, Arc::new(own), |own| self::hash(own.values(&attributes)));
    }

    /// Removes the run-time override of `client`: the policy's, if there is one, applies again.
    pub(super) fn remove_run_time(&mut self, client: &Client) {
        let Ok(place) = self.place(client) else { return };
        let shape = &mut self.0[place];
        let attributes = Arc::clone(&shape.attributes);
        let hash = hash(attributes.values_of(client));
        let piece = Arc::make_mut(&mut shape.pieces[piece(hash)]);
        let is_meant = |own: &Arc<ClientOverride>| {
            matches!(own.source, OverrideOrigin::RunTime(_))
                && own.values(&attributes).eq(attributes.values_of(client))
        };
        let Ok(entry) = piece.find_entry(hash, is_meant) else { return };
        let (removed, _) = entry.remove();
        if let Some(covered) = &removed.covered {
            let of = |own: &Arc<ClientOverride>| self::hash(own.values(&attributes));
            piece.insert_unique(hash, Arc::clone(covered), of);
        }
        // Every shape costs every check a lookup.
        if shape.pieces.iter().all(|piece| piece.is_empty()) {
            self.0.remove(place);
        }
    }

    /// Returns the policy's override of `client`.
    pub(super) fn policy_entry(&self, client: &Client) -> Option<&Override> {
        self.own_of(client)?.policy_entry().map(|own| &*own.source)
    }

    fn own_of(&self, client: &Client) -> Option<&Arc<ClientOverride>> {
        let shape = &self.0[self.place(client).ok()?];
        let hash = hash(shape.attributes.values_of(client));
        let same = |own: &Arc<ClientOverride>| {
            own.values(&shape.attributes).eq(shape.attributes.values_of(client))
        };
        shape.pieces[piece(hash)].find(hash, same)
    }

    /// Returns the override of `client` that applies at `now`, or one that has ended.
    pub(super) fn get(&self, client: &Client, now: Timestamp) -> Option<ListedOverride> {
        self.own_of(client).map(|own| listed(own, now))
    }

    /// One override for each client: the one that applies at `now`, or one that has ended.
    pub(super) fn list(&self, now: Timestamp) -> impl Iterator<Item = ListedOverride> {
        let pieces = self.0.iter().flat_map(|shape| &shape.pieces);
        pieces.flat_map(|piece| piece.iter()).map(move |own| listed(own, now))
    }

    /// The shape of `client`, made if there is none.
    fn shape(&mut self, client: &Client, addresses: &AddressAttributes) -> &mut OverrideShape {
        let place = self.place(client).unwrap_or_else(|place| {
            self.0.insert(place, OverrideShape::new(client, addresses));
            place
        });
        &mut self.0[place]
    }

    /// Where the shape of `client` is, or belongs: those of more attributes come first, and of as
    /// many those whose names do, so that the order in which overrides were set changes nothing.
    fn place(&self, client: &Client) -> Result<usize, usize> {
        self.0.binary_search_by(|shape| {
            let longer = client.len().cmp(&shape.attributes.0.len());
            longer.then_with(|| shape.attributes.0.iter().map(|(name, _)| name).cmp(client.keys()))
        })
    }
}

impl OverrideShape {
    fn new(client: &Client, addresses: &AddressAttributes) -> OverrideShape {
        let attributes = client.keys().map(|name| (name.clone(), addresses.get(name).copied()));
        let attributes = Arc::new(ShapeAttributes(attributes.collect()));
        OverrideShape { attributes, pieces: vec![Arc::default(); PIECES] }
    }

    fn find(&self, request: &Request<'_>) -> Option<&Arc<ClientOverride>> {
        let mut values: SmallVec<[Cow<'_, str>; 4]> = SmallVec::new();
        for (attribute, prefix) in &self.attributes.0 {
            let value = canonical::received(request, attribute)?;
            values.push(canonical::of_client(attribute, value, *prefix));
        }
        let hash = hash(values.iter());
        let same =
            |own: &Arc<ClientOverride>| own.values(&self.attributes).eq(values.iter().cloned());
        self.pieces[piece(hash)].find(hash, same)
    }
}

impl ShapeAttributes {
    /// The values of a client in the form in which requests are looked up.
    fn values_of<'s>(&'s self, client: &'s Client) -> impl Iterator<Item = Cow<'s, str>> {
        let values = self.0.iter().zip(client.values());
        values.map(|((name, prefix), value)| canonical::of_client(name, value, *prefix))
    }
}

fn listed(own: &Arc<ClientOverride>, now: Timestamp) -> ListedOverride {
    let source = &own.live(|| now).unwrap_or(own).source;
    ListedOverride { details: Override::clone(source), source: source.origin() }
}

fn hash(values: impl Iterator<Item = impl AsRef<str>>) -> u64 {
    let mut hasher = PolicyHasher::default();
    values.for_each(|value| value.as_ref().hash(&mut hasher));
    hasher.finish()
}

fn piece(hash: u64) -> usize {
    // The table itself uses the hash's upper and lower ends.
    usize::from(hash.to_le_bytes()[3]) % PIECES
}
