//! `Host` and `Origin`, over raw sockets: a page of another site reaches what its reader's machine
//! does, under any name that its site gives the server's address.

use std::time::Duration;

use tollgate_server::{Admin, AdminRole, AdminTokens};

use crate::support::{Answer, TestServer, Texts};

const ANA: &str = r#"{"attributes": {"user": "ana"}}"#;
const TOKEN: &str = "write-write-write-write";

/// Sends a request with these header lines and no others.
fn send(server: &TestServer, line: &str, headers: &[&str], body: &str) -> Answer {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    server.send(format!("{line}\r\n{headers}content-length: {length}\r\n\r\n{body}"))
}

fn check(server: &TestServer, headers: &[&str]) -> Answer {
    send(server, "POST /v1/check HTTP/1.1", headers, ANA)
}

fn get(server: &TestServer, path: &str, host: &str, headers: &[&str]) -> Answer {
    let host = format!("host: {host}");
    let headers = [&[host.as_str()], headers].concat();
    send(server, &format!("GET {path} HTTP/1.1"), &headers, "")
}

fn operated(allowed: &[&str]) -> TestServer {
    let mut tokens = AdminTokens::new();
    tokens.add("walt", AdminRole::Write, TOKEN).unwrap();
    TestServer::with(|server| {
        let allowed = allowed.iter().map(|name| name.parse().unwrap());
        server.admin(Admin::new().tokens(tokens)).allowed_hosts(allowed)
    })
}

const AUTHORIZATION: &str = "authorization: Bearer write-write-write-write";

#[test]
fn post_whose_origin_is_another_host_is_rejected_and_takes_nothing() {
    let server = operated(&[]);
    let host = "host: tollgate.example:8080";
    let mut texts = Texts::default();
    for origin in [
        "http://evil.example",
        "http://tollgate.example:9999",
        "http://tollgate.example",
        "http://tollgate.example.evil.example:8080",
        "null",
        "",
    ] {
        let origin = format!("origin: {origin}");
        let rejected = check(&server, &[host, &origin]).detail(403);
        texts.add(&format!("POST /v1/check, {host}, {origin}"), &rejected);
        for path in ["/v1/check/batch", "/v1/peek", "/v1/refund", "/v1/reserve", "/json"] {
            send(&server, &format!("POST {path} HTTP/1.1"), &[host, &origin], ANA).problem(403);
        }
        let reload = "POST /admin/v1/reload HTTP/1.1";
        send(&server, reload, &[host, &origin, AUTHORIZATION], "").problem(403);
    }
    let both = ["origin: http://evil.example", "origin: http://tollgate.example:8080"];
    check(&server, &[host, both[0], both[1]]).problem(403);
    // HTTP/1.0 without a host: no page is from there.
    send(&server, "POST /v1/check HTTP/1.0", &[both[0]], ANA).problem(403);
    texts.assert_golden("hosts", "other origins");
    let own = check(&server, &[host, "origin: http://Tollgate.example:8080"]);
    assert_eq!(own.json()["remaining"], 9, "only this one took something");
}

#[test]
fn origin_is_not_compared_if_the_browser_says_that_the_page_is_ours() {
    let server = TestServer::start();
    let rewritten = ["host: backend:8080", "origin: https://tollgate.example"];
    check(&server, &rewritten).problem(403);
    let site = "sec-fetch-site: same-origin";
    assert_eq!(check(&server, &[rewritten[0], rewritten[1], site]).status, 200);
    let site = "sec-fetch-site: same-site";
    check(&server, &["host: a.example", "origin: http://a.example", site]).problem(403);
}

#[test]
fn proxies_pass_on_any_origin_and_host() {
    let server = operated(&["tollgate.example"]);
    let headers = ["host: shop.example", "origin: https://evil.example"];
    for path in ["/v1/authorize", "/v1/authorize/403", "/v1/ext_authz/cart"] {
        let answer = send(&server, &format!("POST {path} HTTP/1.1"), &headers, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        server.clock.advance(Duration::from_secs(60));
    }
}

#[test]
fn request_with_two_hosts_or_none_is_rejected() {
    let server = TestServer::start();
    let mut texts = Texts::default();
    let two = ["host: a.example", "host: a.example"];
    for path in ["/v1/check", "/v1/authorize", "/v1/ext_authz/a", "/json", "/", "/nothing"] {
        let line = format!("POST {path} HTTP/1.1");
        let none = send(&server, &line, &[], ANA).detail(400);
        let several = send(&server, &line, &two, ANA).detail(400);
        send(&server, &format!("POST {path} HTTP/1.0"), &two, ANA).problem(400);
        if path == "/v1/check" {
            texts.add(&line, &none);
            texts.add(&format!("{line}, {}", two.join(", ")), &several);
        }
    }
    texts.assert_golden("hosts", "two hosts or none");
    for path in ["/healthz", "/readyz"] {
        let line = format!("GET {path} HTTP/1.1");
        assert_eq!(send(&server, &line, &[], "").status, 200, "{path}");
        assert_eq!(send(&server, &line, &two, "").status, 200, "{path}");
    }
    let old = send(&server, "POST /v1/check HTTP/1.0", &[], ANA);
    assert_eq!(
        old.json()["remaining"],
        9,
        "HTTP/1.0 needs no host, and nothing else took anything"
    );
}

#[test]
fn dashboard_and_admin_answer_only_names_that_no_other_site_can_have() {
    let server = operated(&[]);
    for host in ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:8080", "10.1.2.3:8080"] {
        for path in ["/", "/page/main.js", "/page/access"] {
            assert_eq!(get(&server, path, host, &[]).status, 200, "{path} {host}");
        }
        get(&server, "/admin/v1/info", host, &[]).problem(401);
    }
    let mut texts = Texts::default();
    for host in ["tollgate.example:8080", "localhost.evil.example", "", "a b"] {
        for path in ["/", "/page/main.js", "/page/access", "/admin/v1/info"] {
            let rejected = get(&server, path, host, &[]).detail(421);
            if path == "/" {
                texts.add(&format!("GET /, host: {host}"), &rejected);
            }
        }
        let with_token = get(&server, "/admin/v1/info", host, &[AUTHORIZATION]);
        assert_eq!(with_token.status, 200, "{host:?}: no page of another site knows a token");
        assert_eq!(check(&server, &[&format!("host: {host}")]).status, 200, "{host:?}");
    }
    // The target names the host, whatever the header says.
    let target = send(&server, "GET http://evil.example/ HTTP/1.1", &["host: localhost"], "");
    target.problem(421);
    texts.assert_golden("hosts", "unknown names");
}

#[test]
fn with_allowed_hosts_every_other_name_is_rejected() {
    let server = operated(&["Tollgate.example", "tollgate"]);
    for host in ["tollgate.example", "TOLLGATE.EXAMPLE.:443", "tollgate:8080", "localhost", "[::1]"]
    {
        assert_eq!(get(&server, "/", host, &[]).status, 200, "{host}");
        assert_eq!(get(&server, "/admin/v1/info", host, &[AUTHORIZATION]).status, 200, "{host}");
        assert_eq!(get(&server, "/metrics", host, &[]).status, 200, "{host}");
        assert_eq!(check(&server, &[&format!("host: {host}")]).status, 200, "{host}");
    }
    let before = server.metric("tollgate_bad_requests_total").unwrap();
    for host in ["evil.example", "a.tollgate.example", "tollgate.example.evil.example", ""] {
        get(&server, "/", host, &[]).problem(421);
        get(&server, "/admin/v1/info", host, &[AUTHORIZATION]).problem(421);
        get(&server, "/metrics", host, &[]).problem(421);
        check(&server, &[&format!("host: {host}")]).problem(421);
        assert_eq!(get(&server, "/healthz", host, &[]).status, 200, "{host}");
    }
    assert_eq!(server.metric("tollgate_bad_requests_total"), Some(before + 16));
}
