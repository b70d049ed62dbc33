//! A request that the policy in force limits, for people to try.

use tollgate::{Condition, ListEntry, Policy, Rule};

/// Attributes by name.
pub(super) type Attributes = Vec<(String, String)>;

/// What a request of the first rule that can be met looks like.
pub(super) fn request(policy: &Policy) -> Attributes {
    let listed = |attributes: &Attributes| {
        let is_met = |list: &ListEntry| meets(&list.matches, attributes);
        policy.allow.iter().chain(&policy.deny).any(is_met)
    };
    // Those that only report come last: nothing is to be seen of them.
    let enforced = policy.rules.iter().filter(|rule| !rule.shadow);
    let mut rules = enforced.chain(policy.rules.iter().filter(|rule| rule.shadow));
    let found = rules.find_map(|rule| of_rule(rule).filter(|attributes| !listed(attributes)));
    found.unwrap_or_else(|| vec![("user".to_owned(), usual("user"))])
}

fn of_rule(rule: &Rule) -> Option<Attributes> {
    let mut attributes = Attributes::new();
    let mut put = |name: &str, value: String| {
        if !attributes.iter().any(|(known, _)| known == name) {
            attributes.push((name.to_owned(), value));
        }
    };
    for (name, condition) in &rule.matches {
        if let Some(value) = fulfilling(name, condition) {
            put(name, value);
        }
    }
    for part in rule.key.iter().filter(|part| part.default.is_none()) {
        put(&part.attribute, usual(&part.attribute));
    }
    meets(&rule.matches, &attributes).then_some(attributes)
}

fn meets(conditions: &[(String, Condition)], attributes: &Attributes) -> bool {
    conditions.iter().all(|(name, condition)| {
        let value = attributes.iter().find(|(known, _)| known == name);
        condition.matches(value.map(|(_, value)| value.as_str()))
    })
}

/// A value that probably fulfils it; none where none is needed.
fn fulfilling(name: &str, condition: &Condition) -> Option<String> {
    match condition {
        Condition::Equals(value) => Some(value.clone()),
        Condition::AnyOf(values) | Condition::Prefix(values) => values.first().cloned(),
        Condition::Glob(globs) => {
            globs.first().map(|glob| glob.to_string().replace(['*', '?'], "x"))
        }
        Condition::Cidr(networks) => networks.first().map(|network| network.addr().to_string()),
        Condition::Present => Some(usual(name)),
        _ => None,
    }
}

/// What such an attribute usually looks like.
fn usual(name: &str) -> String {
    let is_address = ["ip", "address", "remote_address", "client_ip"].contains(&name);
    if is_address { "203.0.113.7".to_owned() } else { "42".to_owned() }
}

#[cfg(test)]
mod tests {
    use tollgate::{Gate, Request};

    use super::*;

    fn asked(policy: &Policy) -> (Attributes, Option<String>) {
        let attributes = request(policy);
        let gate = Gate::new(policy.clone()).unwrap();
        let pairs = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let rule = gate.peek(&pairs.collect::<Request<'_>>()).decided_by_name().map(str::to_owned);
        (attributes, rule)
    }

    #[test]
    fn every_policy_that_is_shipped_has_something_to_say_of_its_sample() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".toml") && !name.ends_with(".test.toml") {
                let policy = Policy::load(&path).unwrap().policy;
                let (attributes, rule) = asked(&policy);
                assert!(rule.is_some(), "{name}: {attributes:?}");
                seen += 1;
            }
        }
        assert!(seen > 3);
    }

    #[test]
    fn a_sample_fulfils_what_the_rule_demands_and_is_on_no_list() {
        for (text, expected) in [
            (
                "[[rule]]\nname = \"r\"\nkey = [\"ip\"]\nlimit = \"1/s\"\n",
                vec![("ip", "203.0.113.7")],
            ),
            (
                "[[rule]]\nname = \"r\"\nmatch = { path = { prefix = \"/a/\" }, ip = { cidr = \"10.1.0.0/16\" } }\nkey = [\"tenant\"]\nlimit = \"1/s\"\n",
                vec![("ip", "10.1.0.0"), ("path", "/a/"), ("tenant", "42")],
            ),
            (
                "[[deny]]\nname = \"d\"\nmatch = { user = \"42\" }\n[[rule]]\nname = \"u\"\nkey = [\"user\"]\nlimit = \"1/s\"\n[[rule]]\nname = \"r\"\nmatch = { route = \"/x\" }\nlimit = \"1/s\"\n",
                vec![("route", "/x")],
            ),
        ] {
            let (mut attributes, rule) = asked(&Policy::from_toml("t", text).unwrap().policy);
            attributes.sort();
            let seen: Vec<_> =
                attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(seen, expected, "{text}");
            assert_eq!(rule.as_deref(), Some("r"), "{text}");
        }
        assert_eq!(request(&Policy::new()), [("user".to_owned(), "42".to_owned())]);
    }
}
