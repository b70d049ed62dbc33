//! Any bytes as a log: every line is a request, malformed or empty, and what is said adds up.

use std::time::Duration;

use tollgate::{Condition, Limit, Policy, Rule};
use tollgate_lab::picture::Screen;
use tollgate_lab::replay::{Format, Log, Order, Report, Settings, Template, replay};

/// Reads the bytes as a log; the first says how.
pub(crate) fn log_line(data: &[u8]) {
    let Some((how, log)) = data.split_first() else {
        return;
    };
    let formats =
        [None, Some(Format::Common), Some(Format::Json), Some(Format::Csv), Some(Format::Tsv)];
    let format = formats[usize::from(*how) % formats.len()];
    let window = Duration::from_millis(u64::from(*how) * 40);
    let whole = run(log, format, if how & 1 == 0 { Order::Sorted } else { Order::Within(window) });
    if let Some(report) = whole {
        adds_up(&report);
        let text: String =
            report.sections(Screen::plain(80)).into_iter().map(|of| of.text).collect();
        let is_harmless = |c: char| c == '\n' || !c.is_control();
        assert!(text.chars().all(is_harmless), "{text:?}");
        assert!(!report.html().contains("<script"));
    }
}

fn run(log: &[u8], format: Option<Format>, order: Order) -> Option<Report> {
    let routes = Template::new("/a/{b}").into_iter().collect();
    let settings = Settings { format, order, routes, max_keys: 8, ..Settings::default() };
    replay(&[Log::Bytes(log.into())], &policy(), None, &settings, &mut |_| {}).ok()
}

fn policy() -> Policy {
    let search = Condition::Prefix(vec!["/s".to_owned()]);
    Policy::new()
        .rule(Rule::new("per-ip").key(["ip", "agent"]).limit(Limit::per_minute(2)))
        .rule(Rule::new("search").matches("path", search).key(["user"]).limit(Limit::per_hour(1)))
        .rule(
            Rule::new("route").key(["route"]).limit(Limit::sliding_log(2, Duration::from_secs(9))),
        )
}

fn adds_up(report: &Report) {
    assert_eq!(report.allowed + report.refused + report.wrong, report.requests);
    assert!(report.requests + report.malformed.lines <= report.lines);
    assert_eq!(report.rules.iter().map(|rule| rule.refused).sum::<u64>(), report.refused);
    let told: u64 = report.clients.top.iter().map(|client| client.refused - client.over).sum();
    assert!(told <= report.refused);
    for of in &report.suggestions {
        let counts = of.tried.iter().map(|tried| tried.refused);
        assert!(counts.max().unwrap_or(0) <= of.requests);
    }
}

#[test]
fn any_log_is_rejected_or_read_line_by_line() {
    tollgate_testkit::fuzz("log_line", 6_000, log_line);
}
