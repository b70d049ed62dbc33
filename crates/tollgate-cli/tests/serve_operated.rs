//! The server under a service manager: what it logs, and what it notifies.
#![cfg(unix)]

#[path = "support/logged.rs"]
mod logged;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use logged::Logged;
use serde_json::Value;
use support::Folder;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Served(Child, String);

impl Served {
    /// Starts it and waits until it has said that it listens.
    fn start(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> Served {
        let listen = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "127.0.0.1:0"];
        let mut child = support::command(folder.path(), &listen)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let out = child.stdout.as_mut().expect("a pipe");
        let mut lines = BufReader::new(out).lines().map(|line| line.expect("text"));
        let http = lines.find_map(|line| line.split_once("http://").map(|(_, at)| at.to_owned()));
        assert!(lines.any(|line| line.contains("/metrics")), "it says what to try");
        Served(child, http.expect("an address"))
    }

    /// Stops it and says what it has logged.
    fn log(mut self) -> String {
        let id = self.0.id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.expect("kill can be run").success());
        let mut log = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut log).expect("text");
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0), "{log}");
        log
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_in_json_has_an_object_in_each_line() {
    let served = Logged::start(&Folder::new(), &[("TOLLGATE_HTPP", "x")], &[]);
    served.signal("TERM");
    let after = served.until("stopped");
    let lines: Vec<&Value> = served.before.iter().chain(&after).collect();
    let has = |level: &str, message: &str| {
        lines.iter().any(|line| {
            line["level"] == level
                && line["message"].as_str().is_some_and(|it| it.contains(message))
        })
    };
    assert!(has("WARN", "did you mean TOLLGATE_HTTP"), "{lines:?}");
    assert!(has("INFO", "stopped"), "{lines:?}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["target"].is_string()));
}

#[test]
fn the_level_says_how_much_is_logged() {
    let folder = Folder::new();
    assert!(Served::start(&folder, &[], &[]).log().contains(" INFO stopped\n"));
    assert_eq!(Served::start(&folder, &[], &["--log-level", "warn"]).log(), "");
    assert_eq!(Served::start(&folder, &[("RUST_LOG", "error")], &[]).log(), "");
    let by_part = ["--log-level", "off,tollgate_cli=info"];
    assert!(Served::start(&folder, &[], &by_part).log().contains("stopped"));
}

#[test]
fn rules_in_the_configuration_file_are_read_again_and_settings_need_a_restart() {
    let file = |limit: u8, headers: &str| {
        format!(
            "[server]\nheaders = \"{headers}\"\n[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"{limit}/h\"\n"
        )
    };
    let folder = Folder::with(&[("t.toml", &file(5, "off"))]);
    let mut served = Served::start(&folder, &[], &["--config", "t.toml"]);
    let stderr = BufReader::new(served.0.stderr.take().expect("a pipe"));
    let (lines, log) = std::sync::mpsc::channel();
    std::thread::spawn(move || stderr.lines().try_for_each(|line| lines.send(line.expect("text"))));
    let heard = |text: &str| {
        let lines = std::iter::repeat_with(|| log.recv_timeout(PATIENCE).expect(text));
        lines.take_while(|line| !line.contains(text)).collect::<Vec<_>>()
    };
    folder.write("t.toml", file(6, "off"));
    heard("the policy was changed");
    folder.write("t.toml", file(7, "x-epoch"));
    let before = heard("settings in [server] have changed, they need a restart");
    assert!(before.iter().all(|line| line.contains(" INFO the policy was changed")), "{before:?}");
    folder.write("t.toml", file(8, "x-epok"));
    heard("t.toml:2: server.headers is \"x-epok\"");
}

#[test]
fn the_address_of_a_client_is_logged_only_where_that_is_wanted() {
    for keys in ["--log-keys=false", "--log-keys"] {
        let served = Served::start(&Folder::new(), &[], &["--log-level", "debug", keys]);
        let mut client = TcpStream::connect(&served.1).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"\x16\x03\x01 no HTTP\r\n\r\n").unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        let (peer, log) = (client.local_addr().unwrap().to_string(), served.log());
        assert!(log.contains("DEBUG a connection ended early"), "{log}");
        assert_eq!(log.contains(&peer), keys == "--log-keys", "{log}");
    }
}

#[test]
fn denials_are_logged_where_that_is_wanted_and_keys_only_with_them_if_asked_for() {
    let body = r#"{"attributes": {"user": "ana"}, "cost": 15}"#;
    let ask = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let denials = "--log-level=info,tollgate_server::denials=debug";
    for (arguments, logged, named) in [
        (["--log-level=info", "--log-keys"], false, false),
        ([denials, "--log-keys=false"], true, false),
        ([denials, "--log-keys"], true, true),
    ] {
        let served = Served::start(&Folder::new(), &[], &arguments);
        for _ in 0..2 {
            let mut client = TcpStream::connect(&served.1).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(ask.as_bytes()).unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
        }
        let log = served.log();
        let line = log.lines().find(|line| line.contains("DEBUG denied"));
        assert_eq!(line.is_some(), logged, "{log}");
        assert!(line.is_none_or(|line| line.contains("rule=\"per-user\"")), "{log}");
        assert_eq!(log.contains("ana"), named, "{log}");
    }
}

/// A socket such as systemd's, and what comes in.
struct Manager(UnixDatagram);

impl Manager {
    fn heard(&self) -> String {
        let mut bytes = [0; 64];
        let length = self.0.recv(&mut bytes).expect("a notification in time");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }
}

#[test]
fn a_service_manager_hears_that_it_is_ready_lives_and_stops() {
    let folder = Folder::new();
    let name = folder.path().join("notify");
    let manager = Manager(UnixDatagram::bind(&name).unwrap());
    manager.0.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = [("NOTIFY_SOCKET", name.to_str().unwrap())];
    let served = Served::start(&folder, &socket, &[]);
    assert_eq!(manager.heard(), "READY=1");
    served.log();
    assert_eq!(manager.heard(), "STOPPING=1", "and nothing in between where no watchdog is");

    let watched = [socket[0], ("WATCHDOG_USEC", "20000")];
    let served = Served::start(&folder, &watched, &[]);
    assert_eq!(manager.heard(), "READY=1");
    assert_eq!(manager.heard(), "WATCHDOG=1");
    assert_eq!(manager.heard(), "WATCHDOG=1");
    served.log();
    let rest: Vec<_> = std::iter::from_fn(|| {
        manager.0.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        manager.0.recv(&mut bytes).ok().map(|length| bytes[..length].to_vec())
    })
    .collect();
    assert!(rest.contains(&b"STOPPING=1".to_vec()), "{rest:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_name_of_the_socket_may_be_an_abstract_one() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("tollgate-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager(UnixDatagram::bind_addr(&address).unwrap());
    manager.0.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = format!("@{name}");
    let served = Served::start(&Folder::new(), &[("NOTIFY_SOCKET", &name)], &[]);
    assert_eq!(manager.heard(), "READY=1");
    drop(served);
}

#[test]
fn a_socket_that_is_not_there_is_told() {
    let said = Folder::new().tollgate_with(
        &[("NOTIFY_SOCKET", "/nowhere/notify")],
        &["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"],
    );
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot notify the service manager"), "{}", said.err);
}
