//! Who is let in.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate_server::{Admin, AdminListen};
use tollgate_testkit::eventually;

use super::*;

/// Every question of operators in the document, with the role it needs.
fn routes(server: &TestServer) -> Vec<(String, String, bool)> {
    let document: Value = server.ask("GET /openapi.json", &[]).json();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if path.starts_with("/admin/") {
                let writes = match operation["description"].as_str().unwrap() {
                    "Needs a token with the role write." => true,
                    "Needs a token with the role read." => false,
                    other => panic!("{path}: no role in {other:?}"),
                };
                routes.push((method.to_uppercase(), path.clone(), writes));
            }
        }
    }
    assert!(routes.len() > 15, "{routes:?}");
    routes
}

#[test]
fn every_question_needs_the_role_it_says() {
    // Which may change nothing; whoever adds one that does not change anything adds it here.
    let looks = [
        "GET /admin/v1/audit",
        "GET /admin/v1/blocks",
        "GET /admin/v1/denials",
        "GET /admin/v1/events",
        "GET /admin/v1/info",
        "GET /admin/v1/keys",
        "GET /admin/v1/overrides",
        "GET /admin/v1/policy",
        "GET /admin/v1/policy.toml",
        "GET /admin/v1/tiers",
        "GET /admin/v1/top",
        "POST /admin/v1/keys/status",
        "POST /admin/v1/policy/validate",
        "POST /admin/v1/simulate",
    ];
    let server = operated();
    let (mut texts, mut texts_of_refusals) = (Texts::default(), BTreeSet::new());
    for (method, path, writes) in routes(&server) {
        let line = format!("{method} {path}");
        assert_eq!(writes, !looks.contains(&line.as_str()), "{line}");
        let without = server.ask(&line, &[]);
        texts_of_refusals.insert(("without a token", without.detail(401)));
        assert_eq!(without.header("www-authenticate"), Some("Bearer realm=\"tollgate admin\""));
        let [reading, writing] = [READ, WRITE].map(|token| ask(&server, token, &line, ""));
        if writes {
            texts_of_refusals.insert(("with a token that may only read", reading.detail(403)));
            let scope =
                "Bearer realm=\"tollgate admin\", error=\"insufficient_scope\", scope=\"write\"";
            assert_eq!(reading.header("www-authenticate"), Some(scope), "{line}");
        }
        // Without a body or a file, accepted callers get 400 or 409.
        let statuses = format!("none 401, read {}, write {}", reading.status, writing.status);
        texts.add(&line, &statuses);
    }
    texts_of_refusals.iter().for_each(|(asked, sentence)| texts.add(asked, sentence));
    texts.assert_golden("admin", "roles");
}

#[test]
fn a_wrong_token_is_refused_and_never_repeated() {
    let server = operated();
    let secret = "secret-secret-secret-secret";
    let mut texts = Texts::default();
    for value in [
        format!("Bearer {secret}"),
        format!("Basic {secret}"),
        secret.to_owned(),
        format!("Bearer {READ}x"),
        "Bearer ".to_owned(),
        format!("Bearer \u{fc}{secret}"),
    ] {
        let answer = server.ask("GET /admin/v1/info", &[&format!("authorization: {value}")]);
        texts.add(&format!("authorization: {value}"), &answer.detail(401));
        let invalid = "Bearer realm=\"tollgate admin\", error=\"invalid_token\"";
        assert_eq!(answer.header("www-authenticate"), Some(invalid), "{value}");
        assert!(!answer.body.contains(secret) && !answer.body.contains(READ), "{answer:?}");
    }
    texts.assert_golden("admin", "wrong tokens");
    assert_eq!(get(&server, "info")["name"], "rita");
}

#[test]
fn who_guesses_is_soon_refused_whatever_the_guess() {
    let server = operated();
    let request = |token: &str| {
        format!("GET /admin/v1/info HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\n\r\n")
    };
    // All at once: a guess is forgotten after six seconds.
    let mut connection = server.connect();
    connection.write(request("wrong-wrong-wrong-wrong").repeat(10) + &request(WRITE));
    for _ in 0..10 {
        connection.read().unwrap().problem(401);
    }
    let right = connection.read().unwrap();
    right.problem(429);
    assert!(right.header("retry-after").unwrap().parse::<u64>().unwrap() <= 6, "{right:?}");
    assert_eq!(check(&server, "ana", 1)["allowed"], true, "others do not notice");
}

#[test]
fn who_asks_for_what_there_is_not_is_told_what_operators_can_ask() {
    let server = operated();
    let refused = ask(&server, WRITE, "GET /admin/v1/nothing", "");
    let mut texts = Texts::default();
    texts.add("GET /admin/v1/nothing", &refused.detail(404));
    texts.assert_golden("admin", "unknown path");
}

#[test]
fn without_tokens_nobody_is_let_in_and_told_how() {
    let server = TestServer::start();
    let mut texts = Texts::default();
    texts.add("GET /admin/v1/info", &server.ask("GET /admin/v1/info", &[]).detail(401));
    texts.assert_golden("admin", "no tokens");
    ask(&server, "", "GET /admin/v1/info", "").problem(401);
    ask(&server, WRITE, "GET /admin/v1/info", "").problem(401);
}

#[test]
fn insecure_lets_in_this_machine_and_no_page_of_another_site() {
    let server = TestServer::with(|server| server.admin(Admin::new().insecure()));
    let ask = |host: &str, headers: &[&str]| {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let answer = server.send(format!("GET /admin/v1/info HTTP/1.1\r\n{host}{headers}\r\n"));
        (answer.status, answer)
    };
    let here = "host: 127.0.0.1:8080\r\n";
    let (status, answer) = ask(here, &[]);
    assert_eq!((status, &answer.json()["role"]), (200, &json!("write")));
    assert_eq!(ask("host: localhost\r\n", &[]).0, 200);
    assert_eq!(ask(here, &["origin: http://127.0.0.1:8080"]).0, 200, "its own page");
    assert_eq!(ask(here, &["origin: https://evil.example"]).0, 401);
    assert_eq!(ask(here, &["origin: null"]).0, 401);
    for added in ["x-forwarded-for: 203.0.113.9", "via: 1.1 proxy", "x-forwarded-proto: https"] {
        assert_eq!(ask(here, &[added]).0, 401, "through a proxy, {added}");
    }
    // Which a page of another site sends without an origin, as for a picture.
    for site in ["cross-site", "same-site"] {
        assert_eq!(ask(here, &[&format!("sec-fetch-site: {site}")]).0, 401, "{site}");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(ask(here, &[&format!("sec-fetch-site: {site}")]).0, 200, "{site}");
    }
    assert_eq!(ask("host: evil.example\r\n", &[]).0, 421, "a name that leads here");
    assert_eq!(ask("host: 10.0.0.1\r\n", &[]).0, 401, "an address of another machine");
}

#[test]
fn no_answer_can_be_shown_by_a_page_of_another_site() {
    let server = operated();
    for (line, status) in [
        ("GET /admin/v1/info", 200),
        ("GET /admin/v1/policy.toml", 200),
        ("GET /admin/v1/events?limit=1", 200),
        ("GET /admin/v1/nothing", 404),
    ] {
        let answer = ask(&server, READ, line, "");
        assert_eq!(answer.status, status, "{line}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{line}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{line}");
    }
}

#[test]
fn operators_can_have_a_port_of_their_own() {
    let at = AdminListen::At("127.0.0.1:0".parse().unwrap());
    let server = TestServer::with(|server| server.admin(admin().listen(at)));
    let operators = server.admin.unwrap();
    assert_ne!(operators, server.address);
    let mut texts = Texts::default();
    let elsewhere = server.ask("GET /admin/v1/info", &[]);
    texts.add("GET /admin/v1/info at the port of decisions", &elsewhere.detail(404));
    let header = format!("authorization: Bearer {READ}");
    let asked = |line: &str| server.ask_at(operators, line, &[&header]);
    assert_eq!(asked("GET /admin/v1/info").json()["name"], "rita");
    texts.add("POST /v1/check at the port of operators", &asked("POST /v1/check").detail(404));
    texts.assert_golden("admin", "ports");
    assert_eq!(asked("GET /openapi.json").status, 200);
    let off = TestServer::with(|server| server.admin(admin().listen(AdminListen::Off)));
    off.ask("GET /admin/v1/info", &[&header]).problem(404);
    assert_eq!(off.admin, None);
}

#[test]
fn tokens_in_a_file_are_in_force_soon_after_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let (old, new) = ("old-old-old-old-old", "new-new-new-new-new");
    std::fs::write(&file, format!("olga read {old}\n")).unwrap();
    let with_file = admin().token_file(&file).unwrap();
    let server = TestServer::with(|server| server.admin(with_file));
    let status = |token: &str| ask(&server, token, "GET /admin/v1/info", "").status;
    assert_eq!((status(old), status(new), status(READ)), (200, 401, 200));
    let watch = |token: &str| {
        let mut stream = server.connect();
        stream.write(format!(
            "GET /admin/v1/events HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        ));
        assert_eq!(stream.read().unwrap().status, 200);
        assert!(is_sampled(&mut stream), "the first event");
        stream
    };
    let (mut of_old, mut of_other) = (watch(old), watch(READ));
    std::fs::write(&file, format!("nina read {new}\n")).unwrap();
    // Asked with the old one: too many tries with a wrong one would be kept out.
    eventually("the token that is gone is refused", || status(old) == 401);
    assert_eq!((status(new), status(READ)), (200, 200));
    while is_sampled(&mut of_old) {}
    // What came since then may have been sent before; the next is not.
    while of_other.is_answered() {
        assert!(is_sampled(&mut of_other));
    }
    assert!(is_sampled(&mut of_other), "others go on");
}

/// Reads up to the next event; whether there is one, or else the stream has ended in order.
fn is_sampled(stream: &mut support::Connection) -> bool {
    loop {
        match stream.line().expect("the stream ends in order").as_str() {
            "event: sample\n" => return true,
            "0\r\n" => return false,
            _ => {}
        }
    }
}

#[test]
fn missing_token_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = admin().token_file(folder.path().join("none")).unwrap_err().to_string();
    let mut texts = Texts::default();
    texts.add("{folder}/none", &error.replace(folder.path().to_str().unwrap(), "{folder}"));
    texts.assert_golden("admin", "missing token file");
}
