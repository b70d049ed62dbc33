//! The output of a server: its banner, and its log.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

/// Whether an event has a level and a message.
pub(crate) fn event(level: &str, message: &str) -> impl Fn(&Value) -> bool {
    move |event| event["level"] == level && event["message"] == message
}

/// The events of a log in JSON: every line is one.
pub(crate) fn events(log: &str) -> Vec<Value> {
    let event = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in the event {line}"))
    };
    log.lines().map(event).collect()
}

/// The level, the target, the message and the fields of each event, for a golden file: without times
/// and the version.
pub(crate) fn log_text(events: &[Value]) -> String {
    let line = |event: &Value| {
        let mut fields = event.as_object().expect("an event is an object").clone();
        let mut take = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => text,
            other => panic!("{name} is {other:?} in {event}"),
        };
        let (_, level, target) = (take("timestamp"), take("level"), take("target"));
        let message = take("message");
        format!("{level} {target}\n  {message}\n  {}\n", Value::Object(fields))
    };
    let text = events.iter().map(line).collect::<String>();
    text.replace(
        &format!("\"version\":{:?}", env!("CARGO_PKG_VERSION")),
        "\"version\":\"{version}\"",
    )
}

/// The addresses in a whole banner.
pub(super) fn addresses_in_banner(stdout: &str) -> Option<BTreeMap<String, String>> {
    let (facts, commands) = stdout.split_once("\ntry\n")?;
    let addresses: BTreeMap<String, String> = facts.lines().filter_map(address).collect();
    let last = match (addresses.contains_key("resp"), addresses.contains_key("http")) {
        (true, _) => " TG.CHECK ",
        (false, true) => "/metrics",
        (false, false) => "",
    };
    let is_whole = commands.is_empty() || commands.ends_with('\n');
    (is_whole && commands.contains(last)).then_some(addresses)
}

/// The protocol and the address in a line such as `  http      http://127.0.0.1:8080`.
fn address(line: &str) -> Option<(String, String)> {
    let (protocol, rest) = line.strip_prefix("  ")?.split_once(' ')?;
    let rest = rest.trim_start();
    let address = rest.split_once("://").map_or(rest, |(_, address)| address);
    let address = address.split([',', '/']).next()?;
    let is_known = ["http", "grpc", "resp", "health", "admin"].contains(&protocol);
    is_known.then(|| (protocol.to_owned(), address.to_owned()))
}

/// The addresses in the event of a log in JSON that names them.
pub(super) fn addresses_in_log(stderr: &str) -> Option<BTreeMap<String, String>> {
    let events = stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let listening = events.into_iter().find(event("INFO", "listening"))?;
    let address =
        |protocol: &str| Some((protocol.to_owned(), listening[protocol].as_str()?.to_owned()));
    Some(["http", "grpc", "resp", "health", "admin"].into_iter().filter_map(address).collect())
}

/// The lines that a pipe has delivered.
pub(super) struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Output {
        let text = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let line = line.expect("the output is text");
                kept.lock().expect("no reader panics").push_str(&format!("{line}\n"));
            }
        });
        Output { text, reader: Some(reader) }
    }

    pub(super) fn so_far(&self) -> String {
        self.text.lock().expect("no reader panics").clone()
    }

    /// The text once the pipe is closed.
    pub(super) fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panics");
        }
        self.so_far()
    }
}
