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
