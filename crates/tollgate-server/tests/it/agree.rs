//! One state: the same key is the same key over every transport, decision by decision.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use prost_types::value::Kind;
use tollgate::{Gate, ManualClock, MemoryStore, Request};
use tollgate_server::Stopped;
use tollgate_testkit::DEADLINE;

use crate::grpc::support::{Code, RateLimitRequest, RlsClient, descriptor, header, request, run};
use crate::support::{POLICY, TestServer, policy};

/// What a transport says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    allowed: bool,
    /// What decided.
    rule: Option<String>,
    remaining: Option<u64>,
    /// In seconds, rounded up; `None` where it never will be.
    retry: Option<u64>,
    reset: u64,
}

impl Told {
    /// What can never be: each transport has its own word for it.
    fn wrong() -> Told {
        Told::default()
    }
}

/// Keys of two values, which must not run into each other on any way in.
const PAIRS: &str = r#"
[[rule]]
name = "pair"
key = ["a", "b"]
limit = "3/min"
"#;

/// A path, which clients spell as they like.
const PATHS: &str = r#"
[[rule]]
name = "login"
match = { path = "/login" }
key = ["path", "ip"]
limit = "3/min"
"#;

/// A small random number generator, so that a run can be repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[usize::try_from(self.below(words.len() as u64)).unwrap()]
    }
}

/// A connection of the Redis protocol that stays open.
struct Resp(BufReader<TcpStream>);

impl Resp {
    fn connect(server: &TestServer) -> Resp {
        let stream = TcpStream::connect(server.resp).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Resp(BufReader::new(stream))
    }

    fn check(&mut self, attributes: &[(&str, &str)], cost: u64) -> Told {
        let cost = cost.to_string();
        let mut words = vec!["TG.CHECK", "COST", &cost];
        attributes.iter().for_each(|(name, value)| words.extend([*name, *value]));
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
        let head = self.line();
        if head.starts_with("-ERR") {
            return Told::wrong();
        }
        assert_eq!(head, "*20");
        let values: Vec<(String, String)> = (0..10).map(|_| (self.bulk(), self.bulk())).collect();
        let of = |name: &str| values.iter().find(|(of, _)| of == name).unwrap().1.clone();
        let retry = of("retry_after").parse::<i64>().unwrap();
        Told {
            allowed: of("allowed") == "1",
            rule: Some(of("rule")).filter(|rule| !rule.is_empty()),
            remaining: of("remaining").parse().ok(),
            retry: u64::try_from(retry).ok(),
            reset: of("reset_after").parse().unwrap(),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A bulk string, a number, or nothing.
    fn bulk(&mut self) -> String {
        let head = self.line();
        match head.split_at(1) {
            ("$", "-1") => String::new(),
            ("$", length) => {
                let mut bytes = vec![0; length.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes).unwrap().trim_end().to_owned()
            }
            (_, number) => number.to_owned(),
        }
    }
}

fn over_grpc(rls: &RlsClient, attributes: &[(&str, &str)], cost: u64) -> Told {
    let hits_addend = u32::try_from(cost).unwrap();
    let asked = RateLimitRequest { hits_addend, ..request([descriptor(attributes)]) };
    let told = run(rls.call(asked)).unwrap();
    let allowed = told.overall_code() == Code::Ok;
    let retry = header(&told, "retry-after").map(|value| value.parse().unwrap());
    let metadata = told.dynamic_metadata.as_ref();
    if metadata.is_some_and(|metadata| metadata.fields.contains_key("shadow")) {
        // Only Envoy's response has the figures of rules that do not decide.
        return Told { allowed, retry: Some(0), ..Told::default() };
    }
    let rule = metadata.and_then(|metadata| match &metadata.fields["rule"].kind {
        Some(Kind::StringValue(rule)) => Some(rule.clone()),
        _ => None,
    });
    let status = &told.statuses[0];
    // Without a rule it is 0, as in the reference server.
    let is_unlimited = allowed && status.current_limit.is_none();
    let remaining = Some(status.limit_remaining).filter(|units| *units < u32::MAX && !is_unlimited);
    Told {
        allowed,
        rule,
        remaining: remaining.map(u64::from),
        retry: if allowed { Some(0) } else { retry },
        reset: status.duration_until_reset.map_or(0, |reset| reset.seconds.unsigned_abs()),
    }
}

fn over_http(server: &TestServer, attributes: &[(&str, &str)], cost: u64) -> Told {
    let attributes: serde_json::Map<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let body = serde_json::json!({ "attributes": attributes, "cost": cost }).to_string();
    let told = server.post("/v1/check", &body).json();
    if told["reason"] == "error" {
        return Told::wrong();
    }
    Told {
        allowed: told["allowed"] == true,
        rule: told["rule"].as_str().map(str::to_owned),
        remaining: told["remaining"].as_u64(),
        retry: told["retry_after_ms"].as_u64().map(|millis| millis.div_ceil(1000)),
        reset: told["reset_after_ms"].as_u64().unwrap().div_ceil(1000),
    }
}

/// The library alone.
fn alone(gate: &Gate, attributes: &[(&str, &str)], cost: u64) -> Told {
    let request: Request<'_> = attributes.iter().copied().collect();
    let ruling = gate.check(&request.cost(cost));
    if ruling.error().is_some() {
        return Told::wrong();
    }
    let seconds = |wait: Duration| u64::try_from(wait.as_nanos().div_ceil(1_000_000_000)).unwrap();
    Told {
        allowed: ruling.is_allowed(),
        rule: ruling.decided_by_name().map(str::to_owned),
        remaining: Some(ruling.remaining()).filter(|units| *units < u64::MAX),
        retry: ruling.retry_after().map(seconds),
        reset: seconds(ruling.reset_after()),
    }
}

/// What somebody is asked about.
fn attributes(random: &mut Random) -> Vec<(&'static str, &'static str)> {
    let mut attributes = Vec::new();
    let awkward = ["", "x", "x:y", "y", "y:x", "a b", "\u{fc}\u{1f980}", "\"\\\u{1}"];
    for (name, values) in [
        ("user", ["ana", "ben", "eve", "mallory"].as_slice()),
        ("ip", &["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "2001:db8::1", "[2001:DB8::2]:80"]),
        ("path", &["/login", "//login", "/%6cogin", "/x/../login?a=1", "/login/"]),
        ("watched", &["a", "b"]),
        ("a", &awkward),
        ("b", &awkward),
    ] {
        if random.below(3) > 0 {
            attributes.push((name, random.one_of(values)));
        }
    }
    attributes
}

#[test]
fn all_transports_agree() {
    let server = TestServer::start();
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let policy = policy(&format!("{POLICY}{PAIRS}{PATHS}"));
    server.gate().replace(policy.clone()).unwrap();
    let gate = Gate::with_store(store, policy).unwrap();
    let mut resp = Resp::connect(&server);
    let rls = RlsClient::connect(server.grpc);
    let mut random = Random(0x7011_6a7e);
    let (mut allowed, mut denied) = (0, 0);
    for turn in 0..3000 {
        let attributes = attributes(&mut random);
        // Some cost more than a limit ever has.
        let cost = 1 + random.below(if turn % 50 == 0 { 20 } else { 2 });
        let expected = alone(&gate, &attributes, cost);
        let told = match random.below(3) {
            0 => over_http(&server, &attributes, cost),
            // A descriptor is about somebody.
            1 if !attributes.is_empty() => {
                let told = over_grpc(&rls, &attributes, cost);
                // Envoy has no other word for what is wrong than that it never passes.
                let never = !told.allowed && told.retry.is_none();
                if never && expected == Told::wrong() { Told::wrong() } else { told }
            }
            _ => resp.check(&attributes, cost),
        };
        assert_eq!(told, expected, "turn {turn}: {attributes:?} for {cost}");
        *(if told.allowed { &mut allowed } else { &mut denied }) += 1;
        let step = Duration::from_millis(random.below(3000));
        clock.advance(step);
        server.clock.advance(step);
    }
    assert!(allowed > 300 && denied > 300, "{allowed} allowed and {denied} denied say little");
}

/// A request over each interface, with the path and the address in two attributes.
fn ask_over_each(server: &TestServer, path: &str, ip: &str) -> [Option<String>; 4] {
    let attributes = [("path", path), ("ip", ip)];
    let mut resp = Resp::connect(server);
    let rls = RlsClient::connect(server.grpc);
    let headers = [format!("X-Forwarded-For: {ip}"), format!("X-Forwarded-Uri: {path}")];
    let headers = [headers[0].as_str(), headers[1].as_str()];
    let proxy = server.ask("GET /v1/authorize", &headers);
    let of_proxy = match proxy.status {
        200 => None,
        _ => Some(proxy.json()["violated-policies"][0].as_str().unwrap_or("list").to_owned()),
    };
    let rule = |told: Told| if told.allowed { None } else { told.rule };
    [
        of_proxy,
        rule(over_http(server, &attributes, 1)),
        rule(over_grpc(&rls, &attributes, 1)),
        rule(resp.check(&attributes, 1)),
    ]
}

#[test]
fn paths_and_addresses_have_one_form_on_every_interface() {
    let text = r#"
[[deny]]
name = "list"
match = { ip = "2001:db8::bad" }

[[rule]]
name = "login"
match = { path = "/login" }
key = ["path"]
limit = "8/day"

[[rule]]
name = "address"
match = { path = "/search" }
key = ["ip"]
limit = "4/day"
"#;
    let server = TestServer::with_policy(policy(text), |server| server);
    let none = || [None, None, None, None];
    let all = |rule: &str| [(); 4].map(|()| Some(rule.to_owned()));
    assert_eq!(ask_over_each(&server, "/%6cogin", "203.0.113.1"), none());
    assert_eq!(ask_over_each(&server, "/x/../login?a=1", "203.0.113.2"), none());
    for spelling in ["/login", "//login", "/./login", "/x/%2e%2e/login", "/../login", "/%6Cogin"] {
        assert_eq!(ask_over_each(&server, spelling, "203.0.113.3"), all("login"), "{spelling}");
    }
    assert_eq!(ask_over_each(&server, "/search", "2001:db8::1"), none());
    assert_eq!(ask_over_each(&server, "/search", "[2001:DB8::2]:80"), all("address"));
    assert_eq!(ask_over_each(&server, "/search", "2001:db8:0:1::1"), none());
    assert_eq!(ask_over_each(&server, "/else", "2001:DB8::BAD"), all("list"));
    assert_eq!(ask_over_each(&server, "/else", "2001:db8::baa"), none());
}

#[test]
fn an_attribute_that_is_there_twice_is_refused_and_takes_nothing() {
    let server = TestServer::start();
    let twice = [("user", "ana"), ("user", "ben")];
    let body = r#"{"attributes": {"user": "ana", "user": "ben"}}"#;
    server.post("/v1/check", body).problem(400);
    let mut resp = Resp::connect(&server);
    assert_eq!(resp.check(&twice, 1), Told::wrong());
    for user in ["ana", "ben"] {
        assert_eq!(over_http(&server, &[("user", user)], 1).remaining, Some(9), "{user}");
    }
    // A descriptor may have an entry twice, and its second is an attribute of its own.
    let told = over_grpc(&RlsClient::connect(server.grpc), &twice, 1);
    assert_eq!((told.rule.as_deref(), told.remaining), (Some("per-user"), Some(8)));
    assert_eq!(over_http(&server, &[("user", "ben")], 1).remaining, Some(8));
}

#[test]
fn all_ports_stop_in_order() {
    let mut server = TestServer::start();
    let mut resp = TcpStream::connect(server.resp).unwrap();
    resp.set_read_timeout(Some(DEADLINE)).unwrap();
    resp.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    resp.read_exact(&mut pong).unwrap();
    let http = server.connect();
    assert_eq!(server.stopped(), Stopped::InOrder);
    assert_eq!(resp.read(&mut pong).unwrap(), 0, "an idle connection was left open");
    assert!(TcpStream::connect(server.resp).is_err(), "it still listens");
    drop(http);
}
