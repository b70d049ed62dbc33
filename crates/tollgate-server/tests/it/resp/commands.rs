//! Every command, byte for byte.

use std::time::Duration;

use super::support::{say, session};
use crate::support::Texts;

const USER: &[u8] = b"cl.throttle ana 4 10 60\r\n";

#[test]
fn cl_throttle_answers_as_redis_cell_does() {
    let (mut session, clock) = session();
    // Five at once, and one more every six seconds.
    assert_eq!(say(&mut session, USER), "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n");
    let rest = say(&mut session, b"cl.throttle ana 4 10 60 4\r\n");
    assert_eq!(rest, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:30\r\n");
    assert_eq!(say(&mut session, USER), "*5\r\n:1\r\n:5\r\n:0\r\n:6\r\n:30\r\n");
    clock.advance(Duration::from_millis(5_500));
    // Half a second is left, and is said to be one.
    assert_eq!(say(&mut session, USER), "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:25\r\n");
    clock.advance(Duration::from_millis(500));
    assert_eq!(say(&mut session, USER), "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:30\r\n");
}

#[test]
fn throttle_answers_as_throttlecrab_does() {
    let (mut session, clock) = session();
    let user = b"THROTTLE ana 5 10 60\r\n";
    assert_eq!(say(&mut session, user), "*5\r\n:1\r\n:5\r\n:4\r\n:6\r\n:0\r\n");
    let rest = say(&mut session, b"throttle ana 5 10 60 4\r\n");
    assert_eq!(rest, "*5\r\n:1\r\n:5\r\n:0\r\n:30\r\n:0\r\n");
    clock.advance(Duration::from_millis(5_500));
    assert_eq!(say(&mut session, user), "*5\r\n:0\r\n:5\r\n:0\r\n:25\r\n:1\r\n");
}

#[test]
fn the_two_throttles_count_keys_of_their_own() {
    let (mut session, _) = session();
    assert!(say(&mut session, b"cl.throttle k 0 1 60\r\n").starts_with("*5\r\n:0\r\n"));
    assert!(say(&mut session, b"cl.throttle k 0 1 60\r\n").starts_with("*5\r\n:1\r\n"));
    assert!(say(&mut session, b"throttle k 1 1 60\r\n").starts_with("*5\r\n:1\r\n"));
}

#[test]
fn a_quantity_of_nothing_looks_and_takes_nothing() {
    let (mut session, _) = session();
    for _ in 0..3 {
        let answer = say(&mut session, b"cl.throttle ana 4 10 60 0\r\n");
        assert_eq!(answer, "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n");
        let answer = say(&mut session, b"throttle ana 4 10 60 0\r\n");
        assert_eq!(answer, "*5\r\n:1\r\n:4\r\n:4\r\n:0\r\n:0\r\n");
    }
    say(&mut session, b"cl.throttle ana 4 10 60 5\r\n");
    let answer = say(&mut session, b"cl.throttle ana 4 10 60 0\r\n");
    assert_eq!(answer, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:30\r\n");
}

#[test]
fn a_quantity_that_can_never_fit_is_limited_and_not_charged() {
    let (mut session, _) = session();
    say(&mut session, USER);
    let answer = say(&mut session, b"cl.throttle ana 4 10 60 6\r\n");
    assert_eq!(answer, "*5\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:6\r\n");
    let answer = say(&mut session, b"throttle ana 4 10 60 9223372036854775807\r\n");
    assert_eq!(answer, "*5\r\n:0\r\n:4\r\n:4\r\n:0\r\n:-1\r\n");
    let answer = say(&mut session, b"cl.throttle ana 4 10 60 4\r\n");
    assert_eq!(answer, "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:30\r\n");
}

#[test]
fn a_pipeline_is_answered_in_order_whatever_is_mixed_into_it() {
    let (mut session, _) = session();
    let mut pipeline = Vec::new();
    let mut expected = String::new();
    for taken in 1..=40 {
        pipeline.extend_from_slice(b"cl.throttle ana 99 100 100\r\n");
        expected += &format!("*5\r\n:0\r\n:100\r\n:{}\r\n:-1\r\n:{taken}\r\n", 100 - taken);
        if taken % 5 == 0 {
            pipeline.extend_from_slice(b"ping\r\n");
            expected += "+PONG\r\n";
        }
        if taken % 7 == 0 {
            pipeline.extend_from_slice(b"cl.throttle ana 99 100 100 0\r\necho x\r\n");
            expected += &format!("*5\r\n:0\r\n:100\r\n:{}\r\n:-1\r\n:{taken}\r\n", 100 - taken);
            expected += "$1\r\nx\r\n";
        }
        if taken % 9 == 0 {
            pipeline.extend_from_slice(b"throttle ana 1 1 1\r\ncl.throttle ana x 1 1\r\n");
            let first = taken == 9;
            expected += if first {
                "*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:0\r\n"
            } else {
                "*5\r\n:0\r\n:1\r\n:0\r\n:1\r\n:1\r\n"
            };
            expected +=
                "-ERR max_burst is 'x', must be a whole number from 0 to 9223372036854775807\r\n";
        }
    }
    assert_eq!(say(&mut session, &pipeline), expected);
}

#[test]
fn wrong_numbers_are_told_and_the_connection_goes_on() {
    let (mut session, _) = session();
    let mut texts = Texts::default();
    for command in [
        "cl.throttle k",
        "throttle k 1 1 1 1 1",
        "cl.throttle k -1 1 1",
        "throttle k 0 1 1",
        "cl.throttle k 1 0 1",
        "cl.throttle k 1 NaN 1",
        "cl.throttle k 1 1 0",
        "cl.throttle k 1 1 1.5",
        "cl.throttle k 1 1 18446744074",
        "cl.throttle k 1 1 9223372036854775807",
        "cl.throttle k 9223372036854775807 1 1",
        "cl.throttle k 1 1 1 -1",
        "cl.throttle k 1 1 1 18446744073709551616",
        "cl.throttle k 1 1 inf",
    ] {
        let answer = say(&mut session, format!("{command}\r\n").as_bytes());
        assert!(answer.starts_with("-ERR ") && answer.lines().count() == 1, "{command}: {answer}");
        texts.add(command, &answer);
    }
    texts.assert_golden("resp", "throttles");
    assert!(!session.is_over());
    assert_eq!(say(&mut session, b"ping\r\n"), "+PONG\r\n");
}

#[test]
fn the_largest_numbers_are_answered_without_wrapping() {
    let (mut session, _) = session();
    let most = i64::MAX;
    let answer = say(&mut session, format!("cl.throttle k {most} {most} 1\r\n").as_bytes());
    assert!(answer.starts_with(&format!("*5\r\n:0\r\n:{most}\r\n:{most}\r\n:-1\r\n")), "{answer}");
    let answer = say(&mut session, format!("throttle k {most} {most} 1 {most}\r\n").as_bytes());
    assert_eq!(answer, format!("*5\r\n:1\r\n:{most}\r\n:0\r\n:1\r\n:0\r\n"));
}

fn array(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[test]
fn any_bytes_are_a_key_up_to_the_bound() {
    let (mut session, _) = session();
    let longest = vec![0xff; 4096];
    let mut almost = longest.clone();
    almost[4000] = 0;
    for key in [b"".as_slice(), b"\xff\xfe", b"\r\n", b"\0", &longest, &almost] {
        let command = array(&[b"CL.THROTTLE", key, b"0", b"1", b"60"]);
        assert!(say(&mut session, &command).starts_with("*5\r\n:0\r\n"), "a new key");
        assert!(say(&mut session, &command).starts_with("*5\r\n:1\r\n"), "the same key");
    }
    let longer = vec![b'x'; 4097];
    let answer = say(&mut session, &array(&[b"THROTTLE", &longer, b"1", b"1", b"60"]));
    assert_eq!(answer, "-ERR key is 4097 bytes, must be at most 4096\r\n");
    assert!(!session.is_over());
}

#[test]
fn tg_check_takes_and_tg_peek_looks() {
    let (mut session, _) = session();
    let answer = |allowed, remaining, retry, reset| {
        format!(
            "$7\r\nallowed\r\n:{allowed}\r\n$5\r\nlimit\r\n:10\r\n$9\r\nremaining\r\n:{remaining}\r\n\
             $11\r\nretry_after\r\n:{retry}\r\n$11\r\nreset_after\r\n:{reset}\r\n$8\r\ndelay_ms\r\n:0\r\n\
             $4\r\nrule\r\n$8\r\nper-user\r\n$6\r\nreason\r\n$6\r\nlimits\r\n\
             $8\r\ndegraded\r\n:0\r\n$6\r\nleased\r\n:0\r\n"
        )
    };
    let took = say(&mut session, b"TG.CHECK COST 4 user ana\r\n");
    assert_eq!(took, format!("*20\r\n{}", answer(1, 6, 0, 24)));
    say(&mut session, b"hello 3\r\n");
    let denied = say(&mut session, b"tg.peek cost 7 user ana\r\n");
    assert_eq!(denied, format!("%10\r\n{}", answer(0, 6, 6, 24)));
    assert_eq!(say(&mut session, b"tg.peek cost 7 user ana\r\n"), denied);
    let took = say(&mut session, b"tg.check user ana\r\n");
    assert_eq!(took, format!("%10\r\n{}", answer(1, 5, 0, 30)));
}

#[test]
fn a_request_without_a_rule_is_allowed_and_says_so() {
    let (mut session, _) = session();
    let answer = say(&mut session, b"tg.check colour red\r\n");
    assert!(answer.starts_with("*20\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n$-1\r\n"), "{answer}");
    assert!(answer.ends_with("$4\r\nrule\r\n$-1\r\n$6\r\nreason\r\n$7\r\nno_rule\r\n$8\r\ndegraded\r\n:0\r\n$6\r\nleased\r\n:0\r\n"), "{answer}");
}

#[test]
fn tg_status_tells_each_rule_and_tg_reset_makes_a_key_new() {
    let (mut session, _) = session();
    let request = b"tg.check user ana tenant acme route /\r\n".as_slice();
    for _ in 0..3 {
        say(&mut session, request);
    }
    let status = say(&mut session, b"tg.status user ana tenant acme route /\r\n");
    assert!(status.starts_with("*2\r\n*14\r\n$4\r\nrule\r\n$8\r\nper-user\r\n$5\r\nlimit\r\n:10\r\n$9\r\nremaining\r\n:7\r\n"), "{status}");
    let route = "$9\r\nper-route\r\n$5\r\nlimit\r\n:3\r\n$9\r\nremaining\r\n:0\r\n";
    assert_eq!(status.matches(route).count(), 1, "{status}");
    assert!(say(&mut session, request).starts_with("*20\r\n$7\r\nallowed\r\n:0\r\n"));
    assert_eq!(say(&mut session, b"tg.reset per-route acme /\r\n"), ":1\r\n");
    assert_eq!(say(&mut session, b"tg.reset per-route acme /\r\n"), ":0\r\n");
    assert!(say(&mut session, request).starts_with("*20\r\n$7\r\nallowed\r\n:1\r\n"));
    say(&mut session, b"tg.check total yes\r\n");
    assert_eq!(say(&mut session, b"tg.reset all\r\n"), ":1\r\n");
}

#[test]
fn tg_check_of_cost_zero_is_allowed_and_takes_nothing() {
    let (mut session, _) = session();
    let remaining = |answer: &str| {
        let (_, rest) = answer.split_once("remaining\r\n:").expect("a decision has it");
        rest.split_once('\r').map(|(number, _)| number.to_owned()).expect("a number")
    };
    for (command, left) in [
        ("tg.check cost 0 total yes", "5"),
        ("tg.check cost 5 total yes", "0"),
        ("tg.check cost 0 total yes", "0"),
        ("tg.peek cost 0 total yes", "0"),
    ] {
        let answer = say(&mut session, format!("{command}\r\n").as_bytes());
        assert!(answer.starts_with("*20\r\n$7\r\nallowed\r\n:1\r\n"), "{command}: {answer}");
        assert_eq!(remaining(&answer), left, "{command}");
    }
}

#[test]
fn wrong_requests_to_the_policy_are_told_what_would_be_right() {
    let (mut session, _) = session();
    let attributes = "a b ".repeat(65);
    let many = format!("tg.check {attributes}");
    let mut texts = Texts::default();
    for command in [
        "tg.check user",
        "tg.check cost",
        "tg.check cost -5 user ana",
        "tg.check cost 11 user ana",
        "tg.status cost 1 user ana",
        "tg.check user ana ip ::1 user ben",
        "tg.peek user ana user ana",
        "tg.status user ana user ben",
        &many,
        "tg.reset",
        "tg.reset nobody x",
        "tg.reset per-route acme",
        "tg.nonsense",
    ] {
        let answer = say(&mut session, format!("{command}\r\n").as_bytes());
        assert!(answer.starts_with("-ERR ") && answer.lines().count() == 1, "{command}: {answer}");
        texts.add(command, &answer);
    }
    // Text of any script is a value.
    let answer = say(&mut session, "tg.check user \u{ff}\r\n".as_bytes());
    assert!(answer.starts_with("*20\r\n$7\r\nallowed\r\n:1\r\n"), "{answer}");
    let answer = say(&mut session, &array(&[b"TG.CHECK", b"user", b"\xff"]));
    assert!(answer.starts_with("-ERR ") && answer.lines().count() == 1, "{answer}");
    texts.add("TG.CHECK user \\xff", &answer);
    texts.assert_golden("resp", "requests to the policy");
    assert!(!session.is_over());
}

#[test]
fn what_clients_send_on_connect_is_answered() {
    let (mut session, _) = session();
    for (command, answer) in [
        ("ping", "+PONG\r\n"),
        ("PING hello", "$5\r\nhello\r\n"),
        ("Echo a", "$1\r\na\r\n"),
        ("select 0", "+OK\r\n"),
        ("client getname", "$-1\r\n"),
        ("client setname worker-1", "+OK\r\n"),
        ("client getname", "$8\r\nworker-1\r\n"),
        ("client setinfo lib-name redis-py", "+OK\r\n"),
        ("client id", ":1\r\n"),
        ("command", "*0\r\n"),
        ("command count", ":0\r\n"),
        ("command docs", "*0\r\n"),
        ("", ""),
    ] {
        assert_eq!(say(&mut session, format!("{command}\r\n").as_bytes()), answer, "{command}");
    }
    let info = say(&mut session, b"info\r\n");
    assert!(info.starts_with('$') && info.lines().any(|line| line == "loading:0"), "{info}");
    let version = env!("CARGO_PKG_VERSION");
    let hello = |head: &str, proto| {
        format!(
            "{head}\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n$5\r\n{version}\r\n$4\r\nmode\r\n\
             $10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:1\r\n\
             $7\r\nmodules\r\n*0\r\n"
        )
    };
    assert_eq!(say(&mut session, b"hello\r\n"), hello("*14", 2));
    assert_eq!(
        say(&mut session, b"hello 3 setname w\r\nclient getname\r\n"),
        hello("%7", 3) + "$1\r\nw\r\n"
    );
    assert_eq!(say(&mut session, b"hello 2\r\n"), hello("*14", 2));
    assert_eq!(say(&mut session, b"quit\r\nping\r\n"), "+OK\r\n");
    assert!(session.is_over());
}

#[test]
fn wrong_greetings_are_told_what_would_be_right() {
    let (mut session, _) = session();
    let mut texts = Texts::default();
    for command in [
        "hello 4",
        "hello 3 nonsense",
        "auth secret",
        "client kill",
        "client",
        "client setname 'a b'",
        "echo",
        "ping a b",
        "GET / HTTP/1.1",
    ] {
        let answer = say(&mut session, format!("{command}\r\n").as_bytes());
        let code = if command == "hello 4" { "-NOPROTO " } else { "-ERR " };
        assert!(answer.starts_with(code) && answer.lines().count() == 1, "{command}: {answer}");
        texts.add(command, &answer);
    }
    texts.assert_golden("resp", "greetings");
    assert!(!session.is_over());
}

#[test]
fn what_is_no_protocol_is_told_after_the_answers_before_it_and_ends_the_session() {
    let (mut session, _) = session();
    let answer = say(&mut session, b"cl.throttle ana 4 10 60\r\n*1\r\n*1\r\nping\r\n");
    let error = "-ERR Protocol error: expected '$', got '*': a command is an array of bulk strings or integers\r\n";
    assert_eq!(answer, format!("*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:6\r\n{error}"));
    assert!(session.is_over());
    assert_eq!(say(&mut session, b"ping\r\n"), "");
}
