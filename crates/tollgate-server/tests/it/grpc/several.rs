//! Several descriptors: all are charged, or none.

use super::support::*;

#[test]
fn where_one_refuses_the_others_are_not_charged() {
    let rls = Rls::start();
    for _ in 0..2 {
        assert_eq!(rls.ask([ip("::1")]).overall_code(), Code::Ok);
    }
    for _ in 0..5 {
        let response = rls.ask([user("ana"), ip("::1"), user("bob")]);
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
        assert_eq!(left(&response), [3, 0, 3]);
    }
    let response = rls.ask([user("ana"), user("bob")]);
    assert_eq!(left(&response), [2, 2], "only what was let pass is charged");
    assert_eq!(rls.server.decisions("per-ip", "denied", "grpc"), 5);
}

#[test]
fn the_same_descriptor_twice_is_charged_twice() {
    let rls = Rls::start();
    assert_eq!(left(&rls.ask([user("ana"), user("ana")])), [2, 1]);
    let response = rls.ask([user("ana"), user("ana")]);
    assert_eq!(response.overall_code(), Code::OverLimit, "one is left");
    assert_eq!(left(&rls.ask([user("ana")])), [0]);
}

#[test]
fn a_peek_that_is_over_keeps_the_others_uncharged_and_a_refund_stands() {
    let rls = Rls::start();
    rls.ask([ip("::1"), ip("::1"), user("ana")]);
    let look = RateLimitDescriptor { hits_addend: Some(0), ..ip("::1") };
    let back = RateLimitDescriptor { is_negative_hits: true, ..user("ana") };
    let response = rls.ask([user("bob"), look, back]);
    assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
    assert_eq!(left(&response), [3, 0, 3]);
}

#[test]
fn a_limit_that_is_sent_is_held_with_the_others() {
    let rls = Rls::start();
    let limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 2 });
    let sent = RateLimitDescriptor { limit, ..user("x") };
    assert_eq!(left(&rls.ask([sent.clone(), user("ana")])), [0, 2]);
    let response = rls.ask([user("ana"), sent.clone()]);
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![2, 0]));
    let other = RateLimitDescriptor { limit, ..user("y") };
    rls.ask([ip("::1"), ip("::1")]);
    let response = rls.ask([other, ip("::1")]);
    assert_eq!((codes(&response), left(&response)), (vec![Code::Ok, Code::OverLimit], vec![1, 0]));
}

#[test]
fn what_is_let_pass_is_what_is_charged_however_many_ask_at_once() {
    let rls = Rls::start();
    let ask = async |number: usize| {
        let names = ["a", "b", "c"];
        let (one, other) = (user(names[number % 3]), ip(names[number % 2]));
        let response = rls.client.call(request([one, other])).await.unwrap();
        (response.overall_code() == Code::Ok).then_some((number % 3, number % 2))
    };
    let answers = run(futures_util::future::join_all((0..200).map(ask)));
    let passed: Vec<_> = answers.into_iter().flatten().collect();
    for (number, name) in ["a", "b", "c"].iter().enumerate() {
        let taken = passed.iter().filter(|(user, _)| *user == number).count();
        let look = RateLimitDescriptor { hits_addend: Some(0), ..user(name) };
        let left_over = usize::try_from(left(&rls.ask([look]))[0]).unwrap();
        assert_eq!(taken + left_over, 3, "{name}");
    }
    for (number, name) in ["a", "b"].iter().enumerate() {
        let taken = passed.iter().filter(|(_, ip)| *ip == number).count();
        let look = RateLimitDescriptor { hits_addend: Some(0), ..ip(name) };
        let left_over = usize::try_from(left(&rls.ask([look]))[0]).unwrap();
        assert_eq!(taken + left_over, 2, "{name}");
    }
    assert!(passed.len() >= 2, "{passed:?}");
}
