//! What an answer tells.

use std::time::Duration;

use proptest::test_runner::TestRunner;
use tollgate::{Dialect, EnvoyDescriptor, HeaderStyle, ManualClock, Verbosity};

use super::support::*;

#[tokio::test]
async fn every_descriptor_has_its_status_in_their_order() {
    let rls = Rls::start().await;
    rls.clock.advance(Duration::from_millis(500));
    let response = rls.ask([ip("::1"), user("ana"), descriptor(&[("other", "x")])]).await;
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [Code::Ok; 3]);
    assert_eq!(left(&response), [1, 2, u32::MAX]);
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

#[tokio::test]
async fn over_the_limit_it_says_so_in_every_form() {
    let rls = Rls::start().await;
    rls.clock.advance(Duration::from_secs(10));
    for left_over in [2, 1, 0] {
        let response = rls.ask([user("ana")]).await;
        assert_eq!(left(&response), [left_over]);
        assert_eq!(header(&response, "content-type"), None, "the answer that passes has its own");
        assert_eq!(header(&response, "retry-after"), None);
        assert!(response.raw_body.is_empty());
    }
    let response = rls.ask([user("ana")]).await;
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
    let metadata = response.dynamic_metadata.unwrap();
    let text = |name: &str| format!("{:?}", metadata.fields[name].kind);
    assert!(text("rule").contains("per-user"), "{metadata:?}");
    assert!(text("reason").contains("limits"), "{metadata:?}");
    // Another is not touched, and it is over when the window is.
    assert_eq!(rls.ask([user("bob")]).await.overall_code(), Code::Ok);
    rls.clock.advance(Duration::from_secs(50));
    assert_eq!(left(&rls.ask([user("ana")]).await), [2]);
}

#[tokio::test]
async fn headers_are_in_the_dialect_of_the_server() {
    let style = HeaderStyle::new().dialect(Dialect::XDelta);
    let rls = Rls::with(|server| server.header_style(style)).await;
    let response = rls.ask([user("ana")]).await;
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("2"));
    assert_eq!(header(&response, "ratelimit"), None);

    let style = HeaderStyle::new().verbosity(Verbosity::None);
    let rls = Rls::with(|server| server.header_style(style)).await;
    for _ in 0..4 {
        let response = rls.ask([user("ana")]).await;
        assert!(header(&response, "retry-after").or(header(&response, "ratelimit")).is_none());
        let body = String::from_utf8(response.raw_body).unwrap();
        assert!(!body.contains("per-user"), "{body}");
    }
}

#[tokio::test]
async fn unlimited_denied_and_shadowed_descriptors_are_told_apart() {
    let rls = Rls::start().await;
    let free = rls.ask([descriptor(&[("path", "/free")])]).await;
    assert_eq!((codes(&free), left(&free)), (vec![Code::Ok], vec![u32::MAX]));
    let banned = rls.ask([descriptor(&[("banned", "yes")])]).await;
    assert_eq!((codes(&banned), left(&banned)), (vec![Code::OverLimit], vec![0]));
    let limit = banned.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.name.as_str()), (0, "banned"));
    assert_eq!(header(&banned, "retry-after"), None, "it never passes");
    let body: serde_json::Value = serde_json::from_slice(&banned.raw_body).unwrap();
    let (status, title) = (&body["status"], &body["title"]);
    assert_eq!((status, title), (&429.into(), &"Too Many Requests".into()), "{body}");
    for _ in 0..3 {
        let watched = rls.ask([descriptor(&[("watched", "x")])]).await;
        assert_eq!(watched.overall_code(), Code::Ok);
    }
    let text = get(rls.http, "/metrics").await;
    let shadow = "rule=\"watched\",tier=\"\",outcome=\"shadow_denied\",transport=\"grpc\"} 2";
    assert!(text.contains(shadow), "{text}");
}

#[tokio::test]
async fn a_descriptor_in_shadow_mode_keeps_its_figures_and_is_never_over() {
    let rls = Rls::start().await;
    let watched = descriptor(&[("watched", "x")]);
    for over in [false, true, true] {
        let response = rls.ask([watched.clone()]).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!((codes(&response), left(&response)), (vec![Code::Ok], vec![0]));
        let status = &response.statuses[0];
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (1, Unit::Minute));
        assert_eq!(
            (limit.name.as_str(), status.duration_until_reset.unwrap().seconds),
            ("watched", 60)
        );
        let fields = response.dynamic_metadata.as_ref().unwrap().fields.clone();
        let shown = |name: &str| format!("{:?}", fields.get(name).and_then(|of| of.kind.as_ref()));
        assert!(
            shown("rule").contains("watched") && shown("shadow").contains("true"),
            "{fields:?}"
        );
        assert_eq!(shown("over_limit").contains("true"), over, "{fields:?}");
        assert!(header(&response, "retry-after").is_none() && response.raw_body.is_empty());
    }
    // What a client is told is of what is enforced.
    let response = rls.ask([watched, user("ana")]).await;
    assert_eq!(left(&response), [0, 2]);
    assert_eq!(header(&response, "ratelimit"), Some("\"per-user\";r=2;t=60"));
}

#[tokio::test]
async fn the_descriptor_that_decides_is_told_of() {
    let rls = Rls::start().await;
    let response = rls.ask([user("ana"), ip("::1")]).await;
    assert!(header(&response, "ratelimit").unwrap().contains("per-ip"), "half of it is left");
    rls.ask([ip("::1")]).await;
    let response = rls.ask([user("ana"), ip("::1")]).await;
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit]);
    assert_eq!(header(&response, "retry-after"), Some("3600"));
    let metadata = response.dynamic_metadata.unwrap();
    assert!(format!("{:?}", metadata.fields["descriptor"].kind).contains('1'), "{metadata:?}");
}

#[tokio::test]
async fn of_several_that_refuse_the_longest_wait_is_told() {
    let rls = Rls::start().await;
    for _ in 0..3 {
        rls.ask([user("ana")]).await;
        rls.ask([ip("::1")]).await;
    }
    for both in [[user("ana"), ip("::1")], [ip("::1"), user("ana")]] {
        let response = rls.ask(both).await;
        assert_eq!(codes(&response), [Code::OverLimit, Code::OverLimit]);
        assert_eq!(header(&response, "retry-after"), Some("3600"), "{response:?}");
    }
}

/// Random traffic gets the decisions that a gate gives for the same descriptors.
#[tokio::test(flavor = "multi_thread")]
async fn it_decides_as_a_gate_over_the_imported_policy_does() {
    let rls = Rls::start().await;
    let clock = ManualClock::new();
    let twin = gate(&clock);
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
        rls.clock.advance(Duration::from_secs(pause));
        clock.advance(Duration::from_secs(pause));
        let mut asked = descriptor(&entries);
        asked.hits_addend = Some(hits);
        let envoy = EnvoyDescriptor::new("edge", entries.iter().copied());
        let ruling = match hits {
            0 => twin.peek(&envoy.request()),
            hits => twin.check(&envoy.request().cost(hits)),
        };
        let response = rls.ask([asked]).await;
        assert_eq!(codes(&response)[0] == Code::Ok, ruling.is_allowed(), "{entries:?} {hits}");
        let shadow = ruling.rules().find(|rule| rule.is_shadow());
        let expected = match shadow {
            Some(shadow) if !shadow.is_allowed() => 0,
            Some(shadow) => u32::try_from(shadow.remaining()).unwrap(),
            None => u32::try_from(ruling.remaining()).unwrap_or(u32::MAX),
        };
        assert_eq!(left(&response), [expected], "{entries:?} {hits}");
    }
}
