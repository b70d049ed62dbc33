//! How much a request takes, and limits that it brings with it.

use std::time::Duration;

use super::support::*;
use crate::support::TestServer;

fn taking(hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..user("ana") }
}

fn sent(count: u32, unit: i32, name: &str) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit: count, unit });
    RateLimitDescriptor { limit, ..user(name) }
}

#[test]
fn a_request_takes_what_it_says_and_one_where_it_says_nothing() {
    let rls = Rls::start();
    let response = rls.call(RateLimitRequest { hits_addend: 2, ..request([user("ana")]) });
    assert_eq!(left(&response.unwrap()), [1]);
    assert_eq!(left(&rls.ask([user("ana")])), [0]);
    let four = RateLimitRequest { hits_addend: 4, ..request([user("bob")]) };
    let response = rls.call(four).unwrap();
    assert_eq!(codes(&response), [Code::OverLimit], "it can never pass");
    assert_eq!(header(&response, "retry-after"), None);
    assert_eq!(left(&rls.ask([user("bob")])), [2], "nothing was taken");
}

#[test]
fn a_descriptor_says_for_itself_how_much_and_zero_only_looks() {
    let rls = Rls::start();
    let request = RateLimitRequest { hits_addend: 9, ..request([taking(2)]) };
    assert_eq!(left(&rls.call(request).unwrap()), [1]);
    for _ in 0..5 {
        let response = rls.ask([taking(0)]);
        assert_eq!((codes(&response), left(&response)), (vec![Code::Ok], vec![1]));
    }
    rls.ask([taking(1)]);
    let response = rls.ask([taking(0)]);
    assert_eq!((codes(&response), left(&response)), (vec![Code::OverLimit], vec![0]));
    assert_eq!(
        rls.ask([RateLimitDescriptor { hits_addend: Some(0), ..user("new") }]).overall_code(),
        Code::Ok
    );
    assert_eq!(rls.server.gate().store().len(), 1, "to look makes no state");
}

#[test]
fn negative_hits_give_back_and_never_above_full() {
    let rls = Rls::start();
    rls.ask([taking(3)]);
    let back = |hits| RateLimitDescriptor { is_negative_hits: true, ..taking(hits) };
    assert_eq!(left(&rls.ask([back(2)])), [2]);
    let request = RateLimitRequest {
        hits_addend: 100,
        ..request([RateLimitDescriptor { is_negative_hits: true, ..user("ana") }])
    };
    let response = rls.call(request).unwrap();
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok], vec![3]));
}

/// What Envoy does with costs that are known afterwards: it peeks first, and charges when the
/// answer has gone out.
#[test]
fn what_is_paid_afterwards_is_charged_also_where_it_does_not_fit() {
    let rls = Rls::with(|server| server.postpaid_descriptors());
    assert_eq!(left(&rls.ask([taking(2)])), [1]);
    assert_eq!(codes(&rls.ask([taking(0)])), [Code::Ok], "there is one left");
    let response = rls.ask([taking(5)]);
    assert_eq!(codes(&response), [Code::OverLimit]);
    assert_eq!(codes(&rls.ask([taking(0)])), [Code::OverLimit], "and now it is owed");
    // Also beside others, whatever becomes of them.
    let bob = RateLimitDescriptor { hits_addend: Some(2), ..user("bob") };
    let response = rls.ask([bob, taking(1), ip("::1")]);
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
    assert_eq!(left(&rls.ask([user("bob"), ip("::1")])), [0, 1]);
    // A window later everything is new.
    rls.server.clock.advance(Duration::from_secs(60));
    assert_eq!(left(&rls.ask([taking(1)])), [2]);
    // Without being told, a refusal takes nothing.
    let rls = Rls::start();
    rls.ask([taking(2)]);
    rls.ask([taking(5)]);
    assert_eq!(left(&rls.ask([taking(1)])), [0]);
}

#[test]
fn a_limit_that_is_sent_stands_in_for_that_of_the_policy() {
    let rls = Rls::start();
    for left_over in [1, 0] {
        let response = rls.ask([sent(2, 3, "ana")]);
        assert_eq!(left(&response), [left_over]);
        let limit = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Hour));
        assert_eq!(header(&response, "ratelimit-policy"), Some("\"descriptor\";q=2;w=3600"));
    }
    let response = rls.ask([sent(2, 3, "ana")]);
    assert_eq!(codes(&response), [Code::OverLimit]);
    assert_eq!(header(&response, "retry-after"), Some("3600"));
    assert!(!response.raw_body.is_empty());
    // Another key, another unit and the policy's own limit are not touched.
    assert_eq!(left(&rls.ask([sent(2, 3, "bob")])), [1]);
    assert_eq!(left(&rls.ask([sent(2, 2, "ana")])), [1]);
    assert_eq!(left(&rls.ask([user("ana")])), [2]);
    // Peeks and refunds are of the same limit.
    let back = RateLimitDescriptor { is_negative_hits: true, ..sent(2, 3, "ana") };
    assert_eq!(left(&rls.ask([back])), [1]);
    let look = RateLimitDescriptor { hits_addend: Some(0), ..sent(2, 3, "ana") };
    assert_eq!(left(&rls.ask([look])), [1]);
    rls.server.clock.advance(Duration::from_secs(3600));
    assert_eq!(left(&rls.ask([sent(2, 3, "ana")])), [1]);
    let none = rls.ask([sent(0, 3, "ana")]);
    assert_eq!(codes(&none), [Code::OverLimit], "none are allowed");
    let limit = none.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (0, Unit::Hour));
}

#[test]
fn a_limit_that_is_sent_in_a_domain_that_no_file_names_is_not_applied() {
    let files = [("edge.yaml", YAML), ("empty.yaml", "domain: empty")];
    let policy = tollgate::Policy::from_envoy_files(files).unwrap().policy;
    let own = "[[rule]]\nname = \"user\"\nkey = [\"user\"]\nlimit = \"9/h\"\n";
    let own = tollgate::Policy::from_toml("own.toml", own).unwrap().policy;
    let ask = |rls: &Rls, domain: &str| {
        let two = vec![sent(2, 3, "ana"), descriptor(&[("other", "x")])];
        for descriptors in [vec![sent(2, 3, "ana")], two] {
            let asked = RateLimitRequest { domain: domain.to_owned(), ..request(descriptors) };
            assert_eq!(rls.call(asked).unwrap().overall_code(), Code::Ok, "{domain}");
        }
        let asked = RateLimitRequest { domain: domain.to_owned(), ..request([sent(2, 3, "ana")]) };
        let response = rls.call(asked).unwrap();
        (codes(&response)[0], response.statuses[0].current_limit.is_some(), left(&response)[0])
    };
    let rls = Rls::of(TestServer::with_policy(policy, |server| server));
    for domain in ["edge", "empty"] {
        assert_eq!(ask(&rls, domain), (Code::OverLimit, true, 0), "{domain}");
    }
    assert_eq!(ask(&rls, "other"), (Code::Ok, false, 0));
    // Rules without a domain apply in all domains, and so do limits that are sent.
    let rls = Rls::of(TestServer::with_policy(own, |server| server));
    assert_eq!(ask(&rls, "any"), (Code::OverLimit, true, 0));
    let rls = Rls::of(TestServer::with_policy(tollgate::Policy::new(), |server| server));
    assert_eq!(ask(&rls, "any"), (Code::OverLimit, true, 0));
}
