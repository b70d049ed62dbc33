//! What no well-meant client sends: the server answers, and goes on serving others.

use std::net::Shutdown;

use crate::support::{TestServer, Texts, metric_in};
use tollgate_server::Stopped;

const ANA: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn every_wrong_body_is_told_what_is_wrong_and_what_would_be_right() {
    let server = TestServer::start();
    let many: Vec<String> = (0..65).map(|number| format!("\"a{number}\": \"\"")).collect();
    let many = format!("{{\"attributes\": {{{}}}}}", many.join(","));
    let long = format!(r#"{{"attributes": {{"user": "{}"}}}}"#, "x".repeat(4097));
    let name = format!(r#"{{"attributes": {{"{}": "x"}}}}"#, "x".repeat(129));
    let deep = "[".repeat(100_000);
    let mut texts = Texts::default();
    for body in [
        "",
        "nonsense",
        "[]",
        r#"[{"user": "ana"}, 1, null, null, null]"#,
        r#""user""#,
        r#"{"atributes": {}}"#,
        r#"{"attributes": {"user": 42}}"#,
        r#"{"attributes": ["user"]}"#,
        r#"{"attributes": {"user": "a", "user": "b"}}"#,
        r#"{"attributes": {"user": "\ud800"}}"#,
        r#"{"cost": -1}"#,
        r#"{"cost": 1.5}"#,
        r#"{"cost": 18446744073709551616}"#,
        r#"{"cost": 1} extra"#,
        r#"{"timeout_ms": 5}"#,
        &many,
        &long,
        &name,
        &deep,
    ] {
        for path in ["/v1/check", "/v1/peek", "/v1/refund"] {
            let answer = server.post(path, body);
            texts.add(&format!("POST {path} {body}"), &answer.detail(400));
            let problem = answer.json();
            let example = problem["example"].as_str().unwrap();
            assert_eq!(server.post("/v1/peek", example).status, 200, "the example is right");
        }
    }
    assert_eq!(server.post("/v1/check", ANA).json()["remaining"], 9, "nothing was taken");
    texts.assert_golden("hostile", "bodies");
}

#[test]
fn a_batch_that_is_wrong_anywhere_takes_nothing() {
    let server = TestServer::start();
    let last = |last: &str| format!(r#"{{"requests": [{ANA}, {last}]}}"#);
    let many = format!(r#"{{"requests": [{}]}}"#, vec!["{}"; 257].join(","));
    let array = r#"[{"user": "z"}, 1, null, null, null]"#;
    for body in
        [last("5"), last(array), last(r#"{"cost": "1"}"#), last(r#"{"timeout_ms": 1}"#), many]
    {
        server.post("/v1/check/batch", &body).problem(400);
    }
    assert_eq!(server.post("/v1/check", ANA).json()["remaining"], 9);
    let most = format!(r#"{{"requests": [{}]}}"#, vec!["{}"; 256].join(","));
    assert_eq!(server.post("/v1/check/batch", &most).status, 200);
}

#[test]
fn wrong_numbers_of_reservations_are_told_the_bounds() {
    let server = TestServer::start();
    let mut texts = Texts::default();
    for timeout in ["0", "3600001"] {
        let body = format!(r#"{{"timeout_ms": {timeout}}}"#);
        texts.add(
            &format!("POST /v1/reserve {body}"),
            &server.post("/v1/reserve", &body).detail(400),
        );
    }
    texts.assert_golden("hostile", "reservations");
    for id in ["0", "zz", "%00", "%ff%fe", "", &"f".repeat(5000)] {
        server.post(&format!("/v1/reserve/{id}/commit"), "").problem(404);
    }
}

#[test]
fn unknown_paths_methods_and_queries_are_told_what_would_be_right() {
    let server = TestServer::start();
    let mut texts = Texts::default();
    texts.add("GET /v2/check", &server.ask("GET /v2/check", &[]).detail(404));
    for (line, right) in
        [("GET /v1/check", "POST"), ("GET /json", "POST"), ("POST /metrics", "GET,HEAD")]
    {
        let wrong = server.ask(line, &[]);
        texts.add(line, &wrong.detail(405));
        assert_eq!(wrong.header("allow"), Some(right), "{line}");
    }
    let long =
        server.ask(&format!("GET /v1/reserve/{}/commit", "x".repeat(9000)), &[]).problem(405);
    assert!(long.to_string().len() < 500, "{long}");
    let query = server.post("/v1/check?enforce=yes", ANA);
    texts.add("POST /v1/check?enforce=yes", &query.detail(400));
    texts.assert_golden("hostile", "paths");
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let server = TestServer::start();
    let said = "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999999\r\n\r\n";
    server.send(said).problem(413);
    let chunk = format!("{:x}\r\n{}\r\n", 65536, "x".repeat(65536)).repeat(17);
    let unsaid = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
    );
    server.send(unsaid).problem(413);
    assert_eq!(server.post("/v1/check", ANA).status, 200);
}

#[test]
fn heads_that_are_too_large_or_no_http_are_refused() {
    let server = TestServer::start();
    let large = format!("GET /healthz HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    server.send(large).problem(431);
    let many = "x: y\r\n".repeat(200);
    server.send(format!("GET /healthz HTTP/1.1\r\n{many}\r\n")).problem(431);
    let mut texts = Texts::default();
    for garbage in
        ["\x16\x03\x01 garbage\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\0\r\n\r\n"]
    {
        texts.add(garbage, &server.send(garbage).detail(400));
    }
    texts.assert_golden("hostile", "heads");
    let long = format!("GET /{} HTTP/1.1\r\nhost: t\r\n\r\n", "x".repeat(70_000));
    server.send(long).problem(431);
    // After an answer on the same connection, too.
    let after = "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\nno HTTP\r\n\r\n";
    let mut connection = server.connect();
    connection.write(after);
    assert_eq!(connection.read().unwrap().status, 200);
    connection.read().unwrap().problem(400);
    assert_eq!(server.post("/v1/check", ANA).status, 200);
}

#[test]
fn a_body_that_ends_early_takes_nothing() {
    let server = TestServer::start();
    let mut connection = server.connect();
    connection
        .write(format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 999\r\n\r\n{ANA}"));
    connection.0.get_ref().shutdown(Shutdown::Write).unwrap();
    connection.read().expect("an answer").problem(400);
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
}

#[test]
fn requests_in_one_breath_are_answered_in_their_order() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let length = ANA.len();
    let request =
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{ANA}");
    connection.write(request.repeat(10));
    for left in (0..10).rev() {
        assert_eq!(connection.read().unwrap().json()["remaining"], left);
    }
}

#[test]
fn a_connection_too_many_is_told_so_and_counted() {
    let server = TestServer::with(|server| server.max_connections(1));
    let mut first = server.connect();
    first.write("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(first.read().unwrap().status, 200);
    let mut second = server.connect();
    assert_eq!(second.read().unwrap().status, 503);
    assert!(second.read().is_none(), "and closed");
    first.write("GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n");
    let metrics = first.read().unwrap().body;
    let refused = metric_in(&metrics, "tollgate_connections_refused_total{transport=\"http\"}");
    assert_eq!(refused, Some(1), "{metrics}");
}

#[test]
fn stopping_answers_what_is_in_flight_and_accepts_no_more() {
    let mut server = TestServer::start();
    let mut idle = server.connect();
    idle.write("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(idle.read().unwrap().status, 200);
    let mut busy = server.connect();
    let length = ANA.len();
    busy.write(format!("POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"));
    assert_eq!(busy.read().unwrap().status, 100, "the server waits for the body");
    server.stop();
    assert!(idle.read().is_none(), "a connection without a request is closed");
    busy.write(ANA);
    let answer = busy.read().unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(busy.read().is_none(), "the connection is closed behind the answer");
    assert_eq!(server.stopped(), Stopped::InOrder);
    assert!(std::net::TcpStream::connect(server.address).is_err());
}
