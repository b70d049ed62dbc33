//! What proxies ask, over real sockets.

use crate::support::{TestServer, Texts};
use tollgate::{Dialect, HeaderStyle, Verbosity};
use tollgate_server::ProxyHeaders;
use tollgate_tower::ClientIp;

#[test]
fn a_proxys_client_is_limited_by_its_address() {
    let server = TestServer::start();
    let client = ["X-Forwarded-For: 203.0.113.7", "X-Forwarded-Uri: /a", "X-Forwarded-Method: PUT"];
    for line in ["GET /v1/authorize", "DELETE /v1/authorize?any=query&enforce=x"] {
        let answer = server.ask(line, &client);
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{line}");
        assert!(answer.header("ratelimit").unwrap().starts_with("\"per-ip\";r="));
    }
    let denied = server.ask("POST /v1/authorize", &client);
    denied.problem(429);
    assert_eq!(denied.header("retry-after"), Some("30"));
    assert_eq!(server.ask("GET /v1/authorize", &["X-Forwarded-For: 203.0.113.8"]).status, 200);
}

#[test]
fn what_a_client_puts_in_front_of_its_address_makes_no_new_key() {
    let server = TestServer::start();
    let statuses = [1, 2, 3].map(|number| {
        let header = format!("X-Forwarded-For: 198.51.100.{number}, 203.0.113.7");
        server.ask("GET /v1/authorize", &[&header]).status
    });
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_peer_that_is_not_trusted_counts_itself() {
    let server = TestServer::with(|server| server.client_ip(ClientIp::peer()));
    let statuses = [1, 2, 3].map(|number| {
        let header = format!("X-Forwarded-For: 198.51.100.{number}");
        server.ask("GET /v1/authorize", &[&header]).status
    });
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_proxy_that_is_not_trusted_is_counted() {
    let untrusted =
        |server: &TestServer| server.metric("tollgate_untrusted_forwarded_total").unwrap();
    let nobody = ClientIp::x_forwarded_for(["192.0.2.0/24"]).unwrap();
    let server = TestServer::with(|server| server.client_ip(nobody));
    server.ask("GET /v1/authorize", &[]);
    assert_eq!(untrusted(&server), 0, "nothing was ignored");
    for number in 1..4 {
        server.ask("GET /v1/authorize", &[&format!("X-Forwarded-For: 198.51.100.{number}")]);
    }
    assert_eq!(untrusted(&server), 3);
    let trusted = TestServer::start();
    trusted.ask("GET /v1/authorize", &["X-Forwarded-For: 198.51.100.1"]);
    assert_eq!(untrusted(&trusted), 0);
}

#[test]
fn what_the_client_should_see_is_told_beside_the_status_that_the_proxy_asks_for() {
    let silent = HeaderStyle::new().with_verbosity(Verbosity::None);
    let server = TestServer::with(|server| {
        let header = http::HeaderName::from_static("x-user");
        server.header_style(silent).header_attribute("user", header)
    });
    let client = ["X-Forwarded-For: 203.0.113.7"];
    for _ in 0..2 {
        let allowed = server.ask("GET /v1/authorize/403", &client);
        assert_eq!((allowed.status, allowed.header("tollgate-status")), (200, None));
    }
    let limited = server.ask("GET /v1/authorize/403", &client);
    assert_eq!((limited.status, limited.header("tollgate-status")), (403, Some("429")));
    assert_eq!(limited.header("retry-after"), None);
    let banned = server.ask("GET /v1/authorize/403", &["X-User: mallory"]);
    assert_eq!((banned.status, banned.header("tollgate-status")), (403, Some("403")));
    let plain = server.ask("GET /v1/authorize", &client);
    assert_eq!((plain.status, plain.header("tollgate-status")), (429, None));
}

#[test]
fn a_refusal_has_the_status_that_the_proxy_asks_for() {
    let server = TestServer::start();
    let client = ["X-Forwarded-For: 203.0.113.7"];
    for _ in 0..2 {
        assert_eq!(server.ask("GET /v1/authorize/403", &client).status, 200);
    }
    assert_eq!(server.ask("GET /v1/authorize/403", &client).status, 403);
    for (wrong, status) in
        [("200", 400), ("302", 400), ("600", 400), ("abc", 400), ("%ff", 400), ("403/x", 404)]
    {
        server.ask(&format!("GET /v1/authorize/{wrong}"), &client).problem(status);
    }
}

#[test]
fn denial_with_the_status_of_the_path_has_no_body() {
    let header = http::HeaderName::from_static("x-user");
    let server = TestServer::with(|server| server.header_attribute("user", header));
    let client = ["X-Forwarded-For: 203.0.113.7"];
    for _ in 0..2 {
        server.ask("GET /v1/authorize/403", &client);
    }
    let invalid = ["X-User: ana", "X-User: ben"];
    for (headers, meant) in [(&client[..], "429"), (&["X-User: mallory"], "403"), (&invalid, "400")]
    {
        for method in ["GET", "POST", "HEAD"] {
            let denied = server.ask(&format!("{method} /v1/authorize/403"), headers);
            assert_eq!((denied.status, denied.body.as_str()), (403, ""), "{method} {headers:?}");
            assert_eq!(denied.header("content-length"), Some("0"), "{denied:?}");
            assert_eq!(denied.header("content-type"), None, "{denied:?}");
            assert_eq!(denied.header("cache-control"), Some("no-store"), "{denied:?}");
            assert_eq!(denied.header("tollgate-status"), Some(meant), "{denied:?}");
        }
    }
}

#[test]
fn head_is_decided_as_get_and_its_connection_stays_open() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let head = |path| format!("HEAD {path} HTTP/1.1\r\nhost: t\r\n\r\n");
    for (path, status) in [
        ("/v1/authorize", 200),
        ("/v1/authorize/403", 200),
        ("/v1/authorize", 429),
        ("/v1/authorize/403", 403),
        ("/v1/authorize", 429),
    ] {
        connection.write(head(path));
        let answer = connection.read_head().unwrap();
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("connection"), None, "{answer:?}");
    }
}

#[test]
fn named_headers_are_attributes_and_must_not_be_there_twice() {
    let header = http::HeaderName::from_static("x-user");
    let server = TestServer::with(|server| server.header_attribute("user", header));
    let answer = server.ask("GET /v1/authorize", &["X-User: ana"]);
    assert_eq!(answer.header("ratelimit"), Some("\"per-ip\";r=1;t=30, \"per-user\";r=9;t=6"));
    server.ask("GET /v1/authorize", &["X-User: ana", "X-User: ben"]).problem(400);
    server.ask("GET /v1/authorize", &["X-User: mallory"]).problem(403);
}

#[test]
fn call_of_ext_authz_is_decided_by_its_own_method_path_and_host() {
    let text = r#"
[[deny]]
name = "login"
match = { path = "/login" }

[[deny]]
name = "put"
match = { method = "PUT" }

[[deny]]
name = "host"
match = { host = "admin.example" }

[[rule]]
name = "per-ip"
match = { path = "/search" }
key = ["ip"]
limit = "2/h"
"#;
    let server = TestServer::with_policy(crate::support::policy(text), |server| server);
    let lies = ["X-Forwarded-Uri: /free", "X-Forwarded-Method: GET", "X-Forwarded-Host: free"];
    for (line, status) in [
        ("GET /v1/ext_authz/hello", 200),
        ("GET /v1/ext_authz", 200),
        ("GET /v1/ext_authz/", 200),
        ("GET /v1/ext_authz/login", 403),
        ("POST /v1/ext_authz/login?a=/x", 403),
        ("GET /v1/ext_authz//login", 403),
        ("GET /v1/ext_authz/x/../login", 403),
        ("GET /v1/ext_authz/%6cogin", 403),
        ("GET /v1/ext_authz/../../v1/check/../../login", 403),
        ("PUT /v1/ext_authz/free", 403),
        ("DELETE /v1/ext_authz/free", 200),
        ("GET /v1/ext_authzlogin", 404),
    ] {
        assert_eq!(server.ask(line, &[]).status, status, "{line}");
        assert_eq!(server.ask(line, &lies).status, status, "{line}");
    }
    let host = b"GET /v1/ext_authz/free HTTP/1.1\r\nhost: admin.example\r\n\r\n";
    assert_eq!(server.send(host).status, 403);
    let browser = ["Sec-Fetch-Site: cross-site", "X-Forwarded-For: 203.0.113.7"];
    for status in [200, 200, 429] {
        let answer = server.ask("POST /v1/ext_authz/search", &browser);
        assert_eq!(answer.status, status, "a proxy hands on what a browser says");
    }
    assert_eq!(
        server.ask("GET /v1/ext_authz/search", &["X-Forwarded-For: 203.0.113.8"]).status,
        200
    );
}

#[test]
fn only_one_family_of_headers_is_believed() {
    let policy = "[[deny]]\nname = \"admin\"\nmatch = { path = { prefix = \"/admin\" } }\n";
    let policy = || crate::support::policy(policy);
    let both = ["X-Forwarded-Uri: /admin/x?y", "X-Original-URI: /open"];
    let forwarded = TestServer::start();
    forwarded.gate().replace(policy()).unwrap();
    assert_eq!(forwarded.ask("GET /v1/authorize", &both).status, 403);
    let original = TestServer::with(|server| server.proxy_headers(ProxyHeaders::XOriginal));
    original.gate().replace(policy()).unwrap();
    assert_eq!(original.ask("GET /v1/authorize", &both).status, 200);
}

/// A server that counts by the attributes of `X-Original-URL`, and denies `/admin` and a host.
fn by_original_url() -> TestServer {
    let text = r#"
[[deny]]
name = "admin"
match = { path = { prefix = "/admin" } }

[[deny]]
name = "host"
match = { host = "blocked.example:8443", scheme = "https" }

[[deny]]
name = "method"
match = { method = "DELETE", path = "/shop" }
"#;
    let server = TestServer::with(|server| server.proxy_headers(ProxyHeaders::XOriginalUrl));
    server.gate().replace(crate::support::policy(text)).unwrap();
    server
}

#[test]
fn original_url_is_the_scheme_the_host_and_the_path() {
    let server = by_original_url();
    let decide = |headers: &[&str]| server.ask("GET /v1/authorize", headers).status;
    for (url, status) in [
        ("https://shop.example/admin/x?y=1", 403),
        ("https://shop.example/%61dmin", 403),
        ("https://shop.example//admin", 403),
        ("http://shop.example/x?next=/admin", 200),
        ("https://blocked.example:8443/", 403),
        ("http://blocked.example:8443/", 200),
        ("https://blocked.example/", 200),
        // A proxy that sends the path alone, and one whose client has sent no host.
        ("/admin", 403),
        ("http:///admin", 403),
        ("/", 200),
    ] {
        assert_eq!(decide(&[&format!("X-Original-URL: {url}")]), status, "{url}");
    }
    let url = "X-Original-URL: https://shop.example/shop";
    assert_eq!(decide(&[url, "X-Original-Method: DELETE"]), 403);
    assert_eq!(decide(&[url, "X-Original-Method: GET"]), 200);
    assert_eq!(decide(&[url, "X-Forwarded-Method: DELETE", "X-Forwarded-Uri: /admin"]), 200);
    server.ask("GET /v1/authorize", &[url, url]).problem(400);
}

/// nginx takes any `Host` without a slash, and puts it in front of the path.
#[test]
fn host_of_an_original_url_cannot_hide_its_path() {
    let server = by_original_url();
    for host in ["a?b", "a#b", "a:80?", "?", "#", "user@a", "a%2F", "\u{e9}", "["] {
        let url = format!("X-Original-URL: http://{host}/admin");
        assert_eq!(server.ask("GET /v1/authorize", &[&url]).status, 403, "{host}");
    }
}

#[test]
fn headers_are_in_the_dialect_and_as_many_as_chosen() {
    let style = HeaderStyle::new().with_dialect(Dialect::XSeconds);
    let server = TestServer::with(|server| server.header_style(style));
    let answer = server.ask("GET /v1/authorize", &[]);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(answer.header("ratelimit"), None);
    let style = HeaderStyle::new().with_verbosity(Verbosity::None);
    let server = TestServer::with(|server| server.header_style(style));
    let answers = [0, 1, 2].map(|_| server.ask("GET /v1/authorize", &[]));
    let problem = answers[2].problem(429);
    assert!(problem.get("detail").is_none() && problem.get("violated-policies").is_none());
    assert_eq!(answers[2].header("retry-after"), None);
}

/// A server that counts by path, and refuses what begins with `/admin`.
fn by_path() -> TestServer {
    let policy = "[[deny]]\nname = \"admin\"\nmatch = { path = { prefix = \"/admin\" } }\n\
                  [[rule]]\nname = \"per-path\"\nkey = [\"path\"]\nlimit = \"2/h\"\n";
    TestServer::with_policy(crate::support::policy(policy), |server| server)
}

#[test]
fn a_query_of_any_length_is_cut_off_before_anything_is_counted() {
    let server = by_path();
    let long = format!("X-Forwarded-Uri: /search?{}", "q".repeat(20_000));
    let answers = [&long, &long, &long].map(|uri| server.ask("GET /v1/authorize", &[uri]));
    assert_eq!(answers.map(|answer| answer.status), [200, 200, 429]);
    assert_eq!(server.ask("GET /v1/authorize", &["X-Forwarded-Uri: /search"]).status, 429);
}

#[test]
fn a_path_or_host_of_any_length_is_decided_by_its_beginning() {
    let server = by_path();
    let denied = format!("X-Forwarded-Uri: /admin/{}", "x".repeat(20_000));
    assert_eq!(server.ask("GET /v1/authorize", &[&denied]).status, 403);
    // A character that the bound goes through is left out whole.
    let long = |end: &str| format!("X-Forwarded-Uri: /{}{end}", "ü".repeat(10_000));
    let statuses = ["a", "b", "c"].map(|end| server.ask("GET /v1/authorize", &[&long(end)]).status);
    assert_eq!(statuses, [200, 200, 429], "they begin alike");
    let host = format!("X-Forwarded-Host: {}", "h".repeat(20_000));
    assert_eq!(server.ask("GET /v1/authorize", &[&host]).status, 200);
    assert_eq!(server.over_bound("key_length", "http"), 5);
}

#[test]
fn path_is_normalized_before_it_is_cut() {
    let server = by_path();
    let admin = format!("X-Forwarded-Uri: {}/admin", "/x/..".repeat(2000));
    assert_eq!(server.ask("GET /v1/authorize", &[&admin]).status, 403);
    let encoded = format!("X-Forwarded-Uri: /%61dmin/{}", "%61".repeat(1400));
    assert_eq!(server.ask("GET /v1/authorize", &[&encoded]).status, 403);
    assert_eq!(server.over_bound("key_length", "http"), 0, "neither is too long");
    let dots = format!("X-Forwarded-Uri: /admin/{}/..b", "x".repeat(4086));
    assert_eq!(server.ask("GET /v1/authorize", &[&dots]).status, 403);
    assert_eq!(server.over_bound("key_length", "http"), 1);
}

#[test]
fn bytes_of_a_path_that_are_no_text_are_seen_as_they_should_have_been_sent() {
    let server = by_path();
    let ask = |path: &[u8]| {
        let head = [b"GET /v1/authorize HTTP/1.1\r\nhost: t\r\nx-forwarded-uri: ", path].concat();
        server.send([&head, b"\r\n\r\n".as_slice()].concat()).status
    };
    assert_eq!([ask(b"/\xff"), ask(b"/%FF"), ask(b"/\xff?\xfe")], [200, 200, 429]);
    assert_eq!([ask(b"/\xfe"), ask(b"/\xc3\xbc"), ask(b"/admin\xff")], [200, 200, 403]);
}

#[test]
fn what_cannot_be_decided_is_refused_with_the_status_that_the_proxy_asks_for() {
    let header = http::HeaderName::from_static("x-user");
    let server = TestServer::with(|server| server.header_attribute("user", header));
    let long = format!("X-User: {}", "u".repeat(5000));
    let mut texts = Texts::default();
    for headers in [&["X-User: ana", "X-User: ben"][..], &[&long]] {
        let shown = headers.join(", ");
        let denied = server.ask("GET /v1/authorize", headers);
        texts.add(&format!("GET /v1/authorize, {shown}"), &denied.detail(400));
        let denied = server.ask("GET /v1/authorize/403", headers);
        assert_eq!(denied.status, 403, "{shown}");
    }
    texts.assert_golden("authorize", "headers");
}
