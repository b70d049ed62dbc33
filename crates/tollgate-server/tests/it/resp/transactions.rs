//! MULTI and EXEC, SELECT and DEL.

use std::time::Duration;

use tollgate_server::{Resp, RespBounds, RespSession};

use super::support::{gate, say, session};
use crate::support::Texts;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

/// Says the commands as a connection does: what is not used is given again.
fn say_all(session: &mut RespSession, commands: &[u8]) -> String {
    let (mut rest, mut answers) = (commands, Vec::new());
    loop {
        let mut out = Vec::new();
        let used = session.answer(rest, &mut out);
        rest = &rest[used..];
        if out.is_empty() {
            return String::from_utf8(answers).unwrap();
        }
        answers.extend(out);
    }
}

#[test]
fn exec_answers_the_queued_commands_in_order() {
    let (mut session, _) = session();
    let commands = b"multi\r\ncl.throttle ana 4 10 60\r\ncl.throttle ana 4 10 60\r\nping\r\n\
                     throttle ana 5 10 60\r\ntg.check cost 11 user ana\r\nexec\r\nping\r\n";
    let answers = say(&mut session, commands);
    let expected = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*5\r\n\
                    *5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:12\r\n\
                    +PONG\r\n*5\r\n:1\r\n:5\r\n:4\r\n:6\r\n:0\r\n\
                    -ERR cost exceeds capacity: 11 units can never pass a limit of 10\r\n+PONG\r\n";
    assert_eq!(answers, expected);
}

#[test]
fn nothing_is_taken_before_exec_nor_after_discard() {
    let (mut session, _) = session();
    say(
        &mut session,
        b"multi\r\nthrottle ana 5 10 60\r\ndiscard\r\nmulti\r\nthrottle ana 5 10 60\r\n",
    );
    assert_eq!(say(&mut session, b"exec\r\n"), "*1\r\n*5\r\n:1\r\n:5\r\n:4\r\n:6\r\n:0\r\n");
    assert_eq!(say(&mut session, b"multi\r\nexec\r\n"), "+OK\r\n*0\r\n");
}

#[test]
fn exec_runs_nothing_after_a_command_that_was_rejected() {
    let (mut session, _) = session();
    let mut texts = Texts::default();
    let long = format!("echo {}", "x".repeat(8000));
    let too_long = [long.as_str(); 17].join("\r\n");
    let too_many = ["ping"; 2049].join("\r\n");
    for command in [
        "nonsense",
        "throttle ana 5 10",
        "tg.check user",
        "echo",
        "exec now",
        "multi now",
        "hello 3",
        "auth secret",
        &too_many,
        &too_long,
    ] {
        let commands = format!(
            "multi\r\nthrottle ana 5 10 60\r\n{command}\r\nthrottle ana 5 10 60\r\nexec\r\n"
        );
        let answers = say_all(&mut session, commands.as_bytes());
        let error = answers.lines().find(|line| line.starts_with("-ERR ")).expect("an error");
        texts.add(command, error);
        assert!(answers.ends_with(&format!("+QUEUED\r\n{ABORTED}")), "{command}: {answers}");
    }
    for command in ["exec", "discard"] {
        texts.add(
            &format!("{command} without multi"),
            &say(&mut session, format!("{command}\r\n").as_bytes()),
        );
    }
    texts.assert_golden("resp", "transactions");
    let answer = say(&mut session, b"throttle ana 5 10 60\r\n");
    assert!(answer.ends_with(":4\r\n:6\r\n:0\r\n"), "nothing was taken before: {answer}");
}

#[test]
fn a_transaction_within_another_is_an_error_and_the_outer_one_goes_on() {
    let (mut session, _) = session();
    let answers = say(&mut session, b"multi\r\nmulti\r\nping\r\nexec\r\n");
    assert_eq!(answers, "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[test]
fn no_transaction_begins_before_the_password() {
    let resp = Resp::with(gate().0, RespBounds::default(), Some("sesame"));
    let mut session = resp.session();
    let answers =
        say(&mut session, b"multi\r\nexec\r\ndel ana\r\nauth sesame\r\nmulti\r\nexec\r\n");
    let codes: Vec<_> = answers.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(codes, ["-NOAUTH", "-NOAUTH", "-NOAUTH", "+OK", "+OK", "*0"]);
}

#[test]
fn quit_ends_a_transaction_and_the_session() {
    let (mut session, _) = session();
    let answers = say(&mut session, b"multi\r\nthrottle ana 5 10 60\r\nquit\r\nexec\r\n");
    assert_eq!(answers, "+OK\r\n+QUEUED\r\n+OK\r\n");
    assert!(session.is_over());
}

#[test]
fn answers_of_a_long_transaction_go_out_in_pieces() {
    let (mut session, _) = session();
    let status = "tg.status user ana tenant acme route /\r\n".repeat(600);
    let commands = format!("multi\r\n{status}exec\r\nping\r\n");
    let (mut rest, mut pieces, mut answers) = (commands.as_bytes(), 0, String::new());
    while !rest.is_empty() {
        let mut out = Vec::new();
        rest = &rest[session.answer(rest, &mut out)..];
        assert!(out.len() < 70_000, "{} bytes at once", out.len());
        answers += std::str::from_utf8(&out).unwrap();
        pieces += 1;
    }
    assert!(pieces > 2, "{pieces}");
    assert_eq!(answers.matches("*600\r\n*2\r\n*14\r\n").count(), 1);
    assert_eq!(answers.matches("*2\r\n*14\r\n").count(), 600);
    assert!(answers.ends_with("+PONG\r\n"));
}

#[test]
fn each_database_has_keys_of_its_own_and_the_policy_is_of_all() {
    let (mut session, _) = session();
    let take = b"throttle ana 1 1 60\r\n";
    let is_allowed = |answer: String| answer.starts_with("*5\r\n:1\r\n");
    assert!(is_allowed(say(&mut session, take)));
    assert!(!is_allowed(say(&mut session, take)));
    assert_eq!(say(&mut session, b"select 15\r\n"), "+OK\r\n");
    assert!(is_allowed(say(&mut session, take)));
    assert!(!is_allowed(say(&mut session, take)));
    let check = say(
        &mut session,
        b"select 3\r\ntg.check cost 9 user ana\r\nselect 0\r\ntg.check user ana\r\n",
    );
    assert_eq!(check.matches("remaining\r\n:1\r\n").count(), 1, "{check}");
    assert_eq!(check.matches("remaining\r\n:0\r\n").count(), 1, "{check}");
    assert!(!is_allowed(say(&mut session, take)));
    let mut texts = Texts::default();
    for index in ["16", "-1", "x", "", "18446744073709551616"] {
        let answer = say(
            &mut session,
            format!("*2\r\n$6\r\nselect\r\n${}\r\n{index}\r\n", index.len()).as_bytes(),
        );
        texts.add(&format!("select {index}"), &answer);
    }
    texts.assert_golden("resp", "databases");
    assert!(!is_allowed(say(&mut session, take)), "the database is still the first");
}

#[test]
fn del_makes_a_key_fresh_in_every_limit_that_clients_bring() {
    let (mut session, clock) = session();
    for command in ["cl.throttle ana 0 1 60", "cl.throttle ana 4 9 3600 5", "throttle ana 1 1 60"] {
        say(&mut session, format!("{command}\r\n").as_bytes());
    }
    say(&mut session, b"throttle ben 1 1 60\r\ntg.check cost 4 user ana\r\n");
    assert_eq!(say(&mut session, b"select 1\r\ndel ana\r\nselect 0\r\n"), "+OK\r\n:0\r\n+OK\r\n");
    assert_eq!(say(&mut session, b"DEL ana nobody ana\r\n"), ":1\r\n");
    assert_eq!(say(&mut session, b"del ana\r\n"), ":0\r\n");
    let fresh = say(&mut session, b"cl.throttle ana 0 1 60\r\nthrottle ana 1 1 60\r\n");
    assert_eq!(
        fresh,
        "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:0\r\n"
    );
    assert!(
        say(&mut session, b"throttle ben 1 1 60\r\n").starts_with("*5\r\n:0\r\n"),
        "ben's stays"
    );
    let check = say(&mut session, b"tg.peek user ana\r\n");
    assert!(check.contains("remaining\r\n:6\r\n"), "rules are not touched: {check}");
    assert_eq!(say(&mut session, b"del ana ben\r\n"), ":2\r\n");
    clock.advance(Duration::from_secs(1));
    let long = format!("del ana {}\r\n", "x".repeat(4097));
    say(&mut session, b"throttle ana 1 1 60\r\n");
    let rejected = say(&mut session, long.as_bytes());
    assert_eq!(rejected, "-ERR key is 4097 bytes, must be at most 4096\r\n");
    assert_eq!(say(&mut session, b"del ana\r\n"), ":1\r\n", "nothing was reset before");
}
