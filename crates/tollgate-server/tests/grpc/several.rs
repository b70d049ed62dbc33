//! Several descriptors: all are charged, or none.

use std::sync::Arc;

use super::support::*;

#[tokio::test]
async fn where_one_refuses_the_others_are_not_charged() {
    let rls = Rls::start().await;
    for _ in 0..2 {
        assert_eq!(rls.ask([ip("::1")]).await.overall_code(), Code::Ok);
    }
    for _ in 0..5 {
        let response = rls.ask([user("ana"), ip("::1"), user("bob")]).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
        assert_eq!(left(&response), [3, 0, 3]);
    }
    let response = rls.ask([user("ana"), user("bob")]).await;
    assert_eq!(left(&response), [2, 2], "only what was let pass is charged");
    let denied = "rule=\"per-ip\",tier=\"\",outcome=\"denied\",transport=\"grpc\"} 5";
    let text = get(rls.http, "/metrics").await;
    assert!(text.contains(denied), "{text}");
}

#[tokio::test]
async fn the_same_descriptor_twice_is_charged_twice() {
    let rls = Rls::start().await;
    assert_eq!(left(&rls.ask([user("ana"), user("ana")]).await), [2, 1]);
    let response = rls.ask([user("ana"), user("ana")]).await;
    assert_eq!(response.overall_code(), Code::OverLimit, "one is left");
    assert_eq!(left(&rls.ask([user("ana")]).await), [0]);
}

#[tokio::test]
async fn a_peek_that_is_over_keeps_the_others_uncharged_and_a_refund_stands() {
    let rls = Rls::start().await;
    rls.ask([ip("::1"), ip("::1"), user("ana")]).await;
    let look = RateLimitDescriptor { hits_addend: Some(0), ..ip("::1") };
    let back = RateLimitDescriptor { is_negative_hits: true, ..user("ana") };
    let response = rls.ask([user("bob"), look, back]).await;
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
    assert_eq!(left(&response), [3, 0, 3]);
}

#[tokio::test]
async fn a_limit_that_is_sent_is_held_with_the_others() {
    let rls = Rls::start().await;
    let limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 2 });
    let sent = RateLimitDescriptor { limit, ..user("x") };
    assert_eq!(left(&rls.ask([sent.clone(), user("ana")]).await), [0, 2]);
    let response = rls.ask([user("ana"), sent.clone()]).await;
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![2, 0]));
    let other = RateLimitDescriptor { limit, ..user("y") };
    rls.ask([ip("::1"), ip("::1")]).await;
    let response = rls.ask([other, ip("::1")]).await;
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![1, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_let_pass_is_what_is_charged_however_many_ask_at_once() {
    let rls = Arc::new(Rls::start().await);
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..200 {
        let rls = Arc::clone(&rls);
        asking.spawn(async move {
            let names = ["a", "b", "c"];
            let (one, other) = (user(names[number % 3]), ip(names[number % 2]));
            let response = rls.ask([one, other]).await;
            (response.overall_code() == Code::Ok).then_some((number % 3, number % 2))
        });
    }
    let passed: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
    for (number, name) in ["a", "b", "c"].iter().enumerate() {
        let taken = passed.iter().filter(|(user, _)| *user == number).count();
        let look = RateLimitDescriptor { hits_addend: Some(0), ..user(name) };
        let left_over = usize::try_from(left(&rls.ask([look]).await)[0]).unwrap();
        assert_eq!(taken + left_over, 3, "{name}");
    }
    for (number, name) in ["a", "b"].iter().enumerate() {
        let taken = passed.iter().filter(|(_, ip)| *ip == number).count();
        let look = RateLimitDescriptor { hits_addend: Some(0), ..ip(name) };
        let left_over = usize::try_from(left(&rls.ask([look]).await)[0]).unwrap();
        assert_eq!(taken + left_over, 2, "{name}");
    }
    assert!(passed.len() >= 2, "{passed:?}");
}
