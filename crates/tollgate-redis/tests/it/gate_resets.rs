//! Keys of a gate over Redis that are made new, many at a time.

use std::time::Duration;

use crate::common::fleet::{fleet, per_user};
use crate::common::wait;
use tollgate::{Limit, Policy, Request, Rule};

#[test]
fn a_rule_or_everything_is_made_new_with_progress() {
    wait(async {
        let policy =
            per_user(5).rule(Rule::new("per-user-too").key(["user"]).limit(Limit::per_hour(5)));
        let gates = fleet(&policy, 1).await;
        for number in 0..40 {
            let user = format!("user-{number}");
            assert!(gates[0].check(&Request::new().with("user", &user)).await.is_allowed());
        }
        let mut steps = 0;
        let done = gates[0].reset_rule("per-user", |_| steps += 1).await.unwrap();
        assert_eq!((done.reset, steps > 0), (40, true));
        let one = Request::new().with("user", "user-7");
        let left: Vec<u64> = gates[0].status(&one).await.rules().map(|of| of.remaining()).collect();
        assert_eq!(left, [5, 4], "the other rule begins with the same letters and stays");
        assert!(gates[0].reset("per-user-too", &["user-7"]).await.unwrap());
        assert_eq!(gates[0].reset_all(|_| ()).await.unwrap().reset, 39);
    });
}

#[test]
fn keys_that_begin_alike_are_made_new_with_progress() {
    let rule = Rule::new("login").key(["user", "route"]).limit(Limit::per_hour(1));
    let policy = Policy::new()
        .rule(rule.limit(Limit::per_day(9)).block(Duration::from_secs(7200)))
        .rule(Rule::new("login-too").key(["user"]).limit(Limit::per_hour(500)));
    wait(async {
        let gates = fleet(&policy, 2).await;
        let long = format!("ana-{}", "x".repeat(1000));
        let users = ["ana-1", "ana-2", "ben-ana-1", &long];
        let of = |user| Request::new().with("user", user).with("route", "/");
        for user in users {
            assert!(gates[0].check(&of(user)).await.is_allowed());
            assert!(!gates[0].check(&of(user)).await.is_allowed(), "and is blocked");
        }
        assert!(gates[0].block("login", &["ana-9", "/"], Duration::from_secs(60)).await.unwrap());
        let mut last = None;
        let done = gates[0].reset_prefix("login", "ana-", |so_far| last = Some(so_far)).await;
        let done = done.unwrap();
        assert_eq!(last, Some(done));
        // Of each user two limits and a block, and one block by hand.
        assert_eq!((done.seen, done.reset), (13, 10));
        for user in users {
            let is_meant = user.starts_with("ana-");
            assert_eq!(gates[0].check(&of(user)).await.is_allowed(), is_meant, "{user}");
            assert!(!gates[1].check(&of(user)).await.is_allowed(), "it is used up again");
        }
        assert!(gates[0].check(&of("ana-9")).await.is_allowed(), "the block is lifted");
        let other = gates[0].status(&of("ana-1")).await;
        let left: Vec<u64> = other.rules().map(|of| of.remaining()).collect();
        assert_eq!(left[1], 498, "the other rule begins with the same letters and stays");
    });
}
