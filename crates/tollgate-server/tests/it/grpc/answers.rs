//! What an answer tells.

use std::time::Duration;

use proptest::test_runner::TestRunner;
use prost_types::value::Kind;
use tollgate::{
    Dialect, EnvoyDescriptor, Gate, HeaderStyle, ManualClock, MemoryStore, Reason, Verbosity,
};

use super::support::*;

/// A value of the metadata that Envoy gets.
fn metadata<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r Kind> {
    response.dynamic_metadata.as_ref()?.fields.get(name)?.kind.as_ref()
}

#[test]
fn every_descriptor_has_its_status_in_their_order() {
    let rls = Rls::start();
    rls.server.clock.advance(Duration::from_millis(500));
    let response = rls.ask([ip("::1"), user("ana"), descriptor(&[("other", "x")])]);
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [Code::Ok; 3]);
    assert_eq!(left(&response), [1, 2, 0]);
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Hour));
    assert_eq!(limit.name, "per-ip");
    let limit = response.statuses[1].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (3, Unit::Minute));
    assert_eq!(response.statuses[2].current_limit, None, "no rule is for it");
    // 59.5 seconds are left of the minute; Envoy would make 59 of them.
    let resets: Vec<_> =
        response.statuses.iter().map(|status| status.duration_until_reset).collect();
    assert_eq!(resets[1].unwrap().seconds, 60);
    assert_eq!(resets[1].unwrap().nanos, 0);
    assert_eq!(resets[0].unwrap().seconds, 3600);
    assert_eq!(resets[2], None);
}

#[test]
fn over_the_limit_it_says_so_in_every_form() {
    let rls = Rls::start();
    rls.server.clock.advance(Duration::from_secs(10));
    for left_over in [2, 1, 0] {
        let response = rls.ask([user("ana")]);
        assert_eq!(left(&response), [left_over]);
        assert_eq!(header(&response, "content-type"), None, "the answer that passes has its own");
        assert_eq!(header(&response, "retry-after"), None);
        assert!(response.raw_body.is_empty());
    }
    let response = rls.ask([user("ana")]);
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes(&response), [Code::OverLimit]);
    assert_eq!(header(&response, "retry-after"), Some("50"));
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    assert_eq!(header(&response, "ratelimit"), Some("\"per-user\";r=0;t=50"));
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"per-user\";q=3;w=60"));
    let body: serde_json::Value = serde_json::from_slice(&response.raw_body).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"][0], "per-user");
    assert_eq!(metadata(&response, "rule"), Some(&Kind::StringValue("per-user".to_owned())));
    assert_eq!(metadata(&response, "reason"), Some(&Kind::StringValue("limits".to_owned())));
    // Another is not touched, and it is over when the window is.
    assert_eq!(rls.ask([user("bob")]).overall_code(), Code::Ok);
    rls.server.clock.advance(Duration::from_secs(50));
    assert_eq!(left(&rls.ask([user("ana")])), [2]);
}

#[test]
fn headers_are_in_the_dialect_of_the_server() {
    let style = HeaderStyle::new().with_dialect(Dialect::XSeconds);
    let rls = Rls::with(|server| server.header_style(style));
    let response = rls.ask([user("ana")]);
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("2"));
    assert_eq!(header(&response, "ratelimit"), None);

    let style = HeaderStyle::new().with_verbosity(Verbosity::None);
    let rls = Rls::with(|server| server.header_style(style));
    let mut bodies = Vec::new();
    for _ in 0..4 {
        let response = rls.ask([user("ana")]);
        assert!(header(&response, "retry-after").or(header(&response, "ratelimit")).is_none());
        bodies.push(String::from_utf8(response.raw_body).unwrap());
    }
    assert_eq!(bodies[..3], ["", "", ""]);
    let problem: serde_json::Value = serde_json::from_str(&bodies[3]).unwrap();
    let mut members: Vec<_> = problem.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["status", "title", "type"], "no rule is named");
}

#[test]
fn unlimited_denied_and_shadowed_descriptors_are_told_apart() {
    let rls = Rls::start();
    let free = rls.ask([descriptor(&[("path", "/free")])]);
    assert_eq!((codes(&free), left(&free)), (vec![Code::Ok], vec![u32::MAX]));
    let banned = rls.ask([descriptor(&[("banned", "yes")])]);
    assert_eq!((codes(&banned), left(&banned)), (vec![Code::OverLimit], vec![0]));
    let limit = banned.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.name.as_str()), (0, "banned"));
    assert_eq!(header(&banned, "retry-after"), None, "it never passes");
    let body: serde_json::Value = serde_json::from_slice(&banned.raw_body).unwrap();
    let (status, title) = (&body["status"], &body["title"]);
    assert_eq!((status, title), (&429.into(), &"Too Many Requests".into()), "{body}");
    for _ in 0..3 {
        let watched = rls.ask([descriptor(&[("watched", "x")])]);
        assert_eq!(watched.overall_code(), Code::Ok);
    }
    assert_eq!(rls.server.decisions("watched", "shadow_denied", "grpc"), 2);
}

#[test]
fn a_descriptor_in_shadow_mode_keeps_its_figures_and_is_never_over() {
    let rls = Rls::start();
    let watched = descriptor(&[("watched", "x")]);
    for over in [false, true, true] {
        let response = rls.ask([watched.clone()]);
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!((codes(&response), left(&response)), (vec![Code::Ok], vec![0]));
        let status = &response.statuses[0];
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (1, Unit::Minute));
        assert_eq!(
            (limit.name.as_str(), status.duration_until_reset.unwrap().seconds),
            ("watched", 60)
        );
        let watched = Kind::StringValue("watched".to_owned());
        assert_eq!(metadata(&response, "rule"), Some(&watched));
        assert_eq!(metadata(&response, "shadow"), Some(&Kind::BoolValue(true)));
        assert_eq!(metadata(&response, "over_limit"), Some(&Kind::BoolValue(over)));
        assert!(header(&response, "retry-after").is_none() && response.raw_body.is_empty());
    }
    // What a client is told is of what is enforced.
    let response = rls.ask([watched, user("ana")]);
    assert_eq!(left(&response), [0, 2]);
    assert_eq!(header(&response, "ratelimit"), Some("\"per-user\";r=2;t=60"));
}

#[test]
fn the_descriptor_that_decides_is_told_of() {
    let rls = Rls::start();
    let response = rls.ask([user("ana"), ip("::1")]);
    let of_ip = Some("\"per-ip\";r=1;t=3600");
    assert_eq!(header(&response, "ratelimit"), of_ip, "half of it is left");
    rls.ask([ip("::1")]);
    let response = rls.ask([user("ana"), ip("::1")]);
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit]);
    assert_eq!(header(&response, "retry-after"), Some("3600"));
    assert_eq!(metadata(&response, "descriptor"), Some(&Kind::NumberValue(1.0)));
}

#[test]
fn of_several_that_refuse_the_longest_wait_is_told() {
    let rls = Rls::start();
    for _ in 0..3 {
        rls.ask([user("ana")]);
        rls.ask([ip("::1")]);
    }
    for both in [[user("ana"), ip("::1")], [ip("::1"), user("ana")]] {
        let response = rls.ask(both);
        assert_eq!(codes(&response), [Code::OverLimit, Code::OverLimit]);
        assert_eq!(header(&response, "retry-after"), Some("3600"), "{response:?}");
    }
}

/// Random traffic gets the decisions that a gate gives for the same descriptors.
#[test]
fn it_decides_as_a_gate_over_the_imported_policy_does() {
    let rls = Rls::start();
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let twin = Gate::with_store(store, envoy_policy()).unwrap();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        use proptest::strategy::{Strategy, ValueTree};
        let keys = ["user", "ip", "path", "banned", "watched", "other", "domain", "a#b"];
        let values = ["a", "b", "/free", ""];
        let entry = (0..keys.len(), 0..values.len());
        let strategy = (proptest::collection::vec(entry, 1..3), 0_u64..5, 0_u64..40);
        let (entries, hits, pause) = strategy.new_tree(&mut runner).unwrap().current();
        let entries: Vec<_> =
            entries.iter().map(|(key, value)| (keys[*key], values[*value])).collect();
        rls.server.clock.advance(Duration::from_secs(pause));
        clock.advance(Duration::from_secs(pause));
        let mut asked = descriptor(&entries);
        asked.hits_addend = Some(hits);
        let envoy = EnvoyDescriptor::new("edge", entries.iter().copied());
        let ruling = match hits {
            0 => twin.peek(&envoy.request()),
            hits => twin.check(&envoy.request().cost(hits)),
        };
        let response = rls.ask([asked]);
        assert_eq!(codes(&response)[0] == Code::Ok, ruling.is_allowed(), "{entries:?} {hits}");
        let shadow = ruling.rules().find(|rule| rule.is_shadow());
        let expected = match shadow {
            Some(shadow) if !shadow.is_allowed() => 0,
            Some(shadow) => u32::try_from(shadow.remaining()).unwrap(),
            // Only `/free` has a rule without a limit.
            None if ruling.reason() == Reason::NoRule && entries != [("path", "/free")] => 0,
            None => u32::try_from(ruling.remaining()).unwrap_or(u32::MAX),
        };
        assert_eq!(left(&response), [expected], "{entries:?} {hits}");
    }
}
