//! Which node serves which slot, as far as is known.

use std::sync::Arc;

use redis::Value;

use super::node::{ClusterNode, NodeAddress};
use super::slot::{SLOTS, slot};
use crate::error::StoreError;

/// How many names are tried for a probe: enough to find one even in a single slot.
const PROBE_NAMES: usize = 20 * SLOTS;

/// Never changed: a newer one takes its place.
pub(crate) struct SlotMap {
    pub(crate) nodes: Vec<ClusterNode>,
    /// The number of the node that serves each slot; `u16::MAX` for none.
    owners: Box<[u16]>,
}

impl SlotMap {
    /// Nothing is known yet.
    pub(crate) fn unknown() -> SlotMap {
        SlotMap { nodes: Vec::new(), owners: vec![u16::MAX; SLOTS].into() }
    }

    /// `ranges` are first and last slot, and who serves them; `node` finds the node of an address.
    pub(crate) fn new(
        ranges: &[(usize, usize, NodeAddress)],
        mut node: impl FnMut(&NodeAddress) -> ClusterNode,
    ) -> Result<SlotMap, StoreError> {
        let mut map = SlotMap::unknown();
        for (first, last, address) in ranges {
            let number = map.number(address, &mut node)?;
            if let Some(slots) = map.owners.get_mut(*first..=*last) {
                slots.fill(number);
            }
        }
        Ok(map)
    }

    /// The same with one slot served by another.
    pub(crate) fn with(&self, slot: usize, node: &ClusterNode) -> SlotMap {
        let mut map = SlotMap { nodes: self.nodes.clone(), owners: self.owners.clone() };
        if let Ok(number) = map.number(&node.address, |_| node.clone()) {
            map.owners[slot % SLOTS] = number;
        }
        map
    }

    /// The same with one more node, which serves nothing.
    pub(crate) fn and(&self, node: &ClusterNode) -> SlotMap {
        let mut map = SlotMap { nodes: self.nodes.clone(), owners: self.owners.clone() };
        map.nodes.push(node.clone());
        map
    }

    /// The node that serves `slot`; for no slot in particular, any.
    pub(crate) fn owner(&self, slot: Option<usize>) -> Option<&ClusterNode> {
        match slot {
            Some(slot) => self.nodes.get(usize::from(*self.owners.get(slot)?)),
            None => self.nodes.first(),
        }
    }

    /// Of every slot, the number of the node that serves it.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Option<usize>> {
        self.owners.iter().map(|owner| (*owner != u16::MAX).then_some(usize::from(*owner)))
    }

    pub(crate) fn node(&self, address: &NodeAddress) -> Option<&ClusterNode> {
        self.nodes.iter().find(|node| node.address == *address)
    }

    fn number(
        &mut self,
        address: &NodeAddress,
        mut node: impl FnMut(&NodeAddress) -> ClusterNode,
    ) -> Result<u16, StoreError> {
        let known = self.nodes.iter().position(|node| node.address == *address);
        let number = match known {
            Some(number) => number,
            None => {
                self.nodes.push(node(address));
                self.nodes.len() - 1
            }
        };
        u16::try_from(number).map_err(|_| StoreError::Incompatible("too many nodes".to_owned()))
    }
}

/// An answer to CLUSTER SLOTS: first and last slot, and the primary that serves them.
pub(crate) fn ranges(answer: Value, asked: &NodeAddress) -> Vec<(usize, usize, NodeAddress)> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    ranges.into_iter().filter_map(|range| read_range(range, asked)).collect()
}

/// A key in a slot that the node at `address` serves, to be written in a probe.
pub(crate) fn probe_key(
    ranges: &[(usize, usize, NodeAddress)],
    address: &NodeAddress,
) -> Option<String> {
    let own: Vec<(usize, usize)> = ranges
        .iter()
        .filter(|(_, _, server)| server == address)
        .map(|(first, last, _)| (*first, *last))
        .collect();
    if own.is_empty() {
        return None;
    }
    let is_own = |key: &String| {
        let slot = slot(key.as_bytes());
        own.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    };
    (0..PROBE_NAMES).map(|number| format!("tg:{{{number}}}:probe")).find(is_own)
}

fn read_range(range: Value, asked: &NodeAddress) -> Option<(usize, usize, NodeAddress)> {
    let Value::Array(range) = range else { return None };
    let mut range = range.into_iter();
    let (Value::Int(first), Value::Int(last)) = (range.next()?, range.next()?) else { return None };
    let Value::Array(primary) = range.next()? else { return None };
    let mut primary = primary.into_iter();
    let host: Arc<str> = match primary.next()? {
        // A node that does not know its own address means: where you have reached me.
        Value::Nil => asked.host.clone(),
        Value::BulkString(bytes) if bytes.is_empty() => asked.host.clone(),
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).ok().filter(|host| host != "?")?.into()
        }
        Value::SimpleString(text) => text.into(),
        _ => return None,
    };
    let Value::Int(port) = primary.next()? else { return None };
    let (first, last) = (usize::try_from(first).ok()?, usize::try_from(last).ok()?);
    let address = NodeAddress { host, port: u16::try_from(port).ok()? };
    (first <= last && last < SLOTS).then_some((first, last, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_s_key_lies_where_the_node_serves() {
        let at = |port| NodeAddress { host: "a".into(), port };
        let ranges = [(0, 8000, at(1)), (8001, 8001, at(2)), (8002, SLOTS - 1, at(1))];
        let key = probe_key(&ranges, &at(2)).expect("it serves a slot");
        assert_eq!(slot(key.as_bytes()), 8001);
        assert_ne!(slot(probe_key(&ranges, &at(1)).expect("it serves slots").as_bytes()), 8001);
        assert_eq!(probe_key(&ranges, &at(3)), None);
    }
}
