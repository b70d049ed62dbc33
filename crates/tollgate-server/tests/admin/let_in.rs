//! Who is let in.

use std::io::Read;

use serde_json::{Value, json};
use tollgate_server::{Admin, AdminListen};

use super::*;

/// Every question of operators in the document, with the role it needs.
fn routes(server: &Running) -> Vec<(String, String, bool)> {
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
    for (method, path, writes) in routes(&server) {
        let line = format!("{method} {path}");
        assert_eq!(writes, !looks.contains(&line.as_str()), "{line}");
        let without = server.ask(&line, &[]);
        let problem = without.problem(401);
        assert!(problem["detail"].as_str().unwrap().contains("Authorization: Bearer"), "{problem}");
        assert_eq!(without.header("www-authenticate"), Some("Bearer realm=\"tollgate admin\""));
        let reading = ask(&server, READ, &line, "");
        if writes {
            let problem = reading.problem(403);
            assert!(problem["detail"].as_str().unwrap().contains("only read"), "{line} {problem}");
            assert!(reading.header("www-authenticate").unwrap().contains("insufficient_scope"));
        } else {
            assert!(![401, 403, 404, 405, 500].contains(&reading.status), "{line} {reading:?}");
        }
        let writing = ask(&server, WRITE, &line, "");
        assert!(![401, 403, 404, 405, 500].contains(&writing.status), "{line} {writing:?}");
    }
}

#[test]
fn a_wrong_token_is_refused_and_never_repeated() {
    let server = operated();
    let secret = "secret-secret-secret-secret";
    for value in [
        format!("Bearer {secret}"),
        format!("Basic {secret}"),
        secret.to_owned(),
        format!("Bearer {READ}x"),
        "Bearer ".to_owned(),
        format!("Bearer \u{fc}{secret}"),
    ] {
        let answer = server.ask("GET /admin/v1/info", &[&format!("authorization: {value}")]);
        let problem = answer.problem(401);
        let says = problem["detail"].as_str().unwrap();
        let is_bearer = value.trim_end().starts_with("Bearer ");
        assert_eq!(
            says.contains("send Authorization: Bearer TOKEN"),
            !is_bearer,
            "{value}: {says}"
        );
        assert!(answer.header("www-authenticate").unwrap().contains("invalid_token"));
        assert!(!answer.body.contains(secret) && !answer.body.contains(READ), "{answer:?}");
    }
    assert_eq!(get(&server, "info")["name"], "rita");
}

#[test]
fn who_guesses_is_soon_refused_whatever_the_guess() {
    let server = operated();
    for _ in 0..10 {
        ask(&server, "wrong-wrong-wrong-wrong", "GET /admin/v1/info", "").problem(401);
    }
    let right = ask(&server, WRITE, "GET /admin/v1/info", "");
    right.problem(429);
    assert!(right.header("retry-after").unwrap().parse::<u64>().unwrap() <= 6, "{right:?}");
    assert_eq!(check(&server, "ana", 1)["allowed"], true, "others do not notice");
}

#[test]
fn who_asks_for_what_there_is_not_is_told_what_operators_can_ask() {
    let server = operated();
    let problem = ask(&server, WRITE, "GET /admin/v1/nothing", "").problem(404);
    let says = problem["detail"].as_str().unwrap();
    assert!(says.contains("POST /admin/v1/keys/reset") && !says.contains("/v1/check"), "{says}");
}

#[test]
fn without_tokens_nobody_is_let_in_and_told_how() {
    let server = Running::new();
    let problem = server.ask("GET /admin/v1/info", &[]).problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("--admin-tokens"), "{problem}");
    ask(&server, "", "GET /admin/v1/info", "").problem(401);
    ask(&server, WRITE, "GET /admin/v1/info", "").problem(401);
}

#[test]
fn insecure_lets_in_this_machine_and_no_page_of_another_site() {
    let server = Running::with(|server| server.admin(Admin::new().insecure()));
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
    assert_eq!(ask("host: evil.example\r\n", &[]).0, 401, "a name that leads here");
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
    let server = Running::with(|server| server.admin(admin().listen(at)));
    let operators = server.admin_address.unwrap();
    assert_ne!(operators, server.address);
    let elsewhere = server.ask("GET /admin/v1/info", &[]).problem(404);
    assert!(elsewhere["detail"].as_str().unwrap().contains("not answered on this port"));
    let header = format!("authorization: Bearer {READ}");
    let asked = |line: &str| server.ask_at(operators, line, &[&header]);
    assert_eq!(asked("GET /admin/v1/info").json()["name"], "rita");
    let decisions = asked("POST /v1/check").problem(404);
    let says = decisions["detail"].as_str().unwrap();
    assert!(says.contains("on another port") && !says.contains("POST /v1/check"), "{says}");
    assert_eq!(asked("GET /openapi.json").status, 200);
    let off = Running::with(|server| server.admin(admin().listen(AdminListen::Off)));
    off.ask("GET /admin/v1/info", &[&header]).problem(404);
    assert_eq!(off.admin_address, None);
}

#[test]
fn tokens_in_a_file_are_in_force_soon_after_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let (old, new) = ("old-old-old-old-old", "new-new-new-new-new");
    std::fs::write(&file, format!("olga read {old}\n")).unwrap();
    let with_file = admin().token_file(&file).unwrap();
    let server = Running::with(|server| server.admin(with_file));
    let status = |token: &str| ask(&server, token, "GET /admin/v1/info", "").status;
    assert_eq!((status(old), status(new), status(READ)), (200, 401, 200));
    let watch = |token: &str| {
        let mut stream = server.connect();
        stream.write(format!(
            "GET /admin/v1/events HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        ));
        stream
    };
    let (mut of_old, of_other) = (watch(old), watch(READ));
    std::fs::write(&file, format!("nina read {new}\n")).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // Asked with the old one: too many tries with a wrong one would be kept out.
    while status(old) == 200 {
        assert!(std::time::Instant::now() < until, "the token that is gone is still good");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!((status(new), status(READ)), (200, 200));
    let mut events = String::new();
    of_old.0.read_to_string(&mut events).expect("its stream ends");
    assert!(events.contains("event: sample") && events.ends_with("0\r\n\r\n"), "{events}");
    let still = of_other.0.get_ref();
    still.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64 * 1024];
    assert_ne!(still.peek(&mut bytes).unwrap(), 0, "others go on");
    let error = admin().token_file(folder.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}
