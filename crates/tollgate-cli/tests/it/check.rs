//! `tollgate check`, as somebody at a terminal or a script sees it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Folder, Said, assert_golden, assert_transcript, command};
use serde_json::Value;

fn tollgate(arguments: &[&str]) -> Said {
    Folder::new().tollgate(arguments)
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let said = tollgate(arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    said.out
}

/// Runs a command whose arguments are wrong.
#[track_caller]
fn fails(arguments: &[&str]) -> Said {
    let said = tollgate(arguments);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
    said
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeds(arguments)).expect("--json prints JSON")
}

#[test]
fn nothing_at_all_is_answered_with_help() {
    assert_eq!(fails(&[]).err, succeeds(&["--help"]));
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(succeeds(&["--version"]).trim(), concat!("tollgate ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_limit_is_said_in_plain_words() {
    assert_golden("check/limit", &succeeds(&["check", "100 per minute BURST 20"]));
}

#[test]
fn every_algorithm_has_its_words() {
    let limits = [
        "5/s",
        "5/s leaky_bucket",
        "5/s leaky_bucket queue",
        "5/s fixed_window",
        "5/s fixed_window first",
        "5/day calendar Europe/Paris",
        "5/s sliding_log",
        "5/s sliding_counter",
    ];
    for limit in limits {
        let meaning = json(&["check", limit, "--json"]);
        assert_eq!(meaning["limits"][0]["canonical"], limit);
    }
    let said = limits.map(|limit| tollgate(&["check", limit]));
    assert_transcript("check/algorithms", said);
}

#[test]
fn a_wrong_limit_is_named_with_what_would_be_right() {
    let several = fails(&["check", "5/s", "0/s", "many"]);
    assert_eq!(several.err.lines().count(), 2, "each wrong limit and only those: {}", several.err);
    assert_transcript("check/wrong_limits", [fails(&["check", "100/mni"]), several]);
}

#[test]
fn a_limit_without_its_quotes_is_recognised() {
    assert_transcript("check/no_quotes", [fails(&["check", "100/min", "burst", "20"])]);
}

#[test]
fn a_cost_that_can_never_pass_is_an_error() {
    let said = fails(&["check", "5/s", "--requests", "1", "--cost", "6"]);
    assert_transcript("check/cost", [said]);
}

#[test]
fn requests_are_played_on_a_clock_of_their_own() {
    let table = succeeds(&["check", "2/s", "--requests", "4", "--every", "250ms"]);
    let rows = "
   time  answer   remaining  retry after  reset after
     0s  allowed          1            -        500ms
  250ms  allowed          0            -        750ms
  500ms  allowed          0            -           1s
  750ms  denied           0        250ms        750ms

3 allowed, 1 denied, the first at 750ms
";
    assert!(table.ends_with(rows), "{table}");
}

#[test]
fn a_queue_shows_its_delays() {
    let table = succeeds(&["check", "10/s leaky_bucket queue", "--requests", "2", "--every", "0s"]);
    assert_golden("check/queue", &table);
}

#[test]
fn a_start_is_told_by_the_clock() {
    let paris = "1/day calendar Europe/Paris";
    let start = "2026-03-28T22:30:00Z";
    // Midnight there is at 23:00; the day on which summer time begins has 23 hours.
    let table = succeeds(&["check", paris, "--requests", "3", "--every", "30m", "--start", start]);
    assert_golden("check/start", &table);
}

#[test]
fn several_limits_are_decided_together() {
    let both = ["check", "3/s", "4/h sliding_log", "--requests", "6", "--every", "500ms", "--json"];
    let answer = json(&both);
    let requests = answer["play"]["requests"].as_array().expect("a list").clone();
    let denied: Vec<_> = requests.iter().filter(|request| request["allowed"] == false).collect();
    assert_eq!(answer["play"]["allowed"], 4);
    assert_eq!(denied.len(), 2, "{answer}");
    assert!(denied.iter().all(|request| request["decided_by"] == 1), "{answer}");
    assert_golden("check/several_limits", &succeeds(&both[..both.len() - 1]));
}

#[test]
fn long_runs_are_cut_short_unless_all_are_wanted() {
    let arguments = ["check", "10/s", "--requests", "1000", "--every", "0s"];
    let short = succeeds(&arguments);
    assert_golden("check/long_run", &short);
    assert!(short.lines().count() < 24, "{short}");
    let all = succeeds(&[&arguments[..], &["--all"]].concat());
    assert_eq!(all.matches("  denied ").count(), 990);
}

#[test]
fn answers_that_take_turns_do_not_fill_the_screen() {
    let table = succeeds(&["check", "1/s", "--requests", "100000", "--every", "350ms"]);
    assert!(table.lines().count() < 60, "{table}");
    assert_golden("check/turns", &table);
}

#[test]
fn json_says_both_the_meaning_and_the_play() {
    let meaning = json(&["check", "100/min burst 20", "--json"]);
    let limit = &meaning["limits"][0];
    assert_eq!(limit["canonical"], "100/min burst 20");
    assert_eq!(limit["algorithm"], "token_bucket");
    assert_eq!(limit["at_once"], 20);
    assert_eq!(limit["as_new_after_nanos"], 12_000_000_000_u64);
    assert!(meaning.get("play").is_none());

    let play = json(&["check", "7/s burst 1", "--requests", "2", "--every", "0s", "--json"]);
    let second = &play["play"]["requests"][1];
    assert_eq!(second["allowed"], false);
    assert_eq!(second["retry_after_nanos"], 142_857_143, "to the nanosecond, rounded up");
}

#[test]
fn hostile_arguments_are_refused_and_nothing_panics() {
    let long = "9".repeat(100_000);
    let many = vec!["1/s"; 65];
    let hostile: &[&[&str]] = &[
        &["check"],
        &["check", ""],
        &["check", "\u{1b}[31m5/s"],
        &["check", &long],
        &["check", "-1/min"],
        &["check", "5/s", "--requests", "0"],
        &["check", "5/s", "--requests", "18446744073709551615"],
        &["check", "5/s", "--requests", "-1"],
        &["check", "5/s", "--requests", "1", "--cost", "18446744073709551615"],
        &["check", "5/s", "--requests", "1", "--every", "-1s"],
        &["check", "5/s", "--requests", "2", "--every", "100000w"],
        &["check", "5/s", "--requests", "1", "--every", "99999999999999999999h"],
        &["check", "5/s", "--requests", "1", "--start", "1969-12-31T23:59:59Z"],
        &["check", "5/s", "--requests", "1", "--start", "2262-04-12T00:00:00Z"],
        &["check", "5/s", "--requests", "1", "--start", "yesterday"],
        &["check", "5/s", "--every", "1s"],
        &["chekc", "5/s"],
        &[&["check"], &many[..]].concat(),
    ];
    for arguments in hostile {
        let said = fails(arguments).err;
        assert!(!said.contains('\u{1b}'), "control characters are shown, not sent: {said:?}");
    }
}

#[test]
fn enormous_limits_are_played_like_any_other() {
    for limit in [
        "18446744073709551615/s",
        "18446744073709551615/ms sliding_counter",
        "18446744073709551615/36525d fixed_window",
        "18446744073709551614/s leaky_bucket queue",
        "1/36525d",
        "10000000/36525d sliding_log",
    ] {
        let answer = json(&["check", limit, "--requests", "3", "--every", "40000d", "--json"]);
        assert_eq!(answer["play"]["requests"][0]["allowed"], true, "{answer}");
    }
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_text_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut command = command(&std::env::temp_dir(), &["check"]);
    let output = command.arg(OsStr::from_bytes(b"5/\xff")).output();
    assert_eq!(output.expect("the binary was built").status.code(), Some(2));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let arguments = ["check", "1/s", "--requests", "100000", "--all"];
    let mut child = command(&std::env::temp_dir(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(first, "1/s\n");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_pipe_is_never_coloured() {
    assert!(!succeeds(&["check", "5/s", "--requests", "9"]).contains('\u{1b}'));
}
