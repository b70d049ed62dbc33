//! What is different between two policies, for the audit log.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate::{Policy, Rule};

use crate::bounds::MAX_CHANGES_NAMED;

/// The names of the rules that were added, removed and changed, and other settings that differ.
pub(super) fn changes(before: &Policy, after: &Policy) -> Value {
    let (old, new) = (by_name(before), by_name(after));
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let changed = new.iter().filter(|(name, rule)| old.get(*name).is_some_and(|was| was != *rule));
    let mut omitted = 0;
    let rules = json!({
        "added": few(added, &mut omitted),
        "removed": few(removed, &mut omitted),
        "changed": few(changed.map(|(name, _)| name), &mut omitted),
        "omitted": omitted,
    });
    json!({"rules": rules, "other_settings": other_settings(before, after)})
}

fn by_name(policy: &Policy) -> BTreeMap<&str, &Rule> {
    policy.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect()
}

/// As many as an entry may name.
fn few<'a>(names: impl Iterator<Item = &'a &'a str>, omitted: &mut usize) -> Vec<&'a str> {
    let mut all: Vec<&str> = names.copied().collect();
    *omitted += all.len().saturating_sub(MAX_CHANGES_NAMED);
    all.truncate(MAX_CHANGES_NAMED);
    all
}

/// The names, as in a policy file, of what was changed that is no rule.
fn other_settings(before: &Policy, after: &Policy) -> Vec<&'static str> {
    let all = [
        ("allow", before.allow != after.allow),
        ("deny", before.deny != after.deny),
        ("tiers", before.tiers != after.tiers),
        ("tier_from", before.tier_from != after.tier_from),
        ("default_tier", before.default_tier != after.default_tier),
        ("override", before.overrides != after.overrides),
        ("on_store_error", before.on_store_error != after.on_store_error),
        ("sync", before.sync != after.sync),
        ("lease_ttl", before.lease_ttl != after.lease_ttl),
        ("lease_share", before.lease_share != after.lease_share),
        ("partition", before.partition != after.partition),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::from_toml("test.toml", text).unwrap().policy
    }

    fn rules(names: impl Iterator<Item = usize>, limit: &str) -> String {
        let rule = |number| format!("[[rule]]\nname = \"r{number:03}\"\nlimit = \"{limit}\"\n");
        names.map(rule).collect()
    }

    #[test]
    fn rules_are_named_by_what_became_of_them() {
        let before = policy(&format!("{}{}", rules(0..2, "1/s"), rules(2..4, "1/s")));
        let after = policy(&format!(
            "default_tier = \"free\"\n{}{}[tiers.free]\nr001 = \"9/s\"\n",
            rules(1..3, "1/s"),
            rules(3..5, "2/s"),
        ));
        let expected = json!({
            "rules": {"added": ["r004"], "removed": ["r000"], "changed": ["r003"], "omitted": 0},
            "other_settings": ["tiers", "default_tier"],
        });
        assert_eq!(changes(&before, &after), expected);
        let none = json!({"added": [], "removed": [], "changed": [], "omitted": 0});
        assert_eq!(changes(&before, &before), json!({"rules": none, "other_settings": []}));
    }

    #[test]
    fn an_entry_names_a_bounded_number_of_rules() {
        let many = policy(&rules(0..MAX_CHANGES_NAMED + 7, "1/s"));
        let told = changes(&Policy::new(), &many);
        assert_eq!(told["rules"]["added"].as_array().unwrap().len(), MAX_CHANGES_NAMED);
        assert_eq!(told["rules"]["omitted"], 7);
    }
}
