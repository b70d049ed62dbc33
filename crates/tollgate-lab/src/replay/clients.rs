//! Who is refused most, with the first line it happened to.

use tollgate::{Request, Ruling};
use xxhash_rust::xxh3::xxh3_64;

use super::bounds::{SHOWN_KEY, SHOWN_LINE};
use super::merge::Taken;
use super::report::{ClientReport, Clients, Example, cut, moment};
use super::top::{Counted, Top};

/// A request that is refused.
pub(super) struct Refusal<'r, 'q> {
    pub(super) ruling: &'r Ruling,
    pub(super) request: &'r Request<'q>,
    pub(super) line: &'r Taken<'r>,
    /// Microseconds.
    pub(super) now: u64,
}

/// Keys and how often each was refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    top: Top<Client>,
    /// Where a key is written down to be found.
    name: Vec<u8>,
}

#[derive(Debug)]
struct Client {
    rule: String,
    key: Vec<(String, String)>,
    first: u64,
    last: u64,
    example: Example,
}

impl Refusals {
    pub(super) fn add(&mut self, refusal: &Refusal<'_, '_>) {
        let Refusal { ruling, request, line, now } = *refusal;
        let rule = ruling.decided_by_name().unwrap_or_default();
        self.name.clear();
        for (name, value) in std::iter::once((rule, "".into())).chain(ruling.key(request)) {
            // Lengths between: no two keys are written alike.
            for text in [name, &*value] {
                self.name.extend_from_slice(&text.len().to_le_bytes());
                self.name.extend_from_slice(text.as_bytes());
            }
        }
        let new = || Client {
            rule: rule.to_owned(),
            key: ruling.key(request).map(|(name, value)| (name.into(), shown(&value))).collect(),
            first: now,
            last: now,
            example: Example {
                log: line.log.to_owned(),
                line: line.entry.line,
                text: cut(line.text(), SHOWN_LINE),
            },
        };
        self.top.add(xxh3_64(&self.name), new, |client| client.last = now);
    }

    pub(super) fn into_clients(self, most: usize) -> Clients {
        let (refused, exact) = (self.top.len() as u64, !self.top.is_crowded());
        let top = self.top.into_largest(most, |client| (client.rule.clone(), client.key.clone()));
        Clients { refused, exact, top: top.into_iter().map(report).collect() }
    }
}

fn shown(value: &str) -> String {
    cut(value, SHOWN_KEY)
}

fn report(counted: Counted<Client>) -> ClientReport {
    let Counted { count, over, value: client } = counted;
    ClientReport {
        rule: client.rule,
        key: client.key,
        refused: count,
        over,
        first: moment(client.first),
        last: moment(client.last),
        example: client.example,
    }
}
