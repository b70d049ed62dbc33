//! Helpers for what people see.

use std::path::Path;

/// Compares a text with the file of this name in `tests/golden`.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    tollgate_testkit::assert_golden(&folder.join(name), text);
}

/// The text of every element with this tag, in order, up to the next tag.
pub(crate) fn elements(markup: &str, tag: &str) -> Vec<String> {
    let start = format!("<{tag}");
    let starts = markup.split(&start).skip(1).filter(|rest| rest.starts_with([' ', '>']));
    let inner = starts.filter_map(|rest| rest.split_once('>'));
    inner.map(|(_, rest)| rest.split('<').next().unwrap_or_default().to_owned()).collect()
}
