//! Lines that are out of order, and several logs as one.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Limit, Policy, Rule};
use tollgate_lab::replay::{Log, Order, Report, Settings, replay};

use super::{bytes, run, telling};

fn policy() -> Policy {
    let per_ip = Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(6).burst(2));
    Policy::new()
        .rule(per_ip)
        .rule(Rule::new("all").limit(Limit::fixed_window(40, Duration::from_secs(60))))
}

fn line((second, client): (u64, u8)) -> String {
    format!("{{\"time\":{},\"ip\":\"{client}\"}}\n", 1_794_824_030 + second)
}

fn order(order: Order) -> Settings {
    Settings { order, ..Settings::default() }
}

/// What must be the same whatever the lines' order was.
fn essence(report: &Report) -> impl PartialEq + std::fmt::Debug {
    let rules: Vec<_> = report.rules.iter().map(|rule| (rule.requests, rule.refused)).collect();
    let clients: Vec<_> =
        report.clients.top.iter().map(|of| (of.key.clone(), of.refused)).collect();
    (report.requests, report.refused, rules, clients, report.from.clone(), report.to.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lines_out_of_order_are_decided_in_order(
        requests in prop::collection::vec((0_u64..120, 0_u8..4), 1..150),
        jitter in prop::collection::vec(0_u64..10, 150),
    ) {
        let mut sorted = requests.clone();
        sorted.sort_by_key(|(second, _)| *second);
        let text = |requests: &[(u64, u8)]| requests.iter().copied().map(line).collect::<String>();
        let straight = run(text(&sorted), &policy(), &Settings::default()).unwrap();
        prop_assert_eq!(straight.order.late, 0);

        // Each line is written when it ended, less than ten seconds after it began.
        let mut ended: Vec<_> = sorted.iter().zip(&jitter).map(|(of, late)| (of.0 + late, *of)).collect();
        ended.sort_by_key(|(end, _)| *end);
        let shuffled: Vec<_> = ended.into_iter().map(|(_, of)| of).collect();
        let reordered = run(text(&shuffled), &policy(), &Settings::default()).unwrap();
        prop_assert_eq!(reordered.order.late, 0);
        prop_assert_eq!(reordered.requests, straight.requests);
        // Lines of one second stay as they are written, and so may differ by client, not by number.
        prop_assert_eq!(reordered.rules[1].requests, straight.rules[1].requests);

        let all = run(text(&requests), &policy(), &order(Order::Sorted)).unwrap();
        let mut stable = requests.clone();
        stable.sort_by_key(|(second, _)| *second);
        let stable = run(text(&stable), &policy(), &Settings::default()).unwrap();
        prop_assert_eq!(essence(&all), essence(&stable));
    }

    #[test]
    fn several_logs_are_one_in_order_of_time(
        requests in prop::collection::vec((0_u64..120, 0_u8..4, 0_usize..3), 1..150),
    ) {
        let mut sorted = requests;
        sorted.sort_by_key(|(second, _, log)| (*second, *log));
        let of = |wanted: Option<usize>| -> String {
            let some = sorted.iter().filter(|(_, _, log)| wanted.is_none_or(|wanted| wanted == *log));
            some.map(|(second, client, _)| line((*second, *client))).collect()
        };
        let one = run(of(None), &policy(), &Settings::default()).unwrap();
        let logs: Vec<Log> = (0..3).map(|log| bytes(of(Some(log)))).collect();
        let merged = replay(&logs, &policy(), None, &Settings::default(), &mut |_| {}).unwrap();
        prop_assert_eq!(essence(&merged), essence(&one));
        prop_assert_eq!(merged.order.late, 0);
    }
}

#[test]
fn a_line_that_is_too_late_is_decided_at_the_time_reached_and_counted() {
    let log: String = [(0, 1), (30, 1), (31, 1), (5, 1), (32, 1)].map(line).concat();
    let report = run(&log, &policy(), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.order.late), (5, 0), "all of it was still waiting");
    let report = run(&log, &policy(), &order(Order::Within(Duration::from_secs(2)))).unwrap();
    assert_eq!(report.order.late, 0, "a block of lines is read before the first is decided");
    // More lines than one block holds: the late one comes when others were decided.
    let many: String = (0..16_000).map(|at| line((30 + at / 160, 2))).collect();
    let log = format!("{}{many}{}{}", line((0, 1)), line((5, 1)), line((200, 1)));
    let report = run(&log, &policy(), &Settings::default()).unwrap();
    assert_eq!(report.order.late, 1);
    assert!(report.order.latest_micros > 60 * 1_000_000, "{:?}", report.order);
    let sorted = run(&log, &policy(), &order(Order::Sorted)).unwrap();
    assert_eq!(sorted.order.late, 0);
}

#[test]
fn a_format_is_named_once_however_the_logs_lie() {
    let json = || bytes("{\"time\":1794824030,\"ip\":\"1\"}\n");
    let csv = bytes("time,ip\n1794824030,1\n");
    let logs = [json(), csv, json()];
    let report = replay(&logs, &telling(&["ip"]), None, &Settings::default(), &mut |_| {});
    assert_eq!(report.expect("the logs are readable").formats, ["json", "csv"]);
}

/// Lines a second, of one client after the other.
fn steady(lines: u64) -> String {
    (0..lines).map(|at| line((at, u8::try_from(at % 4).expect("small")))).collect()
}

#[test]
fn one_time_of_the_far_future_upsets_neither_the_order_nor_the_clock() {
    // More than a block, so that lines are decided before the last is read; every other pair of
    // lines is out of order.
    let swapped = |at: u64| at ^ 1;
    let lines: Vec<String> = (0..20_000).map(|at| line((swapped(at), 1))).collect();
    let right = run(lines.concat(), &policy(), &Settings::default()).unwrap();
    assert_eq!((right.order.late, right.malformed.lines), (0, 0));
    let century = 100 * 365 * 24 * 3600;
    let wrong = [line((century, 9)), line((century + 60, 9))];
    for at in [0, 7, 10_000] {
        let mut lines = lines.clone();
        lines.splice(at..at, wrong.clone());
        let report = run(lines.concat(), &policy(), &Settings::default()).unwrap();
        assert_eq!(report.order.late, 0, "after line {at}");
        assert_eq!(report.malformed.lines, 2, "after line {at}");
        let first = &report.malformed.first[0];
        assert_eq!((first.line, first.text.as_str()), (at as u64 + 1, wrong[0].trim_end()));
        assert_eq!(first.why, "its time is more than a day ahead of the lines around it");
        assert_eq!(essence(&report), essence(&right), "after line {at}");
        let strict = Settings { strict: true, ..Settings::default() };
        let error = run(lines.concat(), &policy(), &strict).unwrap_err().to_string();
        assert_eq!(error, format!("memory:{}: {}", at + 1, first.why));
    }
}

#[test]
fn a_log_that_is_silent_for_days_is_believed() {
    let day = 24 * 3600;
    let log: String = (0..10).map(|at| line((at * 3 * day, 1))).collect();
    let report = run(&log, &policy(), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.malformed.lines, report.order.late), (10, 0, 0));
    let later: String = (0..100).map(|at| line((30 * day + at, 2))).collect();
    let report = run(steady(100) + &later, &policy(), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.malformed.lines, report.order.late), (200, 0, 0));
}

#[test]
fn thousands_of_logs_are_read_at_once() {
    // More than a process may have open, one line a second dealt out to all in turn.
    let folder = std::env::temp_dir().join(format!("tollgate-lab-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let logs = 3000_u64;
    let paths: Vec<_> = (0..logs).map(|log| folder.join(format!("{log}.log"))).collect();
    for (log, path) in (0..).zip(&paths) {
        let text: String = (0..4)
            .map(|turn| line((turn * logs + log, u8::try_from(log % 4).expect("small"))))
            .collect();
        std::fs::write(path, text).expect("a file can be written");
    }
    let named: Vec<Log> = paths.iter().map(|path| Log::named(path)).collect();
    let report = replay(&named, &policy(), None, &Settings::default(), &mut |_| {});
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let report = report.expect("the logs are readable");
    let whole = run(steady(4 * logs), &policy(), &Settings::default()).unwrap();
    assert_eq!(essence(&report), essence(&whole));
    assert_eq!((report.lines, report.order.late), (4 * logs, 0));
}

#[test]
fn who_watches_hears_of_a_log_that_is_sorted_while_it_is_read() {
    let log = steady(40_000);
    let mut heard = Vec::new();
    let settings = order(Order::Sorted);
    replay(&[bytes(&log)], &policy(), None, &settings, &mut |progress| heard.push(progress))
        .expect("the log is readable");
    let reading: Vec<_> = heard.iter().filter(|progress| progress.decided == 0).collect();
    assert!(reading.len() >= 4, "{heard:?}");
    assert!(reading.is_sorted_by_key(|progress| progress.lines), "{heard:?}");
    assert!(reading[0].bytes < log.len() as u64, "{heard:?}");
    let last = heard.last().expect("the end");
    assert_eq!((last.lines, last.decided, last.bytes), (40_000, 40_000, log.len() as u64));
}
