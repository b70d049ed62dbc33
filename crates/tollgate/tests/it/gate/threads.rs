//! Many threads: all or nothing, and one policy for each ruling.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate::{Cost, Gate, Limit, Override, Policy, ReplaceOutcome, Rule, RuleLimits};
use tollgate_testkit::eventually;

use super::policies::USERS;
use super::{HOUR, everybody, gate, hourly, left, per_user, user};

/// Calls `request` many times on each of four threads.
fn at_once(times: usize, request: impl Fn(usize, &'static str) + Sync) {
    thread::scope(|scope| {
        for name in USERS {
            let request = &request;
            scope.spawn(move || (0..times).for_each(|number| request(number, name)));
        }
    });
}

fn used(gate: &Gate, rule: &str) -> u64 {
    gate.keys(rule).iter().map(|(_, status)| status.used()).sum()
}

#[test]
fn what_each_rule_gave_is_what_was_allowed() {
    let routes = Rule::new("per-route").key(["route"]).limit(Limit::sliding_log(300, HOUR));
    let twice = Cost::Attribute { name: "tokens".to_owned(), multiplier: 2, default: 1 };
    let doubled =
        Rule::new("doubled").key(["user", "route"]).limit(Limit::per_day(250)).cost(twice);
    let policy = Policy::new().rule(per_user(200)).rule(routes).rule(doubled).rule(everybody(700));
    let (gate, _) = gate(policy);
    let (allowed, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    at_once(600, |number, name| {
        let route = ["/a", "/b", "/c"][number % 3];
        let request = user(name).with("route", route).cost(1 + number as u64 % 2);
        if gate.check(&request).is_allowed() {
            allowed.fetch_add(1, Ordering::Relaxed);
            taken.fetch_add(request.units(), Ordering::Relaxed);
        }
    });
    let taken = taken.into_inner();
    assert!(allowed.into_inner() > 0 && taken <= 700);
    let sums = ["per-user", "per-route", "everybody", "doubled"].map(|rule| used(&gate, rule));
    assert_eq!(sums, [taken, taken, taken, 2 * taken]);
}

#[test]
fn no_ruling_mixes_two_policies_and_state_survives_by_name() {
    let policy = |names: [&str; 2]| {
        let rules = names.map(|name| Rule::new(name).key(["user"]).limit(hourly(1 << 30)));
        let [first, second] = rules;
        Policy::new().rule(first).rule(everybody(1 << 30)).rule(second)
    };
    let policies = [policy(["a", "b"]), policy(["c", "d"])];
    let (gate, _) = gate(policies[0].clone());
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    let (stop, replaced) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for policy in policies.iter().rev() {
                    gate.replace(policy.clone()).unwrap();
                    replaced.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        eventually("the first replacement", || replaced.load(Ordering::Relaxed) > 0);
        at_once(3000, |_, name| {
            let ruling = gate.check(&user(name));
            assert!(ruling.is_allowed());
            let names: Vec<&str> = ruling.rules().map(|of| of.rule()).collect();
            match names[..] {
                ["a", "everybody", "b"] => counts[0].fetch_add(1, Ordering::Relaxed),
                ["c", "everybody", "d"] => counts[1].fetch_add(1, Ordering::Relaxed),
                _ => panic!("a ruling of two policies: {names:?}"),
            };
        });
        stop.store(true, Ordering::Relaxed);
    });
    let [first, second] = counts.map(AtomicU64::into_inner);
    assert_eq!(used(&gate, "everybody"), first + second);
    gate.replace(policies[0].clone()).unwrap();
    assert_eq!(["a", "b"].map(|rule| used(&gate, rule)), [first; 2]);
    gate.replace(policies[1].clone()).unwrap();
    assert_eq!(["c", "d"].map(|rule| used(&gate, rule)), [second; 2]);
}

#[test]
fn overrides_set_by_many_threads_all_stay() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let names: Vec<String> = (0..200).map(|number| format!("user-{number}")).collect();
    thread::scope(|scope| {
        for part in names.chunks(50) {
            let gate = &gate;
            scope.spawn(move || {
                for name in part {
                    let change = Override::new("user", name).limits("per-user", hourly(5));
                    gate.set_override(change).unwrap();
                    assert_eq!(gate.peek(&user(name)).limit(), 5, "from the next decision on");
                }
            });
        }
        scope
            .spawn(|| (0..50).for_each(|_| gate.replace(Policy::new().rule(per_user(2))).unwrap()));
    });
    assert_eq!(gate.overrides().len(), 200);
    assert!(names.iter().all(|name| gate.peek(&user(name)).limit() == 5));
}

#[test]
fn a_tier_that_changes_while_threads_check_never_lets_too_much_through() {
    let policy =
        |count| Policy::new().rule(per_user(count).tier("internal", RuleLimits::Unlimited));
    let (gate, _) = gate(policy(1000));
    let allowed = AtomicU64::new(0);
    thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            (0..200).for_each(|round| gate.replace(policy([1000, 500][round % 2])).unwrap());
        });
        at_once(600, |_, _| {
            if gate.check(&user("ana")).is_allowed() {
                allowed.fetch_add(1, Ordering::Relaxed);
            }
        });
        replacing.join().unwrap();
    });
    let allowed = allowed.into_inner();
    assert!(allowed <= 1000, "{allowed} of the larger limit's thousand");
    assert!(left(&gate, "per-user", &user("ana")) <= 1000 - allowed.min(500));
}

#[test]
fn threads_that_hold_and_drop_leave_nothing_taken() {
    let (gate, _) = gate(Policy::new().rule(per_user(10)).rule(everybody(20)));
    at_once(500, |number, name| {
        if let Ok(hold) = gate.reserve(&user(name).cost(1 + number as u64 % 3)) {
            match number % 3 {
                0 => hold.settle(0),
                1 => hold.cancel(),
                _ => drop(hold),
            }
        }
    });
    assert_eq!(used(&gate, "everybody"), 0);
    assert_eq!(used(&gate, "per-user"), 0);
}

#[test]
fn of_those_who_replace_the_same_policy_all_but_one_are_too_late() {
    let (gate, _) = gate(Policy::new());
    for round in 0..100 {
        let seen = gate.policy();
        let replace = |number: u64| {
            let policy = Policy::new().rule(per_user(1 + round * 10 + number));
            (gate.compare_and_replace(&seen, policy.clone()).unwrap(), policy)
        };
        let replaced: Vec<_> = thread::scope(|scope| {
            let replace = &replace;
            let tries: Vec<_> = (0..4).map(|number| scope.spawn(move || replace(number))).collect();
            tries.into_iter().map(|tried| tried.join().unwrap()).collect()
        });
        let done: Vec<_> =
            replaced.iter().filter(|(how, _)| *how == ReplaceOutcome::Replaced).collect();
        assert_eq!(done.len(), 1);
        assert_eq!(*gate.policy(), done[0].1);
    }
}
