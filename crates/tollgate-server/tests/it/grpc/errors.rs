//! What cannot be understood: said so, counted, and nothing is charged.

use tollgate_server::Bounds;
use tonic::Code as Grpc;

use super::support::*;
use crate::support::Texts;

fn wrong() -> Vec<(&'static str, RateLimitRequest)> {
    let domain =
        |domain: &str| RateLimitRequest { domain: domain.into(), ..request([user("ana")]) };
    let then = |bad: RateLimitDescriptor| request([user("ana"), bad]);
    let sent = |unit| {
        let limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        RateLimitDescriptor { limit, ..user("x") }
    };
    let many: Vec<_> = (0..65).map(|_| user("ana")).collect();
    let entries: Vec<_> = (0..63).map(|_| ("user", "ana")).collect();
    let long = "x".repeat(4097);
    vec![
        ("an empty domain", domain("")),
        ("a long domain", domain(&long)),
        ("no descriptors", request([])),
        ("many descriptors", request(many)),
        ("a descriptor without entries", then(descriptor(&[]))),
        ("a descriptor with many entries", then(descriptor(&entries))),
        ("an entry with an empty key", then(descriptor(&[("", "x")]))),
        ("an entry with a long value", then(descriptor(&[("a", &long)]))),
        ("an entry with a long key", then(descriptor(&[("a", ""), (&long, "")]))),
        ("a limit with the unit 0", then(sent(0))),
        ("a limit with the unit 8", then(sent(8))),
        ("a limit with the unit -1", then(sent(-1))),
    ]
}

#[test]
fn every_wrong_request_is_told_what_is_wrong_and_takes_nothing() {
    let rls = Rls::start();
    let wrong = wrong();
    let number = u64::try_from(wrong.len()).unwrap();
    let mut texts = Texts::default();
    for (what, request) in wrong {
        let status = rls.call(request).unwrap_err();
        assert_eq!(status.code(), Grpc::InvalidArgument, "{status:?}");
        texts.add(what, status.message());
    }
    texts.assert_golden("grpc", "wrong requests");
    assert_eq!(rls.metric("tollgate_bad_requests_total"), number);
    for (bound, times) in [("descriptors", 1), ("attributes", 1), ("key_length", 3)] {
        assert_eq!(rls.server.over_bound(bound, "grpc"), times, "{bound}");
    }
    assert_eq!(left(&rls.ask([user("ana")])), [2], "nothing was taken");
}

#[test]
fn the_most_of_everything_is_still_answered() {
    let rls = Rls::start();
    let value = "x".repeat(4096);
    let entries: Vec<_> = (0..62).map(|_| ("k", "v")).collect();
    let most: Vec<_> = (0..64).map(|_| descriptor(&entries)).collect();
    assert_eq!(rls.ask(most).statuses.len(), 64);
    let response = rls.ask([descriptor(&[("user", &value)])]);
    assert_eq!(left(&response), [2]);
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let rls = Rls::start();
    let many: Vec<_> = (0..40).map(|_| descriptor(&[("user", &"x".repeat(4000))])).collect();
    let status = rls.call(request(many)).unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange, "{status:?}");
    assert_eq!(rls.server.over_bound("message", "grpc"), 1);
    assert_eq!(rls.metric("tollgate_bad_requests_total"), 1);
    assert_eq!(left(&rls.ask([user("ana")])), [2], "the connection stays open");
}

#[test]
fn the_operator_says_how_much_a_request_may_be() {
    let bounds = Bounds {
        message: 1 << 20,
        descriptors: 2,
        attributes: 4,
        key_length: 5,
        ..Bounds::default()
    };
    let rls = Rls::with(|server| server.bounds(bounds));
    let two = [("user", "ana"), ("path", "/")];
    assert_eq!(rls.ask([descriptor(&two), user("12345")]).statuses.len(), 2);
    for (bad, bound, times) in [
        (request([user("a"), user("b"), user("c")]), "descriptors", 1),
        (request([descriptor(&[two[0], two[1], two[0]])]), "attributes", 1),
        (request([user("123456")]), "key_length", 1),
        (request([user(&"x".repeat(500_000))]), "key_length", 2),
    ] {
        assert_eq!(rls.call(bad).unwrap_err().code(), Grpc::InvalidArgument);
        assert_eq!(rls.server.over_bound(bound, "grpc"), times, "{bound}");
    }
    assert_eq!(rls.server.over_bound("message", "grpc"), 0);
}

#[test]
fn what_nobody_offers_is_unimplemented_and_counted() {
    let rls = Rls::start();
    let mut texts = Texts::default();
    for path in [
        "/envoy.service.ratelimit.v3.RateLimitService/Nothing",
        "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
        "/nothing",
    ] {
        let asked = tonic::Request::new(request([user("ana")]));
        let answered = run(rls.client.unary::<_, RateLimitResponse>(path, asked));
        let status = answered.unwrap_err();
        assert_eq!(status.code(), Grpc::Unimplemented, "{path}");
        texts.add(path, status.message());
    }
    texts.assert_golden("grpc", "unknown methods");
    assert_eq!(rls.metric("tollgate_bad_requests_total"), 3);
}

/// A message that is not protobuf, sent as one.
#[derive(Clone, PartialEq, prost::Message)]
struct Garbage {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(fixed64, tag = "2")]
    descriptors: u64,
}

#[test]
fn a_message_that_is_no_request_is_refused() {
    let rls = Rls::start();
    let mut texts = Texts::default();
    for garbage in [
        Garbage { domain: vec![0xff, 0xfe], descriptors: 0 },
        Garbage { domain: b"edge".to_vec(), descriptors: 7 },
    ] {
        let what = format!("{garbage:?}");
        let asked = tonic::Request::new(garbage);
        let answered = run(rls.client.unary::<_, RateLimitResponse>(SHOULD_RATE_LIMIT, asked));
        let status = answered.unwrap_err();
        assert_eq!(status.code(), Grpc::InvalidArgument, "{status:?}");
        texts.add(&what, status.message());
    }
    texts.assert_golden("grpc", "other messages");
    assert_eq!(rls.metric("tollgate_bad_requests_total"), 2);
}
