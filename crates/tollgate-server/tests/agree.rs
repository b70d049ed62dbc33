//! One state: the same key is the same key over every transport, decision by decision.
#![allow(clippy::unwrap_used, reason = "of tests")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use support::Running;
use tollgate::{Gate, ManualClock, MemoryStore, Policy, Request};
use tollgate_server::Stopped;

/// What a transport says: whether it is allowed, what remains, after how many seconds to try again.
type Told = (bool, Option<u64>, Option<u64>);

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
    fn check(&mut self, attributes: &[(&str, &str)], cost: u64) -> Told {
        let mut command = format!("TG.CHECK COST {cost}");
        attributes.iter().for_each(|(name, value)| command += &format!(" {name} {value}"));
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let head = self.line();
        if head.starts_with("-ERR") {
            return (false, None, None);
        }
        assert_eq!(head, "*16");
        let values: Vec<(String, String)> = (0..8).map(|_| (self.bulk(), self.bulk())).collect();
        let of = |name: &str| values.iter().find(|(of, _)| of == name).unwrap().1.clone();
        let retry = of("retry_after").parse::<i64>().unwrap();
        (of("allowed") == "1", of("remaining").parse().ok(), u64::try_from(retry).ok())
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

fn over_http(server: &Running, attributes: &[(&str, &str)], cost: u64) -> Told {
    let attributes: serde_json::Map<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let body = serde_json::json!({ "attributes": attributes, "cost": cost }).to_string();
    let told = server.post("/v1/check", &body).json();
    if told["reason"] == "error" {
        return (false, None, None);
    }
    let retry = told["retry_after_ms"].as_u64().map(|millis| millis.div_ceil(1000));
    (told["allowed"] == true, told["remaining"].as_u64(), retry)
}

/// The library alone.
fn alone(gate: &Gate, attributes: &[(&str, &str)], cost: u64) -> Told {
    let request: Request<'_> = attributes.iter().copied().collect();
    let ruling = gate.check(&request.cost(cost));
    if ruling.error().is_some() {
        return (false, None, None);
    }
    let remaining = Some(ruling.remaining()).filter(|units| *units < u64::MAX);
    let seconds = |wait: Duration| wait.as_nanos().div_ceil(1_000_000_000);
    let retry = ruling.retry_after().map(|wait| u64::try_from(seconds(wait)).unwrap());
    (ruling.is_allowed(), remaining, retry)
}

#[test]
fn all_transports_agree() {
    let server = Running::new();
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let policy = Policy::from_toml("test.toml", support::POLICY).unwrap().policy;
    let gate = Gate::on(store, policy).unwrap();
    let stream = TcpStream::connect(server.resp.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut resp = Resp(BufReader::new(stream));
    let mut random = Random(0x7011_6a7e);
    let (mut allowed, mut denied) = (0, 0);
    for turn in 0..2000 {
        let mut attributes = Vec::new();
        for (name, values) in [
            ("user", ["ana", "ben", "eve", "mallory"].as_slice()),
            ("ip", &["10.0.0.1", "10.0.0.2", "2001:db8::1"]),
            ("watched", &["a", "b"]),
        ] {
            if random.below(3) > 0 {
                attributes.push((name, random.one_of(values)));
            }
        }
        // Some cost more than a limit ever has.
        let cost = 1 + random.below(if turn % 50 == 0 { 20 } else { 2 });
        let expected = alone(&gate, &attributes, cost);
        let told = match random.below(2) {
            0 => over_http(&server, &attributes, cost),
            _ => resp.check(&attributes, cost),
        };
        assert_eq!(told, expected, "turn {turn}: {attributes:?} for {cost}");
        if told.0 {
            allowed += 1
        } else {
            denied += 1
        }
        let step = Duration::from_millis(random.below(3000));
        clock.advance(step);
        server.clock.advance(step);
    }
    assert!(allowed > 200 && denied > 200, "{allowed} allowed and {denied} denied say little");
}

#[test]
fn all_ports_stop_in_order() {
    let mut server = Running::new();
    let mut resp = TcpStream::connect(server.resp.unwrap()).unwrap();
    resp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    resp.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    resp.read_exact(&mut pong).unwrap();
    let http = server.connect();
    assert_eq!(server.stopped(), Stopped::InOrder);
    assert_eq!(resp.read(&mut pong).unwrap(), 0, "an idle connection was left open");
    assert!(TcpStream::connect(server.resp.unwrap()).is_err(), "it still listens");
    drop(http);
}
