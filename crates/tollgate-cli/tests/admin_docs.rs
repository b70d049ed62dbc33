//! The commands of docs/admin.md, run against a real server, print what the page shows.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use support::Folder;

const PAGE: &str = include_str!("../../../docs/admin.md");
const TOKEN: &str = "a-token-of-the-tests";

struct Served(Child, String);

impl Served {
    /// What the page starts.
    fn start(folder: &Folder) -> Served {
        let tokens = ["--admin-tokens", "tokens", "--audit", "audit.jsonl"];
        let (served, admin) = Served::with(folder, &tokens, &[]);
        assert_eq!(admin, format!("http://{}/admin/v1", served.1));
        served
    }

    /// With these arguments and variables; and where operators are answered.
    fn with(folder: &Folder, arguments: &[&str], variables: &[(&str, &str)]) -> (Served, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args([
                "serve",
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "off",
                "--resp",
                "off",
                "--policy",
                "tollgate.toml",
            ])
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built for this test");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| line.split("http://").nth(1).map(str::to_owned));
        let admin = lines.find_map(|line| Some(line.strip_prefix("  admin     ")?.to_owned()));
        (Served(child, address.expect("an address")), admin.expect("a line"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let served = Served::start(&folder);
    let commands = commands();
    let asked = commands.iter().filter(|(command, _)| command.contains("curl"));
    assert!(asked.clone().count() >= 20, "{commands:?}");
    for (command, shown) in asked {
        let line = command
            .replace("$ADMIN", &format!("http://{}/admin/v1", served.1))
            .replace("127.0.0.1:8080", &served.1);
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
            let file = std::fs::read_to_string(folder.path().join("new.toml")).expect("a file");
            folder.write("new.toml", file.replace("5/min", "7/min"));
        }
    }
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("an audit log");
    assert!(audit.lines().count() >= 7 && audit.contains("\"who\":\"ana\""), "{audit}");
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
    let (served, admin) = Served::with(&folder, &["--admin", "127.0.0.1:0"], &variables);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status(&format!("{admin}/info"), &["-H", &bearer]), "200");
    assert_eq!(status(&format!("{admin}/info"), &[]), "401");
    assert_eq!(status(&format!("{admin}/reload"), &["-H", &bearer, "-X", "POST"]), "403");
    let elsewhere = format!("http://{}/admin/v1/info", served.1);
    assert_eq!(status(&elsewhere, &["-H", &bearer]), "404");
}

#[test]
fn insecure_needs_no_token_on_this_machine() {
    let folder = Folder::with(&[("tollgate.toml", "")]);
    let (_served, admin) = Served::with(&folder, &["--insecure-admin"], &[]);
    assert_eq!(status(&format!("{admin}/reload"), &["-X", "POST"]), "200");
    let other = ["-X", "POST", "-H", "Origin: https://evil.example"];
    assert_eq!(status(&format!("{admin}/reload"), &other), "401");
}
