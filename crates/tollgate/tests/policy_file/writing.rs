//! What is written reads back the same.

use proptest::prelude::*;
use tollgate::{Condition, Glob, Limit, Policy, Rule};

use crate::arbitrary::policy;
use crate::loads;

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
pub(crate) const EVERYTHING: &str = r#"tier_from = "plan"
default_tier = "free"
on_store_error = "deny"
sync = "leased"
lease_ttl = "2s"
lease_share = "50%"
partition = "tenant"

[[rule]]
name = "search"
match = { route = { prefix = "/search", glob = "*.json" }, method = ["GET", "HEAD"], ip = { cidr = "10.0.0.0/8" }, bot = { absent = true } }
key = ["tenant", "user"]
defaults = { user = "anonymous" }
limits = ["10/s", "1000/h sliding_log"]
tiers = { internal = "unlimited", pro = "100/s" }
cost = { attribute = "tokens", multiplier = 2 }
shadow = true
on_store_error = "local"
sync = "strict"
lease_ttl = "500ms"
lease_share = "10%"

[[rule]]
name = "login"
match = { route = { all = [{ prefix = "/a" }, { prefix = "/a/b" }] } }
key = ["ip"]
limit = "10/h sliding_log"
cost = 3
block_for = { first = "15m", factor = 2, max = "1d" }

[[allow]]
name = "office"
match = { ip = { cidr = ["192.0.2.0/24", "2001:db8::/32"] } }

[[deny]]
name = "banned"
match = { "user agent" = "a \"bad\" one\n" }

[tiers.free]
search = "1/s"

[[override]]
client = { user = "42" }
tier = "pro"
limits = { login = "unlimited" }
until = 2030-01-31T12:00:00.5Z
"#;

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
    let line = "match = { a = { present = true, glob = \"x*\" }, b = \"1\" }\n";
    assert!(policy.to_toml().contains(line), "{}", policy.to_toml());
}
