//! `tollgate top` against a real server, as scripts use it; the screen is in tests/e2e/test_top.py.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{
    Folder, Said, TestServer, Transcript, assert_golden, assert_transcript, signal, without_figures,
};
use serde_json::{Value, json};

const POLICY: &str = r#"
[[rule]]
name = "per-tenant"
key = ["tenant"]
limit = "2/h"
"#;
const READ: &str = "read-read-read-read";

/// A server with a policy and the token of an operator.
struct Operated {
    server: TestServer,
    folder: Folder,
}

impl Operated {
    fn start(arguments: &[&str]) -> Operated {
        Operated::with(Folder::new(), arguments)
    }

    fn with(folder: Folder, arguments: &[&str]) -> Operated {
        folder.write("limits.toml", POLICY);
        folder.write("tokens", format!("rita read {READ}\n"));
        let common = ["--grpc", "off", "--resp", "off", "--policy", "limits.toml"];
        let server = TestServer::start(&folder, &[&common, arguments].concat());
        Operated { server, folder }
    }

    fn url(&self) -> String {
        self.server.url("http")
    }

    /// Asks for a decision about a tenant.
    fn check(&self, tenant: &str) {
        let body = json!({"attributes": {"tenant": tenant}}).to_string();
        assert!(self.server.post("/v1/check", &body).json()["allowed"].is_boolean());
    }

    fn top(&self, arguments: &[&str]) -> Said {
        let url = self.url();
        let all = [&["top", "--server", &url], arguments].concat();
        self.folder.tollgate_with(&[("TOLLGATE_TOKEN", READ)], &all)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const HOSTILE: &str = "\u{1b}[2J\u{202e}evil";

#[test]
fn without_a_terminal_it_prints_who_is_refused_and_why_and_ends() {
    let served = Operated::start(&["--admin-tokens", "tokens"]);
    for tenant in ["acme", "acme", "acme", "acme", "acme", HOSTILE, HOSTILE, HOSTILE] {
        served.check(tenant);
    }
    let said = served.top(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let row = said.out.lines().find(|line| line.starts_with("tenant=acme ")).expect("acme");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["tenant=acme", "per-tenant", "over", "limit", "3", "2"], "{row}");
    assert!(!said.out.contains(['\u{1b}', '\u{202e}']), "{:?}", said.out);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[1..3], ["policy v1, 1 rule", "store memory, 2 keys"]);
    let text = served.server.without_addresses(&said.out).replace(VERSION, "{version}");
    assert_golden("top/tables", &without_figures(&text));
}

#[test]
fn json_is_a_line_that_a_program_can_read() {
    let served = Operated::start(&["--admin-tokens", "tokens"]);
    for _ in 0..3 {
        served.check("acme");
    }
    let said = served.top(&["--once", "--json"]);
    assert_eq!((said.code, said.out.lines().count()), (Some(0), 1), "{}{}", said.out, said.err);
    let told = said.json();
    assert_eq!((&told["health"], &told["store"]["kind"]), (&json!("ready"), &json!("memory")));
    assert_eq!(told["who"], json!({"name": "rita", "role": "read"}));
    let refused = &told["refused_keys"][0];
    assert_eq!((&refused["key"], &refused["denied"]), (&json!({"tenant": "acme"}), &json!(1)));
    assert_eq!((&refused["reason"], &refused["limit"]), (&json!("limits"), &json!(2)));
    assert!(refused["retry_in_ms"].as_u64() > Some(1_000_000), "{refused}");
    assert_eq!(told["hottest_keys"][0]["seen"], 3);
    assert_eq!(told["rules"][0]["allowed"], 2);
    assert!(told["rates"]["allowed"].is_number() && told["latency"].is_object(), "{told}");
}

#[test]
fn json_comes_by_the_interval_until_it_is_told_to_end() {
    let served = Operated::start(&["--insecure-admin"]);
    let server = served.url();
    let mut child =
        crate::support::command(served.folder.path(), &["top", "--server", &server, "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut uptimes = Vec::new();
    for _ in 0..2 {
        let line = lines.next().expect("a line").expect("text");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        uptimes.push(told["uptime_ms"].as_u64().expect("a number"));
    }
    assert!(uptimes[0] < uptimes[1], "{uptimes:?}");
    signal(&child, "TERM");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn json_ends_when_nobody_reads_it() {
    let served = Operated::start(&["--insecure-admin"]);
    let binary = env!("CARGO_BIN_EXE_tollgate");
    let line = format!("{binary} top --server {} --json | head -n 1", served.url());
    let output = std::process::Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["health"], output.stderr.len()), (&json!("ready"), 0));
}

#[test]
fn who_is_not_let_in_is_told_how() {
    let served = Operated::start(&["--admin-tokens", "tokens"]);
    let mut transcript = Transcript::default();
    transcript.hide(served.server.address("http"), "{http}");
    let without = served.folder.tollgate(&["top", "--server", &served.url(), "--once"]);
    assert_eq!((without.code, without.out.as_str()), (Some(1), ""));
    let wrong = served.top(&["--token", "wrong-wrong-wrong-wrong"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), ""));
    served.folder.write("mine", format!("{READ}\n"));
    assert_eq!(served.top(&["--token-file", "mine"]).code, Some(0));
    let list = served.top(&["--token-file", "tokens"]);
    assert_eq!(list.code, Some(2), "{}", list.err);
    assert!(!list.err.contains(READ) && !wrong.err.contains("wrong-wrong"));
    [without, wrong, list].iter().for_each(|said| transcript.add(said));
    transcript.assert_golden("top/not_let_in");
}

#[test]
fn a_server_that_is_not_there_or_not_ours_is_an_error_and_not_a_wait() {
    let nobody = Folder::new().tollgate(&["top", "--server", "http://127.0.0.1:1"]);
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(1), ""));
    let served = Operated::start(&["--admin", "off"]);
    let off = served.top(&[]);
    assert_eq!(off.code, Some(1));
    let mut transcript = Transcript::default();
    transcript.hide(served.server.address("http"), "{http}");
    [nobody, off].iter().for_each(|said| transcript.add(said));
    transcript.assert_golden("top/no_server");
}

#[test]
fn wrong_options_are_told_before_anybody_is_asked() {
    let folder = Folder::new();
    let wrong: [&[&str]; 6] = [
        &["--server", "ftp://a"],
        &["--interval", "10ms"],
        &["--interval", "soon"],
        &["--ca", "a.pem"],
        &["--server", "https://127.0.0.1:1", "--ca", "none.pem"],
        &["--token-file", "none"],
    ];
    let said = wrong.map(|arguments| {
        let said = folder.tollgate(&[&["top"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        said
    });
    assert_transcript("top/wrong_options", said);
}

#[test]
fn a_server_with_tls_is_trusted_by_its_authority_only() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    folder.write("cert.pem", made.cert.pem());
    folder.write("key.pem", made.signing_key.serialize_pem());
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--insecure-admin"];
    let served = Operated::with(folder, &tls);
    let server = format!("https://{}", served.server.address("http"));
    let top = |more: &[&str]| {
        let mut all = vec!["top", "--server", &server, "--once"];
        all.extend(more);
        served.folder.tollgate(&all)
    };
    let trusted = top(&["--ca", "cert.pem", "--json"]);
    assert_eq!(trusted.code, Some(0), "{}", trusted.err);
    assert_eq!(trusted.json()["health"], "ready");
    let strange = top(&[]);
    assert_eq!(strange.code, Some(1), "{}", strange.out);
    let half = top(&["--ca", "cert.pem", "--cert", "cert.pem"]);
    assert_eq!(half.code, Some(2), "{}", half.err);
    let mut transcript = Transcript::default();
    transcript.hide(served.server.address("http"), "{http}");
    [strange, half].iter().for_each(|said| transcript.add(said));
    transcript.assert_golden("top/tls");
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    folder.write("cert.pem", made.cert.pem());
    folder.write("key.pem", made.signing_key.serialize_pem());
    let ours = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "cert.pem"];
    let served = Operated::with(folder, &[&ours[..], &["--insecure-admin"]].concat());
    let server = format!("https://{}", served.server.address("http"));
    let top = |more: &[&str]| {
        let all = [&["top", "--once", "--server", &server, "--ca", "cert.pem"], more].concat();
        served.folder.tollgate(&all)
    };
    let shown = top(&["--cert", "cert.pem", "--key", "key.pem"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    let strange = top(&[]);
    assert_eq!((strange.code, strange.out.as_str()), (Some(1), ""), "{}", strange.err);
}
