//! Which requests are worth a line: long runs of equal answers are cut short.

use super::play::Request;

/// How much of the table is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    Short,
}

/// A line of the table.
pub(super) enum Line<'a> {
    Request(&'a Request),
    /// Requests that are not printed.
    Gap(&'a [Request]),
}

/// A run of equal answers that is longer than this is cut to its beginning and its last.
const LONG_RUN: usize = 6;
const RUN_HEAD: usize = 3;

/// A table that is still longer than this loses its middle.
const LONG_TABLE: usize = 48;
const TABLE_HEAD: usize = 36;
const TABLE_TAIL: usize = 4;

pub(super) fn lines(requests: &[Request], shown: Shown) -> Vec<Line<'_>> {
    if shown == Shown::All {
        return requests.iter().map(Line::Request).collect();
    }
    let mut lines = Vec::new();
    let mut printed = 0;
    for run in requests.chunk_by(alike) {
        if lines.len() >= TABLE_HEAD && requests.len() - printed > LONG_TABLE - TABLE_HEAD {
            break;
        }
        lines.extend(cut(run));
        printed += run.len();
    }
    let rest = &requests[printed..];
    let (hidden, tail) = rest.split_at(rest.len().saturating_sub(TABLE_TAIL));
    if !hidden.is_empty() {
        lines.push(Line::Gap(hidden));
    }
    lines.extend(tail.iter().map(Line::Request));
    lines
}

fn alike(a: &Request, b: &Request) -> bool {
    (a.allowed, a.decided_by) == (b.allowed, b.decided_by)
}

fn cut(run: &[Request]) -> Vec<Line<'_>> {
    match run {
        [head @ .., last] if run.len() > LONG_RUN => {
            let (first, hidden) = head.split_at(RUN_HEAD);
            let first = first.iter().map(Line::Request);
            first.chain([Line::Gap(hidden), Line::Request(last)]).collect()
        }
        _ => run.iter().map(Line::Request).collect(),
    }
}
