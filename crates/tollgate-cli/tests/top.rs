//! `tollgate top` against a real server, as scripts use it; the screen is in tests/e2e/test_top.py.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use support::{Folder, Said};

const POLICY: &str = r#"
[[rule]]
name = "per-tenant"
key = ["tenant"]
limit = "2/h"
"#;
const READ: &str = "read-read-read-read";

struct Served {
    child: Child,
    folder: Folder,
    /// Where operators are answered.
    address: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Served {
        Served::with(Folder::new(), arguments)
    }

    fn with(folder: Folder, arguments: &[&str]) -> Served {
        folder.write("limits.toml", POLICY);
        folder.write("tokens", format!("rita read {READ}\n"));
        let mut all = vec!["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
        all.extend(["--policy", "limits.toml"]);
        all.extend(arguments);
        let mut child = support::command(folder.path(), &all)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built for this test");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        let http = lines.find_map(|line| line.split("://").nth(1).map(str::to_owned));
        let address = http.expect("an address");
        Served { child, folder, address }
    }

    fn server(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks for a decision about a tenant.
    fn check(&self, tenant: &str) {
        let body = json!({"attributes": {"tenant": tenant}}).to_string();
        let mut stream = TcpStream::connect(&self.address).expect("a server");
        write!(
            stream,
            "POST /v1/check HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
    }

    fn top(&self, arguments: &[&str]) -> Said {
        let server = self.server();
        let mut all = vec!["top", "--server", &server];
        all.extend(arguments);
        self.folder.tollgate_with(&[("TOLLGATE_TOKEN", READ)], &all)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HOSTILE: &str = "\u{1b}[2J\u{202e}evil";

#[test]
fn without_a_terminal_it_prints_who_is_refused_and_why_and_ends() {
    let served = Served::start(&["--admin-tokens", "tokens"]);
    for _ in 0..5 {
        served.check("acme");
        served.check(HOSTILE);
    }
    let said = served.top(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let row = said.out.lines().find(|line| line.starts_with("tenant=acme ")).expect("acme");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["tenant=acme", "per-tenant", "over", "limit", "3", "2"], "{row}");
    assert!(said.out.contains(r#"tenant="\u{1b}[2J\u{202e}evil""#), "{}", said.out);
    assert!(!said.out.contains(['\u{1b}', '\u{202e}']), "{:?}", said.out);
    for part in ["most refused keys", "hottest keys", "rules", "policy v1, 1 rule\n", "2 keys"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
}

#[test]
fn json_is_a_line_that_a_program_can_read() {
    let served = Served::start(&["--admin-tokens", "tokens"]);
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
    let served = Served::start(&["--insecure-admin"]);
    let server = served.server();
    let mut child = support::command(served.folder.path(), &["top", "--server", &server, "--json"])
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
    let pid = child.id().to_string();
    let told = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(told.expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn json_ends_when_nobody_reads_it() {
    let served = Served::start(&["--insecure-admin"]);
    let binary = env!("CARGO_BIN_EXE_tollgate");
    let line = format!("{binary} top --server {} --json | head -n 1", served.server());
    let output = std::process::Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["health"], output.stderr.len()), (&json!("ready"), 0));
}

#[test]
fn who_is_not_let_in_is_told_how() {
    let served = Served::start(&["--admin-tokens", "tokens"]);
    let server = served.server();
    let said = served.folder.tollgate(&["top", "--server", &server, "--once"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.err.contains("there is no token"), "{}", said.err);
    assert!(said.err.contains("--token-file FILE or in TOLLGATE_TOKEN"), "{}", said.err);
    let wrong = served.top(&["--token", "wrong-wrong-wrong-wrong"]);
    assert!(wrong.code == Some(1) && wrong.err.contains("the token is wrong"), "{}", wrong.err);
    served.folder.write("mine", format!("{READ}\n"));
    assert_eq!(served.top(&["--token-file", "mine"]).code, Some(0));
    let list = served.top(&["--token-file", "tokens"]);
    assert!(list.code == Some(2) && list.err.contains("one token"), "{}", list.err);
    assert!(!list.err.contains(READ) && !wrong.err.contains("wrong-wrong"));
}

#[test]
fn a_server_that_is_not_there_or_not_ours_is_an_error_and_not_a_wait() {
    let folder = Folder::new();
    let said = folder.tollgate(&["top", "--server", "http://127.0.0.1:1"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.err.contains("http://127.0.0.1:1: cannot connect"), "{}", said.err);
    let served = Served::start(&["--admin", "off"]);
    let said = served.top(&[]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("nothing for operators"), "{}", said.err);
}

#[test]
fn wrong_options_are_told_before_anybody_is_asked() {
    let folder = Folder::new();
    let wrong: [(&[&str], &str); 6] = [
        (&["--server", "ftp://a"], "http:// or https://"),
        (&["--interval", "10ms"], "from 1s to 1h"),
        (&["--interval", "soon"], "not a duration"),
        (&["--ca", "a.pem"], "are for https://"),
        (&["--server", "https://127.0.0.1:1", "--ca", "none.pem"], "none.pem"),
        (&["--token-file", "none"], "none: cannot be read"),
    ];
    for (arguments, said_so) in wrong {
        let mut all = vec!["top"];
        all.extend(arguments);
        let said = folder.tollgate(&all);
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(said_so), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn a_server_with_tls_is_trusted_by_its_authority_only() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    folder.write("cert.pem", made.cert.pem());
    folder.write("key.pem", made.signing_key.serialize_pem());
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--insecure-admin"];
    let served = Served::with(folder, &tls);
    let server = format!("https://{}", served.address);
    let top = |more: &[&str]| {
        let mut all = vec!["top", "--server", &server, "--once"];
        all.extend(more);
        served.folder.tollgate(&all)
    };
    let trusted = top(&["--ca", "cert.pem"]);
    assert_eq!(trusted.code, Some(0), "{}", trusted.err);
    assert!(trusted.out.contains(&server), "{}", trusted.out);
    let strange = top(&[]);
    assert_eq!(strange.code, Some(1), "{}", strange.out);
    assert!(strange.err.contains("TLS failed"), "{}", strange.err);
    let half = top(&["--ca", "cert.pem", "--cert", "cert.pem"]);
    assert!(half.code == Some(2) && half.err.contains("--key"), "{}", half.err);
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    folder.write("cert.pem", made.cert.pem());
    folder.write("key.pem", made.signing_key.serialize_pem());
    let ours = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "cert.pem"];
    let served = Served::with(folder, &[&ours[..], &["--insecure-admin"]].concat());
    let server = format!("https://{}", served.address);
    let top = |more: &[&str]| {
        let all = [&["top", "--once", "--server", &server, "--ca", "cert.pem"], more].concat();
        served.folder.tollgate(&all)
    };
    let shown = top(&["--cert", "cert.pem", "--key", "key.pem"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    let strange = top(&[]);
    assert_eq!((strange.code, strange.out.as_str()), (Some(1), ""), "{}", strange.err);
}
