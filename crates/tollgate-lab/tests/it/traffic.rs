//! Traffic is what its text says, and the same for a seed.

use tollgate_lab::traffic::{Arrival, Traffic};
use tollgate_testkit::cases;
use tollgate_testkit::proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn read(text: &str) -> Traffic {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn times(text: &str) -> Vec<u64> {
    read(text).arrivals(1).map(|arrival| arrival.at_nanos).collect()
}

fn said(text: &str) -> String {
    text.parse::<Traffic>().map(|_| panic!("{text}")).unwrap_err().to_string()
}

const EVERY_SHAPE: [&str; 8] = [
    "steady 20/s for 30s",
    "poisson 20/s for 30s from 10 clients",
    "bursts 50 every 10s for 30s",
    "onoff 50/s on 3s off 4s for 30s",
    "ramp 0/s to 40/s for 30s",
    "ramp 40/s to 0/s for 30s",
    "edge 100 of 5s for 30s from 7 clients zipf 1.2",
    "storm 300 for 30s retry backoff 1s",
];

#[test]
fn every_shape_is_in_order_within_its_time_and_as_many_as_said() {
    for text in EVERY_SHAPE {
        let traffic = read(text);
        let times = times(&format!("{text} at 5s"));
        assert!(times.is_sorted(), "{text}");
        assert!(times.iter().all(|at| (5 * SECOND..35 * SECOND).contains(at)), "{text}");
        let (many, expected) = (times.len() as u128, traffic.expected());
        let slack = if text.starts_with("poisson") { 75 } else { 1 };
        assert!(many.abs_diff(expected) <= slack, "{text}: {many} and not {expected}");
    }
}

#[test]
fn a_seed_is_one_run_of_arrivals_and_another_is_another() {
    for text in EVERY_SHAPE {
        let [once, again, other] = [1, 1, 2].map(|seed| {
            read(text).arrivals(seed).map(|Arrival { at_nanos, client }| (at_nanos, client))
        });
        let (once, again): (Vec<_>, Vec<_>) = (once.collect(), again.collect());
        assert_eq!(once, again, "{text}");
        let is_random = text.contains("poisson") || text.contains("clients");
        assert_eq!(once != other.collect::<Vec<_>>(), is_random, "{text}");
    }
}

#[test]
fn the_numbers_of_a_seed_are_these_on_every_machine() {
    let arrivals: Vec<(u64, u32)> = read("poisson 20/s from 1000 clients zipf 1.1")
        .arrivals(42)
        .map(|arrival| (arrival.at_nanos, arrival.client))
        .take(5)
        .collect();
    assert_eq!(
        arrivals,
        [
            (85_056_779, 0),
            (145_442_638, 23),
            (173_419_612, 14),
            (250_719_804, 71),
            (357_855_896, 1)
        ]
    );
}

#[test]
fn steady_requests_are_at_equal_distances() {
    assert_eq!(times("steady 4/s for 1s"), [0, 1, 2, 3].map(|quarter| quarter * SECOND / 4));
    assert_eq!(times("steady 3/s for 1s"), [0, 333_333_333, 666_666_666]);
    assert_eq!(times("steady 1/min for 2min").len(), 2);
}

#[test]
fn bursts_and_spells_come_when_they_are_due() {
    assert_eq!(times("bursts 2 every 1s for 2s"), [0, 0, SECOND, SECOND]);
    let spells = times("onoff 2/s on 1s off 2s for 6s");
    assert_eq!(spells, [0, 1, 6, 7].map(|half| half * SECOND / 2));
}

#[test]
fn a_ramp_has_as_many_in_each_part_as_the_area_under_it() {
    let up = times("ramp 0/s to 100/s for 10s");
    let before = |end: u64| up.iter().filter(|at| **at < end * SECOND).count();
    assert_eq!([before(1), before(5), before(10)], [5, 125, 500]);
    let level = times("ramp 10/s to 10/s for 10s");
    assert_eq!(level.len(), 100);
}

#[test]
fn an_attack_is_on_both_sides_of_every_other_edge() {
    let times = times("edge 10 of 1min for 5min");
    let minute = 60 * SECOND;
    let near = |edge: u64| {
        let before = times.iter().filter(|at| (edge - minute / 100..edge).contains(at)).count();
        let after = times.iter().filter(|at| (edge..edge + minute / 100).contains(at)).count();
        (before, after)
    };
    assert_eq!([near(minute), near(3 * minute)], [(10, 10); 2]);
    assert_eq!(times.len(), 2 * 2 * 10 + 10, "the last attack is cut by the end");
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    for (text, message) in [
        ("", "it is empty, write for example \"poisson 120/s\""),
        (
            "posson 5/s",
            "unknown shape \"posson\", did you mean \"poisson\"? \
             (there are steady, poisson, bursts, onoff, ramp, edge, storm)",
        ),
        ("steady", "\"steady\" needs a rate such as 120/s after it"),
        (
            "steady 0/s",
            "\"0/s\" after \"steady\" is not a rate such as 120/s: count is 0, must be at least 1",
        ),
        ("steady 20/s for", "\"for\" needs a time such as 30s after it"),
        ("steady 20/s for 0s", "\"for\" is 0s, must be longer"),
        ("steady 20/s for ever", "\"ever\" is not a time such as 250ms, 30s or 1h30m"),
        ("steady 20/s for -1s", "\"-1s\" is not a time such as 250ms, 30s or 1h30m"),
        ("steady 20/s for 20y", "\"20y\" is not a time such as 250ms, 30s or 1h30m"),
        ("steady 20/s for 9999d", "\"9999d\" after \"for\" is above 10 years"),
        ("bursts 0 every 1s", "\"bursts\" is 0, must be at least 1"),
        ("bursts many every 1s", "\"many\" after \"bursts\" is not a whole number such as 100"),
        (
            "bursts 5 each 1s",
            "\"each\" stands where \"every\" must, write for example \"bursts 50 every 10s\"",
        ),
        ("ramp 0/s to 0/s", "a ramp from 0/s to 0/s has no requests"),
        ("edge 5 of 1h", "the window of 3600s does not end within 60s, write a longer \"for\""),
        (
            "steady 1/s form 5 clients",
            "unknown word \"form\", did you mean \"for\"? \
             (there are for, at, from, as, cost, retry, tries, with)",
        ),
        ("steady 1/s from 2000000 clients", "it is from 2000000 clients, at most 1000000"),
        (
            "steady 1/s from 5 clients zipf high",
            "\"high\" after \"zipf\" is not a number from 0 to 10 with at most three decimals, such as 1.1",
        ),
        ("storm 5 retry", "unknown retry \"\" (there are after, every, backoff, never)"),
        (
            "steady 1/s with user",
            "\"user\" after \"with\" is not name=value, such as user={client}",
        ),
    ] {
        assert_eq!(said(text), message, "{text}");
    }
    assert_eq!(said(&"steady 1/s ".repeat(1_000)), "it is 11000 bytes long, at most 1024");
}

#[test]
fn absurd_numbers_are_counted_and_not_made() {
    let traffic = read("poisson 1000000000000/s for 3650d");
    assert!(traffic.expected() > u128::from(u64::MAX));
    let large = u64::MAX;
    assert!(read(&format!("bursts {large} every 1ns for 3650d")).expected() > 1 << 64);
    assert_eq!(read(&format!("storm {large}")).arrivals(0).take(3).count(), 3);
    assert_eq!(read(&format!("edge {large} of 1s for 10d")).arrivals(0).take(3).count(), 3);
}

const WORDS: [&str; 40] = [
    "steady",
    "poisson",
    "bursts",
    "onoff",
    "ramp",
    "edge",
    "storm",
    "for",
    "at",
    "from",
    "as",
    "cost",
    "retry",
    "tries",
    "with",
    "every",
    "on",
    "off",
    "to",
    "of",
    "clients",
    "zipf",
    "after",
    "jitter",
    "backoff",
    "never",
    "0",
    "1",
    "18446744073709551615",
    "5/s",
    "0/s",
    "0.001/week",
    "18446744073709551615/ms",
    "1ns",
    "1ms",
    "10s",
    "3653d",
    "1.5",
    "a=b",
    "=",
];

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_text_makes_traffic_that_panics(
        shape in 0..7usize,
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
        odd in "\\PC{0,12}",
        seed in any::<u64>(),
    ) {
        let text = format!("{} {} {odd}", WORDS[shape], words.join(" "));
        for text in [text.as_str(), text.trim_end_matches(&odd), &odd] {
            // A table of a million clients takes a while, and there are thousands of texts.
            let many = text.contains("zipf") && text.contains("1000000");
            if let Some(traffic) = text.parse::<Traffic>().ok().filter(|_| !many) {
                let _ = traffic.expected();
                let times: Vec<u64> =
                    traffic.arrivals(seed).map(|arrival| arrival.at_nanos).take(100).collect();
                prop_assert!(times.is_sorted(), "{text}");
            }
        }
    }
}
