//! Blocks: a key that was denied stays denied, longer each time if the rule says so.

use std::time::Duration;

use tollgate::{
    BlockPolicy, Cost, Limit, ManualClock, MemoryStore, Override, Policy, Reason, Rule, RuleLimits,
};

use super::{Gate, HOUR, MINUTE, SECOND, everybody, figure, gate, hourly, passed, per_user, user};

fn login(block: impl Into<BlockPolicy>) -> Policy {
    let limit = Limit::sliding_log(2, MINUTE);
    Policy::new().rule(Rule::new("login").key(["user"]).limit(limit).block(block))
}

fn escalating() -> Policy {
    login(BlockPolicy::fixed(10 * MINUTE).escalating(3, HOUR))
}

/// Uses up what a key has and is denied once more: for how long it is then blocked.
fn offend(gate: &Gate, name: &str) -> Duration {
    let denied = (0..4).map(|_| gate.check(&user(name))).find(|ruling| !ruling.is_allowed());
    denied.and_then(|ruling| ruling.retry_after()).expect("the third is denied for now")
}

#[test]
fn a_block_lasts_its_length_and_requests_do_not_prolong_it() {
    let (gate, clock) = gate(login(15 * MINUTE));
    assert_eq!(passed(&gate, &user("ana"), 2), 2);
    let denied = gate.check(&user("ana"));
    assert_eq!((denied.reason(), denied.remaining()), (Reason::Limits, 0));
    assert_eq!(denied.retry_after(), Some(15 * MINUTE));
    for minutes in 1..15 {
        clock.advance(MINUTE);
        let blocked = gate.check(&user("ana"));
        assert_eq!((blocked.reason(), blocked.remaining()), (Reason::Blocked, 0));
        assert_eq!(blocked.retry_after(), Some((15 - minutes) * MINUTE));
        assert_eq!(blocked.reset_after(), (15 - minutes) * MINUTE);
        assert_eq!(blocked.rules().next().unwrap().blocked_for(), blocked.retry_after());
    }
    clock.advance(MINUTE - Duration::from_nanos(1));
    assert!(!gate.check(&user("ana")).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(gate.check(&user("ana")).is_allowed());
    assert!(gate.check(&user("ben")).is_allowed(), "nobody else was blocked");
}

#[test]
fn a_limit_that_makes_wait_longer_than_the_block_says_so() {
    let rule = per_user(1).block(MINUTE);
    let (gate, clock) = gate(Policy::new().rule(rule));
    assert!(gate.check(&user("ana")).is_allowed());
    assert_eq!(gate.check(&user("ana")).retry_after(), Some(HOUR));
    clock.advance(MINUTE);
    let denied = gate.check(&user("ana"));
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limits, Some(HOUR - MINUTE)));
}

#[test]
fn each_further_block_is_longer_up_to_the_longest() {
    let (gate, clock) = gate(escalating());
    for expected in [10 * MINUTE, 30 * MINUTE, HOUR, HOUR] {
        assert_eq!(offend(&gate, "ana"), expected);
        clock.advance(expected);
    }
}

#[test]
fn earlier_blocks_are_forgotten_after_the_longest_of_calm() {
    let (gate, clock) = gate(escalating());
    assert_eq!(offend(&gate, "ana"), 10 * MINUTE);
    clock.advance(10 * MINUTE + HOUR - Duration::from_nanos(1));
    assert_eq!(offend(&gate, "ana"), 30 * MINUTE, "not yet");
    clock.advance(30 * MINUTE + HOUR);
    assert_eq!(offend(&gate, "ana"), 10 * MINUTE);
}

#[test]
fn a_reset_lifts_the_block_and_forgets_earlier_ones() {
    let (gate, _) = gate(escalating());
    let lifts: [fn(&Gate); 4] = [
        |gate| assert!(gate.reset("login", &["ana"])),
        |gate| assert!(gate.reset_rule("login")),
        Gate::reset_all,
        |gate| assert_eq!(gate.reset_request(&user("ana")), 1),
    ];
    for lift in lifts {
        assert_eq!(offend(&gate, "ana"), 10 * MINUTE);
        lift(&gate);
        assert!(gate.blocked_keys().is_empty());
        assert_eq!(passed(&gate, &user("ana"), 2), 2);
        gate.reset("login", &["ana"]);
    }
}

#[test]
fn a_reset_of_what_was_earned_leaves_a_block_by_hand() {
    let (gate, clock) = gate(escalating());
    assert_eq!(offend(&gate, "ana"), 10 * MINUTE);
    assert!(gate.reset_keeping_manual_block("login", &["ana"]), "the block and what was taken");
    assert_eq!(passed(&gate, &user("ana"), 1), 1);
    assert!(gate.block("login", &["ana"], HOUR).unwrap());
    assert!(gate.reset_keeping_manual_block("login", &["ana"]), "what was taken");
    assert!(!gate.reset_keeping_manual_block("login", &["ana"]), "there is nothing else to reset");
    assert_eq!(gate.check(&user("ana")).retry_after(), Some(HOUR));
    assert!(
        !gate.reset_keeping_manual_block("login", &[])
            && !gate.reset_keeping_manual_block("nothing", &["ana"])
    );
    // Also one that was earned before it was made longer by hand.
    offend(&gate, "ben");
    assert!(gate.block("login", &["ben"], HOUR).unwrap());
    gate.reset_keeping_manual_block("login", &["ben"]);
    assert_eq!(gate.check(&user("ben")).reason(), Reason::Blocked);
    clock.advance(HOUR);
    assert_eq!(passed(&gate, &user("ana"), 1), 1, "it ends with its time");
}

#[test]
fn lifting_a_block_leaves_the_limit_as_it_stands() {
    let (gate, clock) = gate(login(15 * MINUTE));
    offend(&gate, "ana");
    assert!(gate.unblock("login", &["ana"]));
    assert!(!gate.unblock("login", &["ana"]), "there is none any more");
    let ruling = gate.peek(&user("ana"));
    assert_eq!((ruling.reason(), ruling.retry_after()), (Reason::Limits, Some(MINUTE)));
    clock.advance(MINUTE);
    assert!(gate.check(&user("ana")).is_allowed());
    offend(&gate, "ben");
    assert_eq!(gate.unblock_request(&user("ben")), 1);
    assert_eq!(gate.unblock_request(&user("ben")), 0);
}

#[test]
fn a_key_can_be_blocked_by_hand_under_a_rule_that_blocks_nobody() {
    let (gate, clock) = gate(Policy::new().rule(per_user(5)).rule(everybody(9)));
    assert!(gate.block("per-user", &["ana"], MINUTE).unwrap());
    let ruling = gate.check(&user("ana"));
    assert_eq!((ruling.reason(), ruling.decided_by_name()), (Reason::Blocked, Some("per-user")));
    assert_eq!((ruling.retry_after(), ruling.remaining()), (Some(MINUTE), 0));
    assert_eq!(figure(&ruling, "everybody"), 9, "nothing was charged");
    assert!(gate.check(&user("ben")).is_allowed());
    clock.advance(MINUTE);
    assert!(gate.check(&user("ana")).is_allowed());
}

#[test]
fn a_client_without_limits_can_be_blocked_by_hand() {
    let free = Override::new("user", "ana").limits("per-user", RuleLimits::Unlimited);
    let policy = Policy::new().rule(everybody(9)).rule(per_user(5)).override_client(free);
    let (gate, clock) = gate(policy);
    assert_eq!(gate.block_request(&user("ana"), MINUTE).unwrap(), 2);
    assert!(gate.unblock("everybody", &[]));
    let ruling = gate.check(&user("ana"));
    assert_eq!((ruling.is_allowed(), ruling.reason()), (false, Reason::Blocked));
    assert_eq!((ruling.decided_by_name(), ruling.retry_after()), (Some("per-user"), Some(MINUTE)));
    assert!(
        ruling.rules().map(|of| of.rule()).eq(["everybody", "per-user"]),
        "as the policy has them"
    );
    let own = ruling.rules().nth(1).unwrap();
    assert_eq!((own.limit_config(), own.remaining(), own.blocked_for()), (None, 0, Some(MINUTE)));
    clock.advance(MINUTE);
    assert_eq!(passed(&gate, &user("ana"), 20), 9);
}

#[test]
fn what_cannot_be_blocked_says_so() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    assert!(!gate.block("no such rule", &["ana"], MINUTE).unwrap());
    assert!(!gate.block("per-user", &["ana", "ben"], MINUTE).unwrap(), "another number of values");
    assert!(!gate.unblock("no such rule", &["ana"]));
    assert_eq!(gate.block_request(&tollgate::Request::new(), MINUTE).unwrap(), 0);
}

#[test]
fn a_peek_sees_a_block_and_never_makes_one() {
    let (gate, _) = gate(login(15 * MINUTE));
    assert_eq!(passed(&gate, &user("ana"), 2), 2);
    assert_eq!(gate.peek(&user("ana")).retry_after(), Some(MINUTE));
    assert!(gate.blocked_keys().is_empty());
    assert_eq!(gate.check(&user("ana")).retry_after(), Some(15 * MINUTE));
    assert_eq!(gate.peek(&user("ana")).retry_after(), Some(15 * MINUTE));
    assert_eq!(gate.status(&user("ana")).remaining(), 0);
}

#[test]
fn a_shadow_rule_reports_its_block_and_denies_nobody() {
    let rule = Rule::new("trial").key(["user"]).limit(hourly(1)).block(15 * MINUTE).shadow();
    let (gate, clock) = gate(Policy::new().rule(rule));
    assert_eq!(passed(&gate, &user("ana"), 5), 5);
    let ruling = gate.check(&user("ana"));
    assert_eq!((ruling.reason(), ruling.decided_by_name()), (Reason::NoRule, None));
    assert_eq!(ruling.rules().next().unwrap().blocked_for(), Some(15 * MINUTE));
    clock.advance(15 * MINUTE);
    assert!(gate.block("trial", &["ana"], MINUTE).unwrap());
    assert!(gate.check(&user("ana")).is_allowed());
}

#[test]
fn a_request_that_can_never_be_blocks_nobody() {
    let (gate, _) = gate(login(15 * MINUTE));
    assert!(gate.check(&user("ana").cost(3)).error().is_some());
    assert!(gate.blocked_keys().is_empty());
}

#[test]
fn request_with_an_invalid_cost_starts_no_block_of_another_rule() {
    let tokens = Rule::new("tokens").limit(hourly(10));
    let cost = Cost::Attribute { name: "tokens".to_owned(), multiplier: 1, default: 1 };
    let shadow = per_user(1).block(MINUTE).shadow();
    let policy = login(15 * MINUTE).rule(tokens.cost(cost)).rule(shadow);
    let (gate, _) = gate(policy);
    assert_eq!(passed(&gate, &user("ana"), 2), 2);
    gate.unblock("per-user", &["ana"]);
    let ruling = gate.check(&user("ana").with("tokens", "11"));
    assert_eq!((ruling.reason(), ruling.retry_after()), (Reason::InvalidRequest, None));
    assert!(ruling.rules().all(|figures| figures.blocked_for().is_none()));
    assert!(gate.blocked_keys().is_empty());
    assert!(!gate.check(&user("ana")).is_allowed());
    assert!(gate.blocked_keys().iter().any(|(rule, ..)| rule == "login"), "a valid cost does");
}

#[test]
fn invalid_cost_of_a_shadow_rule_alone_prevents_no_block() {
    let tokens = Rule::new("tokens").limit(hourly(1)).cost(3).shadow();
    let (gate, _) = gate(login(15 * MINUTE).rule(tokens));
    offend(&gate, "ana");
    assert_eq!(gate.blocked_keys().len(), 1);
}

#[test]
fn blocked_rule_of_several_limits_shows_the_one_that_denied() {
    for limits in [[hourly(9), hourly(2)], [hourly(2), hourly(9)]] {
        let [first, second] = limits;
        let capacity_of_first = first.capacity();
        let rule = Rule::new("login").key(["user"]).limit(first).limit(second);
        let (gate, clock) = gate(Policy::new().rule(rule.block(2 * HOUR)));
        assert_eq!(passed(&gate, &user("ana"), 5), 2);
        for pause in [Duration::ZERO, MINUTE, HOUR] {
            clock.advance(pause);
            let ruling = gate.check(&user("ana"));
            let figures = ruling.rules().next().expect("a rule applies");
            let shown =
                (figures.limit_config().map(Limit::capacity), figures.limit(), ruling.limit());
            // After an hour both limits are fresh, and the first one is shown.
            let wanted = if pause == HOUR { capacity_of_first } else { 2 };
            assert_eq!(shown, (Some(wanted), wanted, wanted), "after {pause:?}");
        }
    }
}

#[test]
fn a_denial_of_another_rule_blocks_only_there() {
    let policy = escalating().rule(everybody(1));
    let (gate, _) = gate(policy);
    assert_eq!(passed(&gate, &user("ana"), 9), 1);
    assert!(gate.blocked_keys().is_empty(), "login itself had one left");
}

#[test]
fn a_rule_that_no_longer_blocks_keeps_only_what_was_blocked_by_hand() {
    let (gate, clock) = gate(login(15 * MINUTE));
    offend(&gate, "ana");
    clock.advance(MINUTE);
    gate.replace(Policy::new().rule(Rule::new("login").key(["user"]).limit(hourly(99)))).unwrap();
    assert!(gate.peek(&user("ana")).is_allowed());
    assert!(gate.blocked_keys().is_empty());
    assert!(gate.block("login", &["ben"], MINUTE).unwrap());
    assert!(gate.peek(&user("ana")).is_allowed(), "whoever else is blocked");
    assert_eq!(gate.blocked_keys().len(), 1);
}

#[test]
fn the_list_of_blocked_keys_says_who_where_and_for_how_long() {
    let (gate, clock) = gate(login(15 * MINUTE));
    offend(&gate, "ana");
    clock.advance(MINUTE);
    let blocked = gate.blocked_keys();
    let [(rule, key, length)] = &blocked[..] else { panic!("{blocked:?}") };
    assert_eq!((rule.as_str(), key.to_string().as_str(), *length), ("login", "ana", 14 * MINUTE));
    clock.advance(14 * MINUTE);
    assert!(gate.blocked_keys().is_empty());
}

#[test]
fn no_traffic_makes_more_blocks_than_the_store_may_hold_keys() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).max_keys(160).build().unwrap();
    let gate = Gate::with_store(store, escalating()).unwrap();
    for number in 0..2000 {
        let name = format!("user-{number}");
        offend(&gate, &name);
        clock.advance(SECOND / 1000);
        assert!(gate.peek(&user(&name)).retry_after() > Some(MINUTE), "the last one is blocked");
    }
    assert!((100..=160).contains(&gate.blocked_keys().len()), "{}", gate.blocked_keys().len());
}

#[test]
fn a_block_beyond_the_end_of_time_blocks_until_then() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    assert!(gate.block("per-user", &["ana"], Duration::MAX).unwrap());
    assert!(!gate.check(&user("ana")).is_allowed());
    assert!(gate.block("per-user", &["ana"], Duration::ZERO).unwrap());
    assert!(gate.check(&user("ana")).is_allowed());
}

#[test]
fn a_block_by_hand_leaves_earlier_ones_known() {
    let (gate, clock) = gate(escalating());
    assert_eq!(offend(&gate, "ana"), 10 * MINUTE);
    assert!(
        gate.block("login", &["ana"], MINUTE).unwrap(),
        "the operator's word counts, also if shorter"
    );
    clock.advance(MINUTE);
    assert_eq!(offend(&gate, "ana"), 30 * MINUTE);
}

/// A gate over a store of few keys whose rule blocks for longer each time, and its clock.
fn flooded(max_keys: usize) -> (Gate, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().clock(clock.clone()).max_keys(max_keys);
    let store = builder.build().expect("the bound is possible");
    (Gate::with_store(store, escalating()).expect("the policy is valid"), clock)
}

#[test]
fn manual_block_outlives_a_flood_of_automatic_blocks() {
    let (gate, clock) = flooded(100);
    // It ends before every automatic block.
    gate.block("login", &["eve"], MINUTE).unwrap();
    for number in 0..2000 {
        offend(&gate, &format!("user-{number}"));
        assert!(!gate.check(&user("eve")).is_allowed(), "after {number} others");
    }
    clock.advance(MINUTE);
    assert!(gate.check(&user("eve")).is_allowed());
}

#[test]
fn automatic_blocks_that_are_dropped_are_counted() {
    let (gate, clock) = flooded(100);
    for number in 0..1000 {
        offend(&gate, &format!("user-{number}"));
    }
    let kept = gate.blocked_keys().len();
    assert!(kept <= 112, "{kept}: at most a few more than the store holds keys");
    assert_eq!(gate.store().dropped_blocks(), 1000 - kept as u64);
    // All have ended and none is remembered: those that follow them drop nothing that counts. No more
    // than fit, wherever they are.
    clock.advance(3 * HOUR);
    for number in 0..7 {
        offend(&gate, &format!("later-{number}"));
    }
    assert_eq!(gate.store().dropped_blocks(), 1000 - kept as u64);
}

#[test]
fn manual_blocks_have_a_bound_and_one_more_is_an_error() {
    let (gate, clock) = flooded(100);
    for number in 0..99_999 {
        assert!(gate.block("login", &[&number.to_string()], HOUR).unwrap());
    }
    assert!(gate.block("login", &["short"], MINUTE).unwrap());
    let error = gate.block("login", &["eve"], MINUTE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are 100000 manual blocks, at most 100000 are kept; lift some"
    );
    assert!(gate.block_request(&user("eve"), MINUTE).is_err());
    assert!(gate.check(&user("eve")).is_allowed());
    assert!(gate.block("login", &["7"], MINUTE).unwrap(), "a block can be replaced");
    assert_eq!(gate.blocked_keys().len(), 100_000);
    assert!(gate.unblock("login", &["8"]));
    assert!(gate.block("login", &["eve"], MINUTE).unwrap());
    assert!(gate.block("login", &["ben"], MINUTE).is_err());
    clock.advance(MINUTE);
    assert_eq!(gate.block_request(&user("ben"), MINUTE).unwrap(), 1, "some have ended");
}

#[test]
fn request_is_blocked_in_all_its_rules_or_in_none() {
    let rules = ["one", "two", "three"].map(|name| Rule::new(name).key(["user"]).limit(hourly(5)));
    let policy = rules.into_iter().fold(Policy::new(), Policy::rule);
    let gate = Gate::new(policy).expect("the policy is valid");
    for number in 0..99_998 {
        assert!(gate.block("one", &[&number.to_string()], HOUR).unwrap());
    }
    assert!(gate.block_request(&user("eve"), HOUR).is_err());
    assert_eq!(gate.unblock_request(&user("eve")), 0);
    assert!(gate.unblock("one", &["1"]));
    assert_eq!(gate.block_request(&user("eve"), HOUR).unwrap(), 3);
}
