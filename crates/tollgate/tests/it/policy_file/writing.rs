//! What is written reads back the same.

use proptest::prelude::*;
use tollgate::{Condition, Glob, Limit, Policy, Rule};

use super::arbitrary::policy;
use super::loads;

proptest! {
    #[test]
    fn any_policy_reads_back_as_it_was_written(policy in policy()) {
        prop_assert_eq!(policy.validate(), Ok(()));
        let text = policy.to_toml();
        let read = match Policy::from_toml("t.toml", &text) {
            Ok(loaded) => loaded.policy,
            Err(error) => return Err(TestCaseError::fail(format!("{text}\n{error}"))),
        };
        prop_assert_eq!(&read, &policy, "{}", text);
        prop_assert_eq!(read.to_toml(), text);
    }

    #[test]
    fn any_text_is_refused_or_read(text in any::<String>()) {
        let _ = Policy::from_toml("t.toml", &text);
    }
}

/// A file with everything in it, in the form in which it is written.
const EVERYTHING: &str = include_str!("../../golden/schema/accepted/everything.toml");

#[test]
fn the_written_form_is_the_only_one() {
    assert_eq!(loads(EVERYTHING).policy.to_toml(), EVERYTHING);
}

#[test]
fn conditions_of_one_attribute_are_written_side_by_side() {
    let rule = Rule::new("r").key(["user"]).limit(Limit::per_second(1));
    let policy = Policy::new().rule(
        rule.matches("a", Condition::Present)
            .matches("b", "1")
            .matches("a", Condition::Glob(vec![Glob::new("x*")])),
    );
    let line = "match = { a = { present = true, glob = \"x*\" }, b = \"1\" }";
    assert!(policy.to_toml().lines().any(|written| written == line), "{}", policy.to_toml());
}
