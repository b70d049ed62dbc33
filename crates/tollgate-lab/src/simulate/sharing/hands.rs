//! What nodes keep of a limit, each by itself.

use std::collections::BTreeMap;

use tollgate::port::{Borrower, ScriptState};

use super::Sharing;

/// A node and a key.
pub(super) type Place = (u32, u32);

/// What all nodes keep.
pub(super) enum Hands {
    /// Nothing.
    None,
    /// Leases.
    Leases(BTreeMap<Place, Lease>),
    /// Copies of what the store has, as far as they know.
    Copies(BTreeMap<Place, Copy>),
    /// Their parts.
    Parts(BTreeMap<Place, ScriptState>),
}

#[derive(Default)]
pub(super) struct Lease {
    pub(super) lessee: Borrower,
    /// Whether somebody looks after its end.
    pub(super) watched: bool,
}

pub(super) struct Copy {
    pub(super) state: ScriptState,
    /// Units admitted that the store has not been told of.
    pub(super) untold: u64,
    /// Whether the store will be told, or is being told.
    pub(super) telling: bool,
}

impl Default for Copy {
    fn default() -> Copy {
        Copy { state: ScriptState::New, untold: 0, telling: false }
    }
}

impl Hands {
    pub(super) fn of(way: Sharing) -> Hands {
        match way {
            Sharing::Strict => Hands::None,
            Sharing::Leased => Hands::Leases(BTreeMap::new()),
            Sharing::Periodic => Hands::Copies(BTreeMap::new()),
            Sharing::Divided => Hands::Parts(BTreeMap::new()),
        }
    }

    /// A node loses what it kept.
    pub(super) fn crash(&mut self, node: u32) {
        let kept = |place: &Place| place.0 != node;
        match self {
            Hands::None => {}
            Hands::Leases(leases) => leases.retain(|place, _| kept(place)),
            Hands::Copies(copies) => copies.retain(|place, _| kept(place)),
            Hands::Parts(parts) => parts.retain(|place, _| kept(place)),
        }
    }
}
