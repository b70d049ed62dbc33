//! Paths and addresses of requests, in the one form that a policy matches and counts.

use std::time::Duration;

use tollgate::{
    AddressPrefix, Condition, Gate, Glob, KeyAttribute, Limit, ListEntry, Override,
    OverrideRemoval, OverrideSource, Policy, Reason, Request, Rule,
};

use super::hourly;

fn networks(text: &str) -> Condition {
    Condition::Cidr(vec![text.parse().expect("a network")])
}

fn gate(policy: Policy) -> Gate {
    Gate::new(policy).expect("the policy is right")
}

fn of_path(path: &str) -> Request<'_> {
    Request::new().with("path", path)
}

fn of_ip(ip: &str) -> Request<'_> {
    Request::new().with("ip", ip)
}

#[test]
fn every_spelling_of_a_path_is_one_path_to_a_rule() {
    let rule = Rule::new("login").matches("path", "/login").key(["path"]).limit(hourly(4));
    let gate = gate(Policy::new().rule(rule));
    for spelling in ["/login", "/%6cogin", "//login", "/x/../login?a=1"] {
        assert!(gate.check(&of_path(spelling)).is_allowed(), "{spelling}");
    }
    for spelling in ["/login", "/./login", "/%2E%2e/login", "http://shop.example/login"] {
        assert!(!gate.check(&of_path(spelling)).is_allowed(), "{spelling}");
    }
    assert!(gate.check(&of_path("/login/")).is_allowed());
    assert_eq!(gate.check(&of_path("/login%2F")).reason(), Reason::NoRule);
}

#[test]
fn raw_path_is_the_path_as_it_was_received() {
    let escaped =
        ListEntry::new("escaped").matches("raw_path", Condition::Glob(vec![Glob::new("*%*")]));
    let gate = gate(Policy::new().deny(escaped));
    assert_eq!(gate.check(&of_path("/%6cogin")).reason(), Reason::DenyList);
    assert!(gate.check(&of_path("/login?next=%2F")).is_allowed());
    let given = of_path("/login").with("raw_path", "/%6cogin");
    assert_eq!(gate.check(&given).reason(), Reason::DenyList);
    assert!(gate.check(&Request::new()).is_allowed());
}

#[test]
fn lists_read_the_whole_address_and_keys_count_its_prefix() {
    let policy = Policy::new()
        .deny(ListEntry::new("one").matches("ip", "2001:DB8::bad"))
        .deny(ListEntry::new("network").matches("ip", networks("2001:db8::bad0/124")))
        .rule(Rule::new("per-ip").key(["ip"]).limit(hourly(2)));
    let gate = gate(policy);
    for denied in ["2001:db8::bad", "[2001:db8::bad]:443", "2001:0db8:0::0bad", "2001:db8::bad7"] {
        assert_eq!(gate.check(&of_ip(denied)).reason(), Reason::DenyList, "{denied}");
    }
    assert!(gate.check(&of_ip("2001:db8::1")).is_allowed());
    assert!(gate.check(&of_ip("2001:db8::ffff:2")).is_allowed());
    assert!(!gate.check(&of_ip("2001:db8:0:0:ffff::3")).is_allowed());
    assert!(gate.check(&of_ip("2001:db8:0:1::1")).is_allowed());
    let key = |ip| {
        let request = of_ip(ip);
        let ruling = gate.check(&request);
        ruling.key(&request).map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(key("2001:db8::7"), ["2001:db8::/64"]);
    assert_eq!(key("203.0.113.9:80"), ["203.0.113.9"]);
    assert_eq!(key("unknown"), ["unknown"]);
}

#[test]
fn allow_entry_of_one_address_lets_no_other_address_pass() {
    let rule = Rule::new("per-ip").key(["ip"]).limit(hourly(1));
    let allow = ListEntry::new("office").matches("ip", networks("2001:db8::1/128"));
    let gate = gate(Policy::new().allow(allow).rule(rule));
    assert_eq!(gate.check(&of_ip("2001:db8::1")).reason(), Reason::AllowList);
    assert_eq!(gate.check(&of_ip("2001:db8::2")).reason(), Reason::Limits);
}

#[test]
fn every_spelling_of_an_address_is_one_key() {
    let rule = Rule::new("per-ip").key(["ip"]).limit(hourly(3));
    let gate = gate(Policy::new().rule(rule));
    for spelling in ["203.0.113.9", "203.0.113.9:4711", "::ffff:203.0.113.9"] {
        assert!(gate.check(&of_ip(spelling)).is_allowed(), "{spelling}");
    }
    assert!(!gate.check(&of_ip("[::ffff:cb00:7109]:80")).is_allowed());
    assert_eq!(gate.keys("per-ip").len(), 1);
}

#[test]
fn each_rule_counts_the_prefix_that_it_declares() {
    let part = |v4, v6| KeyAttribute::address("ip", AddressPrefix::new(v4, v6));
    let policy = Policy::new()
        .rule(Rule::new("host").key([part(32, 128)]).limit(hourly(1)))
        .rule(Rule::new("site").key([part(24, 48)]).limit(hourly(2)));
    let gate = gate(policy);
    assert!(gate.check(&of_ip("203.0.113.1")).is_allowed());
    assert_eq!(gate.check(&of_ip("203.0.113.1")).decided_by_name(), Some("host"));
    assert!(gate.check(&of_ip("203.0.113.2")).is_allowed());
    assert_eq!(gate.check(&of_ip("203.0.113.3")).decided_by_name(), Some("site"));
    assert!(gate.check(&of_ip("2001:db8::1")).is_allowed());
    assert!(gate.check(&of_ip("2001:db8:0:ffff::1")).is_allowed());
    assert!(!gate.check(&of_ip("2001:db8:0:1::1")).is_allowed());
}

#[test]
fn another_attribute_is_an_address_if_a_key_declares_it() {
    let policy = Policy::new()
        .deny(ListEntry::new("one").matches("client", "2001:DB8::BAD"))
        .rule(
            Rule::new("declared")
                .key([KeyAttribute::address("client", AddressPrefix::default())])
                .limit(hourly(1)),
        )
        .rule(Rule::new("plain").key(["other"]).limit(hourly(1)));
    let gate = gate(policy);
    let of = |name, value| Request::new().with(name, value);
    assert_eq!(gate.check(&of("client", "2001:db8::bad")).reason(), Reason::DenyList);
    assert!(gate.check(&of("client", "2001:db8::1")).is_allowed());
    assert!(!gate.check(&of("client", "2001:db8::2")).is_allowed());
    assert!(gate.check(&of("other", "2001:db8::1")).is_allowed());
    assert!(gate.check(&of("other", "2001:db8::2")).is_allowed());
}

#[test]
fn overrides_find_an_address_by_the_prefix_of_the_key() {
    let rule = Rule::new("per-ip").key(["ip"]).limit(hourly(1));
    let limits = |ip: &str, limit: Limit| Override::new("ip", ip).limits("per-ip", limit);
    let policy = Policy::new().rule(rule).override_client(limits("2001:DB8::1", hourly(3)));
    let gate = gate(policy);
    for address in ["2001:db8::1", "2001:db8::2", "[2001:db8::3]:80"] {
        assert!(gate.check(&of_ip(address)).is_allowed(), "{address}");
    }
    assert!(!gate.check(&of_ip("2001:db8::4")).is_allowed());
    gate.set_override(limits("[2001:db8::9]:1", hourly(5))).unwrap();
    assert_eq!(gate.overrides().len(), 1, "it replaces that of the same prefix");
    assert!(gate.reset("per-ip", &["2001:db8::4"]));
    assert_eq!(gate.check(&of_ip("2001:db8::4")).remaining(), 4);
    let client = Override::new("ip", "2001:db8::77").client;
    assert_eq!(gate.remove_override(&client), OverrideRemoval::Removed);
    assert_eq!(gate.overrides()[0].details.client, limits("2001:DB8::1", hourly(3)).client);
    assert_eq!(gate.overrides()[0].source, OverrideSource::Policy);
}

#[test]
fn blocks_and_look_ups_find_an_address_by_the_prefix_of_the_key() {
    let gate = gate(Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(hourly(9))));
    assert!(gate.check(&of_ip("2001:db8::1")).is_allowed());
    for spelling in ["2001:db8::2", "[2001:DB8::3]:80", "2001:db8::/64"] {
        let status = gate.key_status("per-ip", &[spelling]).unwrap();
        assert_eq!(status[0].1.remaining(), 8, "{spelling}");
    }
    assert_eq!(gate.block("per-ip", &["2001:db8::2"], Duration::from_secs(60)), Ok(true));
    assert_eq!(gate.check(&of_ip("2001:db8::3")).reason(), Reason::Blocked);
    assert!(gate.unblock("per-ip", &["2001:db8::4"]));
    assert!(gate.reset("per-ip", &["2001:db8::5"]));
    assert!(gate.keys("per-ip").is_empty());
}

#[test]
fn names_of_a_client_do_not_reach_the_parts_that_a_policy_makes() {
    let gate = gate(Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(hourly(1))));
    let made = "ip\u{0}32/64";
    assert!(gate.check(&of_ip("2001:db8::1").with(made, "x")).is_allowed());
    assert!(!gate.check(&of_ip("2001:db8::1").with(made, "y")).is_allowed());
    assert_eq!(gate.check(&Request::new().with(made, "x")).reason(), Reason::NoRule);
}
