//! What cannot be understood: said so, counted, and nothing is charged.

use tollgate_server::Bounds;
use tonic::Code as Grpc;

use super::support::*;

fn wrong() -> Vec<(RateLimitRequest, &'static str)> {
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
        (domain(""), "the domain is empty"),
        (domain(&long), "the domain is 4097 bytes, must be at most 4096"),
        (request([]), "there are no descriptors, must be at least one"),
        (request(many), "65 descriptors, must be at most 64"),
        (then(descriptor(&[])), "descriptor 2 has no entries"),
        (then(descriptor(&entries)), "descriptor 2 has 63 entries, must be at most 62"),
        (then(descriptor(&[("", "x")])), "the key of entry 1 of descriptor 2 is empty"),
        (then(descriptor(&[("a", &long)])), "the value of entry 1 of descriptor 2 is 4097 bytes"),
        (then(descriptor(&[("a", ""), (&long, "")])), "the key of entry 2 of descriptor 2"),
        (then(sent(0)), "must be one of SECOND (1)"),
        (then(sent(8)), "descriptor 2 is 8"),
        (then(sent(-1)), "descriptor 2 is -1"),
    ]
}

#[tokio::test]
async fn every_wrong_request_is_told_what_is_wrong_and_takes_nothing() {
    let rls = Rls::start().await;
    let wrong = wrong();
    let number = u64::try_from(wrong.len()).unwrap();
    for (request, says) in wrong {
        let status = rls.call(request).await.unwrap_err();
        assert_eq!(status.code(), Grpc::InvalidArgument, "{status:?}");
        assert!(status.message().contains(says), "{} does not say {says}", status.message());
    }
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, number);
    for (bound, times) in [("descriptors", 1), ("attributes", 1), ("key_length", 3)] {
        assert_eq!(rls.over_bound(bound).await, times, "{bound}");
    }
    assert_eq!(left(&rls.ask([user("ana")]).await), [2], "nothing was taken");
}

#[tokio::test]
async fn the_most_of_everything_is_still_answered() {
    let rls = Rls::start().await;
    let value = "x".repeat(4096);
    let entries: Vec<_> = (0..62).map(|_| ("k", "v")).collect();
    let most: Vec<_> = (0..64).map(|_| descriptor(&entries)).collect();
    assert_eq!(rls.ask(most).await.statuses.len(), 64);
    let response = rls.ask([descriptor(&[("user", &value)])]).await;
    assert_eq!(left(&response), [2]);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused() {
    let rls = Rls::start().await;
    let many: Vec<_> = (0..40).map(|_| descriptor(&[("user", &"x".repeat(4000))])).collect();
    let status = rls.call(request(many)).await.unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange, "{status:?}");
    assert!(status.message().contains("65536"), "{status:?}");
    assert_eq!(rls.over_bound("message").await, 1);
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, 1);
    assert_eq!(left(&rls.ask([user("ana")]).await), [2], "the connection goes on");
}

#[tokio::test]
async fn the_operator_says_how_much_a_request_may_be() {
    let bounds = Bounds {
        message: 1 << 20,
        descriptors: 2,
        attributes: 4,
        key_length: 5,
        ..Bounds::default()
    };
    let rls = Rls::with(|server| server.bounds(bounds)).await;
    let two = [("user", "ana"), ("path", "/")];
    assert_eq!(rls.ask([descriptor(&two), user("12345")]).await.statuses.len(), 2);
    for (bad, says) in [
        (request([user("a"), user("b"), user("c")]), "3 descriptors, must be at most 2"),
        (request([descriptor(&[two[0], two[1], two[0]])]), "3 entries, must be at most 2"),
        (request([user("123456")]), "6 bytes, must be at most 5"),
        (request([user(&"x".repeat(500_000))]), "500000 bytes, must be at most 5"),
    ] {
        let status = rls.call(bad).await.unwrap_err();
        assert!(status.message().contains(says), "{status:?}");
    }
}

#[tokio::test]
async fn what_nobody_offers_is_unimplemented_and_counted() {
    let rls = Rls::start().await;
    for path in [
        "/envoy.service.ratelimit.v3.RateLimitService/Nothing",
        "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
        "/nothing",
    ] {
        let answered = rls.unary::<_, RateLimitResponse>(path, request([user("ana")])).await;
        let status = answered.unwrap_err();
        assert_eq!(status.code(), Grpc::Unimplemented, "{path}");
        let says = status.message();
        assert!(says.contains(path) && says.contains("RateLimitService/ShouldRateLimit"), "{says}");
    }
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, 3);
}

/// A message that is not protobuf, sent as one.
#[derive(Clone, PartialEq, prost::Message)]
struct Garbage {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(fixed64, tag = "2")]
    descriptors: u64,
}

#[tokio::test]
async fn a_message_that_is_no_request_is_refused() {
    let rls = Rls::start().await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for garbage in [
        Garbage { domain: vec![0xff, 0xfe], descriptors: 0 },
        Garbage { domain: b"edge".to_vec(), descriptors: 7 },
    ] {
        let status = rls.unary::<_, RateLimitResponse>(path, garbage).await.unwrap_err();
        assert_eq!(status.code(), Grpc::InvalidArgument, "{status:?}");
        let says = status.message();
        assert!(
            says.contains("must be a RateLimitRequest of envoy.service.ratelimit.v3"),
            "{says}"
        );
    }
    assert_eq!(rls.metric("tollgate_bad_requests_total").await, 2);
}
