//! Bounds that the operator sets: over one is a clear answer, over every transport, and is counted.
#![allow(clippy::unwrap_used, reason = "of tests")]

mod support;

use std::time::Duration;

use support::Running;
use tollgate_server::Bounds;

/// Bounds that are soon reached.
fn small() -> Bounds {
    Bounds {
        head: 4096,
        body: 1024,
        attributes: 3,
        key_length: 8,
        batch: 2,
        descriptors: 1,
        ..Bounds::default()
    }
}

/// How often the metrics say that a bound was gone over.
fn over(server: &Running, bound: &str, transport: &str) -> u64 {
    let line =
        format!("tollgate_over_bounds_total{{bound=\"{bound}\",transport=\"{transport}\"}} ");
    let metrics = server.ask("GET /metrics", &[]).body;
    let count = metrics.lines().find_map(|of| of.strip_prefix(&line));
    count.unwrap_or_else(|| panic!("{line} in\n{metrics}")).parse().unwrap()
}

#[test]
fn bodies_heads_and_batches_end_where_the_operator_says() {
    let server = Running::with(|server| server.bounds(small()));
    let body = format!("{{}}{}", " ".repeat(1023));
    let problem = server.post("/v1/check", &body).problem(413);
    assert!(problem["detail"].as_str().unwrap().contains("1024 bytes"), "{problem}");
    assert_eq!(server.post("/v1/check", &body[..1024]).status, 200);
    assert_eq!(over(&server, "body", "http"), 1);

    let three = r#"{"requests": [{}, {}, {}]}"#;
    let problem = server.post("/v1/check/batch", three).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("more than 2 requests"), "{problem}");
    assert_eq!(over(&server, "batch", "http"), 1);

    let long = format!("x: {}", "y".repeat(5000));
    assert_eq!(server.ask("GET /healthz", &[&long]).status, 431);
    // It is counted when the connection has ended, which is after the answer.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while over(&server, "head", "http") != 1 {
        assert!(std::time::Instant::now() < until, "the head is never counted");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.ask("GET /healthz", &[&long[..3000]]).status, 200);
}

#[test]
fn keys_and_attributes_are_bounded_alike_over_http_and_the_redis_protocol() {
    let server = Running::with(|server| server.bounds(small()));
    let problem = server.post("/v1/check", r#"{"attributes": {"user": "123456789"}}"#).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("longer than 8 bytes"), "{problem}");
    let own = r#"{"key": "123456789", "limits": ["1/s"]}"#;
    assert!(server.post("/v1/check", own).problem(400)["detail"].to_string().contains("8 bytes"));
    let header = server.ask("GET /v1/authorize", &["x-forwarded-method: 123456789"]);
    assert_eq!(header.status, 200, "it is cut");
    assert_eq!(over(&server, "key_length", "http"), 3);
    let said = server.resp(
        "TG.CHECK user 123456789\r\nTHROTTLE 123456789 1 1 1\r\nCL.THROTTLE 12345678 1 1 1\r\n",
    );
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "-ERR a value is 9 bytes, must be at most 8");
    assert_eq!(lines[1], "-ERR key is 9 bytes, must be at most 8");
    assert_eq!(lines[2], "*5", "and the connection goes on");
    assert_eq!(over(&server, "key_length", "resp"), 2);

    let four = r#"{"attributes": {"a": "", "b": "", "c": "", "d": ""}}"#;
    for path in ["/v1/check", "/v1/peek", "/v1/reserve", "/v1/refund"] {
        let problem = server.post(path, four).problem(400);
        assert!(problem["detail"].as_str().unwrap().contains("more than 3 attr"), "{problem}");
    }
    assert_eq!(over(&server, "attributes", "http"), 4);
    let said = server.resp("TG.PEEK a 1 b 2 c 3 d 4\r\n");
    assert_eq!(said, "-ERR 4 attributes, must be at most 3\r\n");
    assert_eq!(over(&server, "attributes", "resp"), 1);
}

#[test]
fn what_envoy_asks_is_bounded_alike() {
    let server = Running::with(|server| server.bounds(small()));
    let entries = |entries: &[(&str, &str)]| {
        let all: Vec<_> = entries
            .iter()
            .map(|(key, value)| format!(r#"{{"key": "{key}", "value": "{value}"}}"#))
            .collect();
        format!(r#"{{"entries": [{}]}}"#, all.join(","))
    };
    let one = entries(&[("user", "ana")]);
    for (descriptors, says, bound) in [
        (format!("{one},{one}"), "2 descriptors, must be at most 1", "descriptors"),
        (entries(&[("a", "1"), ("b", "2")]), "has 2 entries, must be at most 1", "attributes"),
        (entries(&[("user", "123456789")]), "9 bytes, must be at most 8", "key_length"),
    ] {
        let body = format!(r#"{{"domain": "edge", "descriptors": [{descriptors}]}}"#);
        let problem = server.post("/json", &body).problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
        assert_eq!(over(&server, bound, "http"), 1, "{bound}");
    }
}

#[test]
fn who_says_nothing_or_stops_in_the_middle_is_not_waited_for() {
    let short = Duration::from_millis(200);
    let bounds = Bounds { first_byte: short, body_time: short, idle: Some(short), ..small() };
    let server = Running::with(|server| server.bounds(bounds));
    let mut silent = server.connect();
    assert!(silent.read().is_none(), "closed without a word");
    let mut slow = server.connect();
    slow.write("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-le");
    let problem = slow.read().unwrap().problem(408);
    assert!(problem["detail"].as_str().unwrap().contains("head"), "{problem}");
    assert!(slow.read().is_none(), "and closed");
    let mut idle = server.connect();
    idle.write("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(idle.read().unwrap().status, 200);
    assert!(idle.read().is_none(), "closed in order");
    let mut unfinished = server.connect();
    unfinished.write("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n{");
    let problem = unfinished.read().unwrap().problem(408);
    assert!(problem["detail"].as_str().unwrap().contains("200ms"), "{problem}");
    // The first three.
    assert_eq!((over(&server, "waiting", "http"), over(&server, "body_time", "http")), (3, 1));
}

#[test]
fn long_bodies_that_nobody_finishes_do_not_fill_the_memory() {
    let bounds = Bounds { body: 64 << 20, body_time: Duration::from_secs(60), ..Bounds::default() };
    let server = Running::with(|server| server.bounds(bounds));
    let begun = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{}",
        64 << 20,
        " ".repeat(20_000)
    );
    let begin = || {
        let mut connection = server.connect();
        let moment = Duration::from_millis(500);
        connection.0.get_ref().set_read_timeout(Some(moment)).unwrap();
        connection.write(&begun);
        connection
    };
    let until = std::time::Instant::now() + Duration::from_secs(30);
    // There is room for four of them, whichever these are.
    let mut unfinished: Vec<_> = (0..5).map(|_| begin()).collect();
    let (refused, problem) = loop {
        let mut each = unfinished.iter_mut().enumerate();
        if let Some((place, answer)) = each.find_map(|(place, of)| Some((place, of.read()?))) {
            break (place, answer.problem(503));
        }
        assert!(std::time::Instant::now() < until, "there is room for any number");
    };
    drop(unfinished.remove(refused));
    assert!(problem["detail"].as_str().unwrap().contains("try again later"), "{problem}");
    assert_eq!(over(&server, "bodies", "http"), 1);
    assert_eq!(server.post("/v1/check", "{}").status, 200, "what is short needs no room");
    drop(unfinished.pop());
    while begin().read().is_some() {
        assert!(std::time::Instant::now() < until, "the room of who has gone is free again");
    }
}

#[test]
fn bounds_past_what_the_server_can_bear_are_cut() {
    let huge = Bounds {
        head: usize::MAX,
        attributes: usize::MAX,
        key_length: usize::MAX,
        batch: usize::MAX,
        ..Bounds::default()
    };
    let server = Running::with(|server| server.bounds(huge));
    let many: Vec<String> = (0..300).map(|number| format!("\"a{number}\": \"\"")).collect();
    let body = format!(r#"{{"attributes": {{{}}}}}"#, many.join(","));
    let problem = server.post("/v1/check", &body).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("more than 256 attributes"), "{problem}");
    let body = format!(r#"{{"requests": [{}]}}"#, vec!["{}"; 5000].join(","));
    let problem = server.post("/v1/check/batch", &body).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("more than 4096 requests"), "{problem}");
    let tiny = Bounds { head: 0, ..Bounds::default() };
    let server = Running::with(|server| server.bounds(tiny));
    assert_eq!(server.ask("GET /healthz", &[]).status, 200);
}
