//! The commands of docs/admin.md, run against a real server, print what the page shows.
#![cfg(unix)]

use std::process::Command;

use crate::support::{Folder, TestServer};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/admin.md");
const TOKEN: &str = "a-token-of-the-tests";

/// Starts a server with a policy file `tollgate.toml`, without gRPC and the Redis protocol.
fn start(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> TestServer {
    let common = ["--grpc", "off", "--resp", "off", "--policy", "tollgate.toml"];
    TestServer::with_variables(folder, variables, &[&common, arguments].concat())
}

/// The URL of a protocol's admin interface.
fn admin(server: &TestServer, protocol: &str) -> String {
    format!("http://{}/admin/v1", server.address(protocol))
}

/// The blocks of one language.
fn blocks<'p>(language: &str) -> impl Iterator<Item = &'p str> {
    let start = format!("```{language}\n");
    let blocks: Vec<_> = PAGE.split(&*start).skip(1).collect();
    blocks.into_iter().filter_map(|rest| rest.split("```").next())
}

/// Commands and what they print.
fn commands() -> Vec<(&'static str, &'static str)> {
    let all = blocks("console").flat_map(|block| block.split_terminator("$ ").skip(1));
    all.filter_map(|command| command.split_once('\n')).collect()
}

/// Whether `printed` is what is shown, in which `…` stands for anything.
fn is_shown(shown: &str, printed: &str) -> bool {
    let Some((first, shown)) = shown.split_once('…') else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut pieces: Vec<_> = shown.split('…').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn every_command_of_the_page_prints_what_it_shows() {
    let policy = blocks("toml").next().expect("a policy");
    let folder = Folder::with(&[
        ("tollgate.toml", policy),
        ("tokens", &format!("# operators\nana write {TOKEN}\n")),
    ]);
    let tokens = ["--admin-tokens", "tokens", "--audit", "audit.jsonl"];
    let server = start(&folder, &[], &tokens);
    assert_eq!(admin(&server, "admin"), admin(&server, "http"));
    let commands = commands();
    let asked = commands.iter().filter(|(command, _)| command.contains("curl"));
    assert!(asked.clone().count() >= 20, "{commands:?}");
    for (command, shown) in asked {
        let line = command
            .replace("$ADMIN", &admin(&server, "http"))
            .replace("127.0.0.1:8080", server.address("http"));
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("TOKEN", TOKEN)
            .current_dir(folder.path())
            .output()
            .expect("a shell, and curl in it");
        assert!(output.status.success(), "{line}: {output:?}");
        let printed = String::from_utf8(output.stdout).expect("text");
        let shown = shown.trim_end();
        assert!(
            is_shown(shown, printed.trim_end()),
            "{line}\nshould print\n{shown}\nand prints\n{printed}"
        );
        if line.contains("> new.toml") {
            let file = folder.read("new.toml");
            folder.write("new.toml", file.replace("5/min", "7/min"));
        }
    }
    let audit = folder.read("audit.jsonl");
    let entries = audit.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let actors: Vec<Value> = entries.map(|entry| entry["actor"].clone()).collect();
    assert!(actors.len() >= 7 && actors.contains(&"ana".into()), "{audit}");
    assert!(!audit.contains(TOKEN));
}

#[test]
fn the_page_is_compared_in_earnest() {
    assert!(is_shown("a…c", "abbbc") && is_shown("abc", "abc") && is_shown("a…", "abc"));
    assert!(!is_shown("a…c", "abb") && !is_shown("abc", "abcd") && !is_shown("a…c", "acd"));
}

/// The status that a question is answered with.
fn status(url: &str, arguments: &[&str]) -> String {
    let asked = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", url])
        .args(arguments)
        .output();
    String::from_utf8(asked.expect("curl").stdout).expect("a number")
}

#[test]
fn tokens_can_be_in_the_environment_and_operators_have_a_port_of_their_own() {
    let folder = Folder::with(&[("tollgate.toml", "")]);
    let variables = [("TOLLGATE_ADMIN_TOKEN_READ", TOKEN)];
    let server = start(&folder, &variables, &["--admin", "127.0.0.1:0"]);
    let (own, elsewhere) = (admin(&server, "admin"), admin(&server, "http"));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status(&format!("{own}/info"), &["-H", &bearer]), "200");
    assert_eq!(status(&format!("{own}/info"), &[]), "401");
    assert_eq!(status(&format!("{own}/reload"), &["-H", &bearer, "-X", "POST"]), "403");
    assert_eq!(status(&format!("{elsewhere}/info"), &["-H", &bearer]), "404");
}

#[test]
fn allowed_hosts_are_a_setting_and_every_other_name_is_rejected() {
    let folder = Folder::with(&[("tollgate.toml", "")]);
    let variables = [("TOLLGATE_ALLOWED_HOSTS", "a.example,B.example")];
    let by_variable = start(&folder, &variables, &[]);
    let by_flags =
        start(&folder, &[], &["--allowed-host", "a.example", "--allowed-host", "b.example"]);
    for server in [by_variable, by_flags] {
        let page = format!("http://{}/", server.address("http"));
        let asked = |host: &str| status(&page, &["-H", &format!("Host: {host}:80")]);
        for host in ["a.example", "b.example", "localhost", "192.0.2.7"] {
            assert_eq!(asked(host), "200", "{host}");
        }
        assert_eq!(asked("evil.example"), "421");
        assert_eq!(status(&page, &["--http1.0", "-H", "Host:"]), "200", "HTTP/1.0 names no host");
    }
}

#[test]
fn insecure_needs_no_token_on_this_machine() {
    let folder = Folder::with(&[("tollgate.toml", "")]);
    let server = start(&folder, &[], &["--insecure-admin"]);
    let reload = format!("{}/reload", admin(&server, "admin"));
    assert_eq!(status(&reload, &["-X", "POST"]), "200");
    let other = ["-X", "POST", "-H", "Origin: https://evil.example"];
    assert_eq!(status(&reload, &other), "403");
}
