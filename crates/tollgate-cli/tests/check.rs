//! `tollgate check`, as somebody at a terminal or a script sees it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tollgate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).output().expect("the binary was built for this test")
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = tollgate(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    assert!(stderr.is_empty(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("the answer is text")
}

/// What is said to somebody whose arguments are wrong.
#[track_caller]
fn fails(arguments: &[&str]) -> String {
    let output = tollgate(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("the message is text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeds(arguments)).expect("--json prints JSON")
}

#[test]
fn help_lists_every_command() {
    let help = succeeds(&["--help"]);
    for command in
        ["check", "simulate", "validate", "test", "explain", "diff", "replay", "top", "schema"]
    {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        assert!(succeeds(&[command, "--help"]).contains("\nExamples:\n"), "{command}");
    }
    assert!(help.contains("--version"), "{help}");
    assert!(succeeds(&["check", "--help"]).contains("--requests"));
}

#[test]
fn nothing_at_all_is_answered_with_help() {
    assert!(fails(&[]).contains("Usage: tollgate"));
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(succeeds(&["--version"]).trim(), concat!("tollgate ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_limit_is_said_in_plain_words() {
    let said = succeeds(&["check", "100 per minute BURST 20"]);
    for line in [
        "100 per minute BURST 20\n",
        "  sustained       100 per minute, one every 600ms\n",
        "  at once         20\n",
        "  as good as new  12s after it was used up\n",
        "  canonical       100/min burst 20\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn every_algorithm_has_its_words() {
    let limits = [
        ("5/s", "token bucket"),
        ("5/s leaky_bucket", "(meter)"),
        ("5/s leaky_bucket queue", "6: one goes ahead, 5 may wait their turn"),
        ("5/s fixed_window", "5 in each window of 1s, the same windows for all keys"),
        ("5/s fixed_window first", "5 in the 1s from a key's first request"),
        ("5/day calendar Europe/Paris", "5 in each calendar day, in Europe/Paris"),
        ("5/s sliding_log", "5 in any interval of 1s"),
        ("5/s sliding_counter", "about 5 in any interval of 1s"),
    ];
    for (limit, words) in limits {
        let said = succeeds(&["check", limit]);
        assert!(said.contains(words), "{said}");
        assert!(said.contains(&format!("canonical       {limit}\n")), "{said}");
    }
}

#[test]
fn a_wrong_limit_is_named_with_what_would_be_right() {
    let units = "use ms, s, min, h, day, week";
    assert_eq!(
        fails(&["check", "100/mni"]),
        format!("tollgate: \"100/mni\": unknown unit \"mni\" in \"100/mni\", {units}\n")
    );
    let said = fails(&["check", "5/s", "0/s", "many"]);
    assert_eq!(said.lines().count(), 2, "each wrong limit and only those: {said}");
}

#[test]
fn a_limit_without_its_quotes_is_recognised() {
    let said = fails(&["check", "100/min", "burst", "20"]);
    assert!(said.ends_with("keep it in quotes: \"100/min burst 20\"\n"), "{said}");
}

#[test]
fn a_cost_that_can_never_pass_is_an_error() {
    let said = fails(&["check", "5/s", "--requests", "1", "--cost", "6"]);
    assert!(said.starts_with("tollgate: \"5/s\": cost exceeds capacity"), "{said}");
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
    assert!(table.contains("        200ms  100ms\n"), "{table}");
}

#[test]
fn a_start_is_told_by_the_clock() {
    let paris = "1/day calendar Europe/Paris";
    let start = "2026-03-28T22:30:00Z";
    let table = succeeds(&["check", paris, "--requests", "3", "--every", "30m", "--start", start]);
    assert!(table.contains("  2026-03-28T22:30:00Z  allowed"), "{table}");
    assert!(table.contains("  2026-03-28T23:00:00Z  allowed"), "midnight there: {table}");
    // The day on which summer time begins has 23 hours.
    assert!(table.contains("denied           0       22h30m       22h30m"), "{table}");
}

#[test]
fn several_limits_are_decided_together() {
    let both = ["check", "3/s", "4/h sliding_log", "--requests", "6", "--every", "500ms", "--json"];
    let answer = json(&both);
    let requests = answer["play"]["requests"].as_array().expect("a list").clone();
    let denied: Vec<_> = requests.iter().filter(|request| request["allowed"] == false).collect();
    assert_eq!(answer["play"]["allowed"], 4);
    assert!(denied.iter().all(|request| request["decided_by"] == 1), "{answer}");
    let table = succeeds(&both[..both.len() - 1]);
    assert!(table.contains("decided by"), "{table}");
    assert!(table.contains("  4/h sliding_log\n"), "{table}");
}

#[test]
fn long_runs_are_cut_short_unless_all_are_wanted() {
    let arguments = ["check", "10/s", "--requests", "1000", "--every", "0s"];
    let short = succeeds(&arguments);
    assert!(short.contains("⋮ 986 more denied"), "{short}");
    assert!(short.lines().count() < 24, "{short}");
    let all = succeeds(&[&arguments[..], &["--all"]].concat());
    assert_eq!(all.matches("  denied ").count(), 990);
}

#[test]
fn answers_that_take_turns_do_not_fill_the_screen() {
    let table = succeeds(&["check", "1/s", "--requests", "100000", "--every", "350ms"]);
    assert!(table.lines().count() < 60, "{table}");
    assert!(table.contains("denied, in turn"), "{table}");
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
        &["check", "5/s", "--requests", "1", "--cost", "0"],
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
        let said = fails(arguments);
        assert!(!said.contains("panicked"), "{said}");
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
        let table = succeeds(&["check", limit, "--requests", "3", "--every", "40000d"]);
        assert!(table.contains("allowed"), "{table}");
    }
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_text_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let output = command.arg("check").arg(OsStr::from_bytes(b"5/\xff")).output();
    assert_eq!(output.expect("the binary was built").status.code(), Some(2));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["check", "1/s", "--requests", "100000", "--all"])
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
