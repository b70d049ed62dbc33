//! Reading a large file in pieces. The tree of a document takes thirty times the memory of its text,
//! and getting that memory takes longer than reading; the tree of a piece is used again for the next.
//!
//! Only files in which nothing is wrong or to be warned of are read so. Any other is read again as a
//! whole, by which each mistake is told with its line.

use toml::de::{DeTable, DeValue};

use super::document::read_policy;
use super::tree::Diagnostics;
use crate::policy::warnings::warnings;
use crate::policy::{Policy, check};

/// Bytes of a piece: its tree fits into a core's cache.
pub(super) const PIECE: usize = 32 << 10;

/// The lines at which a text is cut, and what each makes more of.
const HEADERS: [&str; 2] = ["[[rule]]", "[[override]]"];

/// What may stand behind the first cut: what each piece makes more of.
const LISTS: [&str; 4] = ["rule", "allow", "deny", "override"];

/// Reads a policy in pieces of about `size` bytes, if it has several and nothing is to be said of it.
pub(super) fn read(text: &str, size: usize) -> Option<Policy> {
    // A line of a longer string may look like a header.
    let is_plain = || !text.contains("\"\"\"") && !text.contains("'''");
    if text.len() <= 2 * size || !is_plain() {
        return None;
    }
    let mut policy = Policy::new();
    let (mut rest, mut is_first) = (text, true);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(end(rest, size));
        let (document, errors) = DeTable::parse_recoverable(piece);
        let top = document.get_ref();
        if !errors.is_empty() || !is_part(piece, top, is_first) {
            return None;
        }
        let mut report = Diagnostics::default();
        read_policy(&mut report, top, &mut policy);
        if !report.notes.is_empty() {
            return None;
        }
        (rest, is_first) = (after, false);
    }
    (check(&policy).is_ok() && warnings(&policy).is_empty()).then_some(policy)
}

/// How long the first piece of `text` is: up to the first header after `size` bytes.
fn end(text: &str, size: usize) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at >= size && HEADERS.contains(&line.trim_ascii()) {
            return at;
        }
        at += line.len();
    }
    text.len()
}

/// Whether the pieces of a document say together what it says: each only adds to lists, the first
/// may say more.
fn is_part(piece: &str, top: &DeTable<'_>, is_first: bool) -> bool {
    top.iter().all(|(key, value)| {
        if !LISTS.contains(&key.get_ref().as_ref()) {
            return is_first;
        }
        // A list that is written as one value cannot be added to.
        let before = piece.get(..key.span().start).unwrap_or_default();
        matches!(value.get_ref(), DeValue::Array(_)) && before.trim_ascii_end().ends_with('[')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: [&str; 14] = [
        "[[rule]]\nname = \"NEW\"\nkey = [\"user\"]\nlimit = \"10/s\"\n",
        "[[rule]]\nname = \"NEW\"\nkey = [\"ip\"]\nlimit = \"5/min\"\n[rule.tiers]\npro = \"9/s\"\n",
        "[[override]]\nclient = { user = \"NEW\" }\ntier = \"pro\"\n",
        "  [[override]]  \nclient.user = \"NEW\"\nlimits = { first = \"7/s\" }\n",
        "[[deny]]\nmatch = { user = \"NEW\" }\n",
        "[[allow]]\nname = \"NEW\"\nmatch = { user = \"NEW\" }\n",
        "[tiers.pro]\nfirst = \"20/s\"\n",
        "[rule.match]\nroute = \"/NEW\"\n",
        "# [[rule]]\n",
        "rule = []\n",
        "tier_from = \"plan\"\n",
        "[[rule]]\nname = \"NEW\"\nlimt = \"10/s\"\n",
        "x = [\n[[rule]]\n]\n",
        "y = \"\"\"\n[[override]]\n\"\"\"\n",
    ];

    proptest! {
        #[test]
        fn what_is_read_in_pieces_is_what_the_whole_says(
            parts in prop::collection::vec(0..PARTS.len() * 3, 1..14),
            size in 1_usize..200,
        ) {
            // Two of three are of the first six, which go together.
            let parts = parts.iter().map(|part| if *part < PARTS.len() { *part } else { part % 6 });
            let text: String = parts
                .enumerate()
                .map(|(number, part)| PARTS[part].replace("NEW", &format!("n{number}")))
                .collect();
            let text = format!("{}{text}", PARTS[0].replace("NEW", "first"));
            if let Some(policy) = read(&text, size) {
                let whole = Policy::from_toml("whole.toml", &text);
                let whole = whole.unwrap_or_else(|error| panic!("{text}\n{error}"));
                prop_assert_eq!(&policy, &whole.policy, "{}", text);
                prop_assert!(whole.warnings.is_empty(), "{}", text);
            }
        }
    }

    #[test]
    fn a_document_of_several_pieces_is_read() {
        let text: String = (0..6)
            .map(|number| PARTS[number].replace("NEW", &format!("n{number}")))
            .collect::<String>()
            .replace("first", "n0");
        let text = format!("default_tier = \"pro\"\n{text}");
        let whole = Policy::from_toml("whole.toml", &text).unwrap();
        let read = read(&text, 1).unwrap_or_else(|| panic!("{text}\n{:?}", whole.warnings));
        assert_eq!(read, whole.policy);
        assert_eq!((read.rules.len(), read.overrides.len(), read.deny.len()), (2, 2, 1));
    }
}
