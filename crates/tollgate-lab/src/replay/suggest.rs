//! What other numbers would have refused, as it is told.

use tollgate::{Limit, Policy};

use super::ladder::{Ladder, LeftOut};
use super::report::{NotSuggested, Smallest, Suggestion, Tried};

/// The shares that limits are suggested for, of a thousand requests.
const SHARES: [u64; 3] = [1, 10, 50];

/// What is suggested, and for which limits nothing is.
pub(super) fn suggestions(
    (mut ladders, mut left_out): (Vec<Ladder>, Vec<LeftOut>),
    policy: &Policy,
) -> (Vec<Suggestion>, Vec<NotSuggested>) {
    // The limits of a rule stay in the order in which they were first met.
    ladders.sort_by_key(|ladder| ladder.rule);
    let mut suggestions = Vec::new();
    for ladder in ladders {
        match suggestion(&ladder, policy) {
            Some(suggestion) => suggestions.push(suggestion),
            None => left_out.push(LeftOut {
                rule: ladder.rule,
                limit: ladder.limit,
                why: "it has too many keys to look at",
            }),
        }
    }
    left_out.sort_by_key(|of| of.rule);
    let told = left_out.iter().map(|of| NotSuggested {
        rule: policy.rules.get(of.rule).map(|rule| rule.name.clone()).unwrap_or_default(),
        limit: of.limit.to_string(),
        why: of.why.to_owned(),
    });
    (suggestions, told.collect())
}

/// Nothing where no request was looked at to the end.
fn suggestion(ladder: &Ladder, policy: &Policy) -> Option<Suggestion> {
    let one_key_in = ladder.one_in()?;
    let (requests, refused) = ladder.refused();
    if requests == 0 {
        return None;
    }
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
