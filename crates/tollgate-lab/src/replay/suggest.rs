//! What other numbers would have refused, as it is told.

use tollgate::{Limit, Policy};

use super::ladder::Ladder;
use super::report::{Smallest, Suggestion, Tried};

/// The shares that limits are suggested for, of a thousand requests.
const SHARES: [u64; 3] = [1, 10, 50];

pub(super) fn suggestions(mut ladders: Vec<Ladder>, policy: &Policy) -> Vec<Suggestion> {
    // The limits of a rule stay in the order in which they were first met.
    ladders.sort_by_key(|ladder| ladder.rule);
    ladders.iter().filter_map(|ladder| suggestion(ladder, policy)).collect()
}

fn suggestion(ladder: &Ladder, policy: &Policy) -> Option<Suggestion> {
    let one_key_in = ladder.one_in()?;
    let (requests, refused) = ladder.refused();
    let tried = ladder.rungs.iter().zip(&refused);
    let in_force = tried.clone().find(|(rung, _)| **rung == ladder.limit)?;
    let smallest = |per_thousand| {
        let found = ladder.smallest(per_thousand);
        Smallest {
            per_thousand,
            limit: found.map(|(limit, _)| limit.to_string()),
            refused: found.map_or(0, |(_, refused)| refused),
        }
    };
    let tried = tried.map(|(limit, refused): (&Limit, &u64)| Tried {
        limit: limit.to_string(),
        count: limit.count(),
        refused: *refused,
    });
    Some(Suggestion {
        rule: policy.rules.get(ladder.rule)?.name.clone(),
        limit: ladder.limit.to_string(),
        requests,
        refused: *in_force.1,
        one_key_in,
        smallest: SHARES.map(smallest).into(),
        tried: tried.collect(),
    })
}
