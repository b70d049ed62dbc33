//! Bounds that the operator sets: over one is a clear answer, over every transport, and is counted.

use std::net::Shutdown;
use std::time::Duration;

use tollgate_server::Bounds;
use tollgate_testkit::eventually;

use crate::support::{Answer, Connection, TestServer, Texts, metric_in};

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

#[test]
fn bodies_heads_and_batches_end_where_the_operator_says() {
    let server = TestServer::with(|server| server.bounds(small()));
    let body = format!("{{}}{}", " ".repeat(1023));
    server.post("/v1/check", &body).problem(413);
    assert_eq!(server.post("/v1/check", &body[..1024]).status, 200);
    assert_eq!(server.over_bound("body", "http"), 1);

    let three = r#"{"requests": [{}, {}, {}]}"#;
    server.post("/v1/check/batch", three).problem(400);
    assert_eq!(server.over_bound("batch", "http"), 1);

    let long = format!("x: {}", "y".repeat(5000));
    assert_eq!(server.ask("GET /healthz", &[&long]).status, 431);
    // It is counted when the connection has ended, which is after the answer.
    eventually("the head is counted", || server.over_bound("head", "http") == 1);
    assert_eq!(server.ask("GET /healthz", &[&long[..3000]]).status, 200);
}

#[test]
fn keys_and_attributes_are_bounded_alike_over_http_and_the_redis_protocol() {
    let server = TestServer::with(|server| server.bounds(small()));
    server.post("/v1/check", r#"{"attributes": {"user": "123456789"}}"#).problem(400);
    server.post("/v1/check", r#"{"key": "123456789", "limits": ["1/s"]}"#).problem(400);
    let header = server.ask("GET /v1/authorize", &["x-forwarded-method: 123456789"]);
    assert_eq!(header.status, 200, "it is cut");
    assert_eq!(server.over_bound("key_length", "http"), 3);
    let said = server.resp(
        "TG.CHECK user 123456789\r\nTHROTTLE 123456789 1 1 1\r\nCL.THROTTLE 12345678 1 1 1\r\n",
    );
    let lines: Vec<_> = said.lines().collect();
    let codes: Vec<_> = lines[..3].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(codes, ["-ERR", "-ERR", "*5"], "the connection stays open: {said}");
    assert_eq!(server.over_bound("key_length", "resp"), 2);

    let four = r#"{"attributes": {"a": "", "b": "", "c": "", "d": ""}}"#;
    for path in ["/v1/check", "/v1/peek", "/v1/reserve", "/v1/refund"] {
        server.post(path, four).problem(400);
    }
    assert_eq!(server.over_bound("attributes", "http"), 4);
    let said = server.resp("TG.PEEK a 1 b 2 c 3 d 4\r\n");
    assert!(said.starts_with("-ERR ") && said.lines().count() == 1, "{said}");
    assert_eq!(server.over_bound("attributes", "resp"), 1);
}

#[test]
fn what_envoy_asks_is_bounded_alike() {
    let server = TestServer::with(|server| server.bounds(small()));
    let entries = |entries: &[(&str, &str)]| {
        let all: Vec<_> = entries
            .iter()
            .map(|(key, value)| format!(r#"{{"key": "{key}", "value": "{value}"}}"#))
            .collect();
        format!(r#"{{"entries": [{}]}}"#, all.join(","))
    };
    let one = entries(&[("user", "ana")]);
    for (descriptors, bound) in [
        (format!("{one},{one}"), "descriptors"),
        (entries(&[("a", "1"), ("b", "2")]), "attributes"),
        (entries(&[("user", "123456789")]), "key_length"),
    ] {
        let body = format!(r#"{{"domain": "edge", "descriptors": [{descriptors}]}}"#);
        server.post("/json", &body).problem(400);
        assert_eq!(server.over_bound(bound, "http"), 1, "{bound}");
    }
}

/// Bounds of time that are never reached.
fn patient() -> Bounds {
    let hour = Duration::from_secs(3600);
    Bounds { first_byte: hour, body_time: hour, idle: Some(hour), ..Bounds::default() }
}

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn silent_connection_is_closed() {
    let bounds = Bounds { first_byte: SHORT, ..patient() };
    let server = TestServer::with(|server| server.bounds(bounds));
    let mut silent = server.connect();
    assert!(silent.read().is_none(), "closed without an answer");
    // On a slow machine a connection of the test itself may be silent for too long.
    let mut closed = 1;
    let metrics = eventually("an answer in time", || {
        let mut asking = server.connect();
        asking.write("GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n");
        let answer = asking.read();
        closed += u64::from(answer.is_none());
        answer
    });
    let series = "tollgate_over_bounds_total{bound=\"waiting\",transport=\"http\"}";
    assert_eq!(metric_in(&metrics.body, series), Some(closed));
}

#[test]
fn unfinished_head_and_idle_connection_are_not_waited_for() {
    let bounds = Bounds { idle: Some(SHORT), ..patient() };
    let server = TestServer::with(|server| server.bounds(bounds));
    let mut slow = server.connect();
    slow.write("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-le");
    slow.read().unwrap().problem(408);
    assert!(slow.read().is_none(), "and closed");
    let mut idle = server.connect();
    idle.write("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(idle.read().unwrap().status, 200);
    assert!(idle.read().is_none(), "closed in order");
    eventually("both are counted", || server.over_bound("waiting", "http") == 2);
}

#[test]
fn unfinished_body_is_not_waited_for() {
    let bounds = Bounds { body_time: SHORT, ..patient() };
    let server = TestServer::with(|server| server.bounds(bounds));
    let mut unfinished = server.connect();
    unfinished.write("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n{");
    unfinished.read().unwrap().problem(408);
    assert_eq!(server.over_bound("body_time", "http"), 1);
    assert_eq!(server.over_bound("waiting", "http"), 0);
}

/// Begins a body of 64 MiB and sends no more.
fn begin_long_body(server: &TestServer) -> Connection {
    let mut connection = server.connect();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}", 64 << 20);
    connection.write(format!("{head}\r\n\r\n{}", " ".repeat(20_000)));
    connection
}

/// Begins five long bodies, of which there is room for four; the answer to the one that is
/// refused, and the others.
fn begin_too_many(server: &TestServer) -> (Answer, Vec<Connection>) {
    let mut unfinished: Vec<_> = (0..5).map(|_| begin_long_body(server)).collect();
    let refused =
        eventually("one is refused", || unfinished.iter().position(Connection::is_answered));
    let answer = unfinished.remove(refused).read().unwrap();
    (answer, unfinished)
}

#[test]
fn long_bodies_that_nobody_finishes_do_not_fill_the_memory() {
    let server = TestServer::with(|server| server.bounds(Bounds { body: 64 << 20, ..patient() }));
    let (refused, mut unfinished) = begin_too_many(&server);
    refused.problem(503);
    assert!(!unfinished.iter().any(Connection::is_answered), "the others are waited for");
    assert_eq!(server.over_bound("bodies", "http"), 1);
    assert_eq!(server.post("/v1/check", "{}").status, 200, "a short body needs no room");
    drop(unfinished.pop());
    eventually("the room of the connection that ended is free again", || {
        let mut next = begin_long_body(&server);
        // So that a body that has room is answered, too.
        next.0.get_ref().shutdown(Shutdown::Write).unwrap();
        next.read().is_none_or(|answer| answer.status != 503)
    });
}

#[test]
fn answers_to_what_is_over_a_bound_match_the_golden_file() {
    let first_byte = patient().first_byte;
    let bounds = Bounds { first_byte, body_time: SHORT, idle: Some(SHORT), ..small() };
    let server = TestServer::with(|server| server.bounds(bounds));
    let mut texts = Texts::default();
    let batch = r#"{"requests": [{}, {}, {}]}"#;
    let descriptor = r#"{"entries": [{"key": "user", "value": "123456789"}]}"#;
    let entries = r#"{"entries": [{"key": "a", "value": ""}, {"key": "b", "value": ""}]}"#;
    let rls =
        |descriptors: &str| format!(r#"{{"domain": "edge", "descriptors": [{descriptors}]}}"#);
    for (path, body, status) in [
        ("/v1/check", format!("{{}}{}", " ".repeat(1023)), 413),
        ("/v1/check/batch", batch.to_owned(), 400),
        ("/v1/check", r#"{"attributes": {"user": "123456789"}}"#.to_owned(), 400),
        ("/v1/check", r#"{"key": "123456789", "limits": ["1/s"]}"#.to_owned(), 400),
        ("/v1/check", r#"{"attributes": {"a": "", "b": "", "c": "", "d": ""}}"#.to_owned(), 400),
        ("/json", rls("{}, {}"), 400),
        ("/json", rls(entries), 400),
        ("/json", rls(descriptor), 400),
    ] {
        texts.add(&format!("POST {path} {body}"), &server.post(path, &body).detail(status));
    }
    for command in
        ["TG.CHECK user 123456789", "THROTTLE 123456789 1 1 1", "TG.PEEK a 1 b 2 c 3 d 4"]
    {
        texts.add(command, &server.resp(&format!("{command}\r\n")));
    }
    for begun in [
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-le",
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n{",
    ] {
        texts.add(begun, &server.send(begun).detail(408));
    }
    let server = TestServer::with(|server| server.bounds(Bounds { body: 64 << 20, ..patient() }));
    texts.add("one long body too many", &begin_too_many(&server).0.detail(503));
    texts.assert_golden("bounds", "over a bound");
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
    let server = TestServer::with(|server| server.bounds(huge));
    let many: Vec<String> = (0..300).map(|number| format!("\"a{number}\": \"\"")).collect();
    let body = format!(r#"{{"attributes": {{{}}}}}"#, many.join(","));
    let mut texts = Texts::default();
    texts.add("300 attributes", &server.post("/v1/check", &body).detail(400));
    let body = format!(r#"{{"requests": [{}]}}"#, vec!["{}"; 5000].join(","));
    texts.add("5000 requests", &server.post("/v1/check/batch", &body).detail(400));
    texts.assert_golden("bounds", "largest bounds");
    let tiny = Bounds { head: 0, ..Bounds::default() };
    let server = TestServer::with(|server| server.bounds(tiny));
    assert_eq!(server.ask("GET /healthz", &[]).status, 200);
}
