//! Conditions on addresses that no address fulfils: addresses are compared in one spelling.

use ipnet::IpNet;

use crate::policy::Condition;

/// Why texts of the condition on the address `attribute` match no address.
pub(super) fn never(attribute: &str, condition: &Condition) -> Vec<String> {
    let texts: &[String] = match condition {
        Condition::Equals(text) => std::slice::from_ref(text),
        Condition::AnyOf(texts) => texts,
        Condition::Prefix(texts) => {
            let never = texts.iter().filter(|text| !can_begin(text));
            let message = |text: &String| {
                format!(
                    "no value of {attribute:?} begins with {text:?}: addresses have no port, lower case and no leading zeros; write a network, cidr = \"2001:db8::/32\""
                )
            };
            return never.map(message).collect();
        }
        _ => return Vec::new(),
    };
    let networks = texts.iter().filter(|text| text.parse::<IpNet>().is_ok());
    let message = |text: &String| {
        format!(
            "{text:?} is a network, and no value of {attribute:?} equals it; write {{ cidr = {text:?} }}"
        )
    };
    networks.map(message).collect()
}

/// Whether an address in its one spelling, or a value that is no address, can begin with `text`.
fn can_begin(text: &str) -> bool {
    let is_of_address =
        |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '/' | '[' | ']' | '%');
    if !text.chars().all(is_of_address) || !text.contains([':', '.']) {
        return true;
    }
    let has_leading_zero = |group: &str| group.len() > 1 && group.starts_with('0');
    !text.contains(['/', '[', ']', '%'])
        && !text.chars().any(|c| c.is_ascii_uppercase())
        && !text.split([':', '.']).any(has_leading_zero)
}
