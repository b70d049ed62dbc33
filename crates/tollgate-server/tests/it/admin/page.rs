//! The page, and the events that it is told by.

use std::time::Duration;

use tollgate_server::{Admin, AdminListen, Stopped};
use tollgate_testkit::eventually;

use super::support::Connection;
use super::*;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const FILES: [&str; 3] = ["/", "/page/page.css", "/page/main.js"];

#[test]
fn the_page_is_served_with_a_strict_policy_for_browsers() {
    let server = operated();
    for (path, of_type) in FILES.iter().zip(["text/html", "text/css", "text/javascript"]) {
        let answer = server.ask(&format!("GET {path}"), &[]);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(of_type), "{path}");
        for (name, value) in [
            ("content-security-policy", CONTENT_SECURITY_POLICY),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        // Only the name of SVG elements is an address elsewhere.
        let elsewhere = answer.body.replace("http://www.w3.org/", "");
        assert_eq!(elsewhere.matches("http://").count(), 0, "{path}");
    }
    let refused = server.ask("POST /", &[]);
    refused.problem(405);
    assert_eq!(refused.header("allow"), Some("GET,HEAD"));
    server.ask("GET /page/none.js", &[]).problem(404);
}

#[test]
fn a_file_that_is_known_is_not_sent_again() {
    let server = operated();
    for path in FILES {
        let line = format!("GET {path}");
        let tag = server.ask(&line, &[]).header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()]
        {
            let again = server.ask(&line, &[&format!("if-none-match: {known}")]);
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path} {known}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
        }
        let another = server.ask(&line, &["if-none-match: \"other\""]);
        assert_eq!(another.status, 200, "{path}");
    }
}

#[test]
fn the_page_is_where_operators_are_answered_and_nowhere_else() {
    let at = AdminListen::At("127.0.0.1:0".parse().unwrap());
    let apart = TestServer::with(|server| server.admin(admin().listen(at)));
    let off = TestServer::with(|server| server.admin(admin().listen(AdminListen::Off)));
    for path in ["/", "/page/access", "/page/main.js"] {
        let line = format!("GET {path}");
        apart.ask(&line, &[]).problem(404);
        off.ask(&line, &[]).problem(404);
        assert_eq!(apart.ask_at(apart.admin.unwrap(), &line, &[]).status, 200, "{path}");
    }
}

#[test]
fn whether_a_token_is_needed_is_told_and_nothing_else() {
    let access = |server: &TestServer, host: &str, more: &[&str]| {
        let more: String = more.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!("GET /page/access HTTP/1.1\r\nhost: {host}\r\n{more}\r\n");
        let answer = server.send(head);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let told = answer.json();
        assert_eq!((told.as_object().unwrap().len(), &told["health"]), (2, &Value::from("ready")));
        told["access"].as_str().unwrap().to_owned()
    };
    assert_eq!(access(&operated(), "localhost", &[]), "token");
    assert_eq!(access(&TestServer::start(), "localhost", &[]), "closed");
    let open = TestServer::with(|server| server.admin(Admin::new().insecure()));
    assert_eq!(access(&open, "localhost", &[]), "open");
    assert_eq!(access(&open, "10.0.0.1", &[]), "closed", "an address of another machine");
    assert_eq!(access(&open, "localhost", &["x-forwarded-for: 203.0.113.9"]), "closed");
    let both = TestServer::with(|server| server.admin(admin().insecure()));
    assert_eq!(access(&both, "localhost", &["x-real-ip: 203.0.113.9"]), "token");
}

/// Opens a stream of events.
pub(super) fn watch(server: &TestServer) -> Connection {
    let mut connection = server.connect();
    connection.write(format!(
        "GET /admin/v1/events HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {READ}\r\n\r\n"
    ));
    let answer = connection.read().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    connection
}

/// The data of the next event; `None` where the stream has ended.
pub(super) fn next(connection: &mut Connection) -> Option<Value> {
    loop {
        let line = connection.line().filter(|line| line != "0\r\n")?;
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}

#[test]
fn events_tell_counts_health_and_who_is_denied_and_why() {
    let server = operated();
    for _ in 0..12 {
        check(&server, "<ana>", 1);
    }
    check(&server, "mallory", 1);
    server.resp("THROTTLE k 0 1 60\r\n");
    let mut stream = watch(&server);
    let event = next(&mut stream).unwrap();
    let of_rule = |name: &str| {
        let rules = event["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["rule"] == name).unwrap_or(&Value::Null).clone()
    };
    let per_user = of_rule("per-user");
    assert_eq!((&per_user["allowed"], &per_user["denied"]), (&10.into(), &2.into()), "{event}");
    assert_eq!(event["totals"]["denied"], 3, "{event}");
    assert_eq!(event["health"], "ready");
    assert_eq!(
        (&event["store"]["kind"], &event["store"]["outage"]),
        (&"memory".into(), &Value::Null)
    );
    assert_eq!(event["policy"]["rules"], 3);
    let latency = &event["latency"];
    let steps = latency["steps_us"].as_array().unwrap().len();
    assert_eq!(latency["http"].as_array().unwrap().len(), steps + 1);
    let denied = &event["refused"]["keys"][0];
    assert_eq!((&denied["rule"], &denied["key"]["user"]), (&"per-user".into(), &"<ana>".into()));
    assert_eq!((&denied["denied"], &denied["limit"]), (&2.into(), &10.into()), "{denied}");
    assert_eq!((&denied["reason"], &denied["retry_after_ms"]), (&"limits".into(), &6000.into()));
    check(&server, "ben", 1);
    // An event may be on its way already.
    let later = eventually("an event after the decision", || {
        next(&mut stream).filter(|later| later["totals"] != event["totals"])
    });
    assert_eq!(later["boot"], event["boot"]);
    assert!(later["uptime_ms"].as_u64() > event["uptime_ms"].as_u64());
    assert_eq!(later["totals"]["allowed"], event["totals"]["allowed"].as_u64().unwrap() + 1);
}

#[test]
fn as_many_events_are_sent_as_were_asked_for() {
    let server = operated();
    let mut connection = server.connect();
    connection.write(format!(
        "GET /admin/v1/events?limit=1 HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {READ}\r\n\r\n"
    ));
    assert_eq!(connection.read().unwrap().status, 200);
    assert!(next(&mut connection).is_some());
    assert_eq!(next(&mut connection), None);
    for query in ["limit=0", "limit=x", "every=1"] {
        ask(&server, READ, &format!("GET /admin/v1/events?{query}"), "").problem(400);
    }
}

#[test]
fn streams_have_a_bound_and_who_leaves_makes_room() {
    let server = operated();
    let mut streams: Vec<_> = (0..32).map(|_| watch(&server)).collect();
    let refused = ask(&server, READ, "GET /admin/v1/events", "");
    let mut texts = Texts::default();
    texts.add("GET /admin/v1/events, one stream too many", &refused.detail(503));
    texts.assert_golden("admin", "streams");
    streams.pop();
    eventually("a place is free", || {
        ask(&server, READ, "GET /admin/v1/events?limit=1", "").status == 200
    });
}

#[test]
fn a_server_that_stops_ends_the_streams_and_does_not_wait_for_them() {
    // Far longer than a test waits for the stop.
    let drain = Duration::from_secs(3600);
    let mut server = TestServer::with(|server| with_tokens(server).drain(drain));
    let mut stream = watch(&server);
    assert!(next(&mut stream).is_some());
    assert_eq!(server.stopped(), Stopped::InOrder);
    while next(&mut stream).is_some() {}
}
