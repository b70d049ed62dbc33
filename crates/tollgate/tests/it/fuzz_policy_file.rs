//! Any text: what is read as a policy is valid, and written back as a file that reads the same.

use tollgate::{Policy, PolicyFileError};

/// Reads the bytes as a policy file.
pub(crate) fn policy_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // The table of a larger document is found or not, and lines are within the text.
    if let Err(error) = Policy::from_toml_at("fuzz.toml", text, &["test", "0", "policy"]) {
        is_told(&error, text);
    }
    let loaded = match Policy::from_toml("fuzz.toml", text) {
        Ok(loaded) => loaded,
        Err(error) => return is_told(&error, text),
    };
    assert_eq!(loaded.policy.validate(), Ok(()), "{text:?} was read");
    let lines = text.lines().count().max(1);
    assert!(loaded.warnings.iter().all(|warning| (1..=lines).contains(&warning.line)));
    let written = loaded.policy.to_toml();
    let again = Policy::from_toml("written.toml", &written);
    let again = again.unwrap_or_else(|error| panic!("{text:?} was written as\n{written}\n{error}"));
    assert_eq!(again.policy, loaded.policy, "{text:?} was written as\n{written}");
    assert_eq!(again.policy.to_toml(), written);
}

/// Something is said, of a line that is there.
fn is_told(error: &PolicyFileError, text: &str) {
    assert!(!error.diagnostics.is_empty());
    for finding in &error.diagnostics {
        assert!((1..=text.lines().count() + 1).contains(&finding.line), "{finding}");
        assert!(!finding.message.is_empty() && !finding.message.contains('\n'), "{finding:?}");
    }
}

#[test]
fn any_text_is_rejected_or_written_back_as_the_same_policy() {
    tollgate_testkit::fuzz("policy_file", 50_000, policy_file);
}
