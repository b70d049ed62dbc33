//! Lines that nobody should have written.

use tollgate_lab::picture::Screen;
use tollgate_lab::replay::{Failure, Settings};

use super::{run, telling, values};

const GOOD: &str = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1\n";

#[test]
fn a_malformed_line_is_counted_and_shown_with_its_number() {
    let bad = [
        "not a line",
        "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1 200 1",
        "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\"",
        "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" xxx 1",
        "::1 - - [99/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1",
        "::1 - -",
        "[",
        "\"\\",
        "::1 - - [16/Nov/2026:10:13:50 +0000] \"\\",
        " ",
        "",
    ];
    let log: String = bad.iter().map(|bad| format!("{GOOD}{bad}\n")).collect();
    let report = run(&log, &telling(&["ip"]), &Settings::default()).unwrap();
    assert_eq!((report.lines, report.requests, report.malformed.lines), (22, 11, 9));
    let numbers: Vec<u64> = report.malformed.first.iter().map(|line| line.line).collect();
    assert_eq!(numbers, [2, 4, 6, 8, 10]);
    assert_eq!(report.malformed.first[0].text, "not a line");
    assert_eq!(report.malformed.first[4].why, "its time cannot be read");
}

#[test]
fn a_malformed_line_ends_a_strict_replay() {
    let strict = Settings { strict: true, ..Settings::default() };
    let failed = run(format!("{GOOD}oh\n{GOOD}"), &telling(&["ip"]), &strict);
    let Err(Failure::Malformed(message)) = failed else { panic!("{failed:?}") };
    assert_eq!(message, "memory:2: is no line of a common or combined log");
    assert!(run(GOOD, &telling(&["ip"]), &strict).is_ok());
}

#[test]
fn malformed_lines_of_every_format_leave_the_others_alone() {
    let json = "{\"time\":\"1794824030\",\"ip\":\"1\"}\n{\"time\":\n[1]\n{}\n{\"time\":\"x\"}\n{\"time\":\"1\"} x\n";
    let report = run(json, &telling(&["ip"]), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.malformed.lines), (1, 5));
    let csv = "time,ip\n1794824030,1\n1794824030\n1794824030,1,2\n,1\nx,1\n1794824030,\"1\n1794824030,\"1\"x\n";
    let report = run(csv, &telling(&["ip"]), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.malformed.lines), (1, 6));
    let deep =
        format!("{{\"time\":\"1794824030\",\"a\":{}1{}}}\n", "[".repeat(500), "]".repeat(500));
    let report =
        run(format!("{{\"time\":\"1\"}}\n{deep}"), &telling(&["ip"]), &Settings::default());
    assert_eq!(report.unwrap().requests, 2, "what nobody asked for may be as deep as it likes");
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such_and_break_nothing() {
    let mut log =
        b"\xff\xfe - \xc3 [16/Nov/2026:10:13:50 +0000] \"GET /\0\xf0\x9f HTTP/1.1\" 200 1\n"
            .to_vec();
    log.extend(log.clone());
    let report = run(&log, &telling(&["ip", "user", "path"]), &Settings::default()).unwrap();
    let key: Vec<&str> = report.clients.top[0].key.iter().map(|(_, value)| &**value).collect();
    assert_eq!(key, ["\u{fffd}\u{fffd}", "\u{fffd}", "/\0\u{fffd}"]);
}

#[test]
fn a_line_of_ten_megabytes_is_counted_and_not_kept() {
    let long = "x".repeat(10 << 20);
    for log in [
        format!("{GOOD}{long}\n{GOOD}"),
        format!("{GOOD}{}", &GOOD.replace("GET /", &format!("GET /{long}"))) + GOOD,
        format!("{GOOD}{GOOD}{long}"),
    ] {
        let report = run(&log, &telling(&["ip"]), &Settings::default()).unwrap();
        assert_eq!((report.lines, report.requests, report.malformed.lines), (3, 2, 1));
        assert_eq!(report.malformed.first[0].why, "is longer than 1048576 bytes");
        assert!(report.malformed.first[0].text.len() < 400);
    }
    let just_fits = GOOD.replace("GET /", &format!("GET /{}", "x".repeat(1_000_000)));
    let report = run(just_fits, &telling(&["ip"]), &Settings::default()).unwrap();
    assert_eq!((report.requests, report.malformed.lines), (1, 0));
}

#[test]
fn lines_end_as_they_like() {
    let line = GOOD.trim_end();
    for log in [
        format!("{line}\r\n{line}\r\n"),
        format!("{line}\n{line}"),
        format!("\n{line}\n\n{line}\n"),
    ] {
        let report = run(&log, &telling(&["bytes"]), &Settings::default()).unwrap();
        assert_eq!((report.requests, report.refused, report.malformed.lines), (2, 1, 0), "{log:?}");
        assert_eq!(report.clients.top[0].key[0].1, "1");
    }
    let nothing = run("", &telling(&["ip"]), &Settings::default()).unwrap();
    assert_eq!((nothing.lines, nothing.requests), (0, 0));
}

#[test]
fn nothing_of_a_hostile_line_is_markup_or_moves_a_cursor() {
    let agent = "<img src=x onerror=alert(1)>\\x1b[31m";
    let line = format!(
        "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"{agent}\"\n"
    );
    assert_eq!(values("", &line, &["agent"], &[]), ["<img src=x onerror=alert(1)>\u{1b}[31m"]);
    let log = format!("{line}{line}<script>\u{1b}[2J\n");
    let report = run(log, &telling(&["agent"]), &Settings::default()).unwrap();
    let page = report.html();
    assert!(!page.contains("<img") && !page.contains("<script"), "{page}");
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    let text: String = report.sections(Screen::plain(80)).into_iter().map(|of| of.text).collect();
    assert!(!text.contains('\u{1b}') && text.contains("<img src=x onerror=alert(1)>"), "{text}");
}
