//! What connections cost that nobody uses: a thousand of each transport in a process of its own,
//! before they have said anything and after each was asked once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use tollgate::{Gate, Limit, Policy, Rule};

use crate::bytes::resident;
use crate::grpc;
use crate::serving::serve;

const CONNECTIONS: usize = 1000;
const MEGABYTE: f64 = 1e6;
const GOAL: f64 = 20.0;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Transport {
    Http,
    Grpc,
    Resp,
}

/// Runs each in a process of its own, which may have as many files open as it needs.
pub(crate) fn run() {
    let program = std::env::current_exe().expect("this program is somewhere");
    println!(
        "what {CONNECTIONS} idle connections take up, before they have said anything and asked once"
    );
    for transport in Transport::value_variants() {
        let name = format!("{transport:?}").to_lowercase();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 4096; exec \"$0\" idle-of \"$1\""]).arg(&program).arg(name);
        if !shell.status().is_ok_and(|status| status.success()) {
            println!("  {transport:?}: no figure; are 4096 open files allowed? See ulimit -Hn");
        }
    }
}

/// What the process of its own does.
pub(crate) fn one(transport: Transport) {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(1000));
    let gate = Gate::new(Policy::new().rule(rule)).expect("the policy is right");
    let served = serve(|server| server.resp_threads(1), gate);
    let address = match transport {
        Transport::Http => served.http,
        Transport::Grpc => served.grpc,
        Transport::Resp => served.resp,
    };
    let address = address.expect("it listens");
    // What is there once however many connections there are.
    let connect = || TcpStream::connect(address).expect("it listens");
    let mut first = connect();
    ask(transport, &mut first);
    let before = resident().unwrap_or_default();
    let megabytes = || {
        std::thread::sleep(Duration::from_millis(500));
        (resident().unwrap_or_default() - before) as f64 / MEGABYTE
    };
    let mut idle: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
    let silent = megabytes();
    idle.iter_mut().for_each(|stream| ask(transport, stream));
    let asked = megabytes();
    let reached = if asked <= GOAL { "reached" } else { "MISSED" };
    println!("  {transport:?}: {silent:>6.1} MB, {asked:>6.1} MB, goal {GOAL}: {reached}");
    drop((first, idle));
}

/// Asks, and reads the answer.
fn ask(transport: Transport, stream: &mut TcpStream) {
    match transport {
        Transport::Http => {
            let body = "{\"attributes\": {\"user\": \"1\"}}";
            let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-type: application/json";
            let ask = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(ask.as_bytes()).expect("it reads");
            // An answer is one segment here.
            let mut answer = [0; 4096];
            let read = stream.read(&mut answer).expect("it answers");
            assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
        }
        Transport::Grpc => {
            stream.write_all(&grpc::raw_call()).expect("it reads");
            until_end_of_stream(stream);
        }
        Transport::Resp => {
            stream.write_all(b"THROTTLE a 10000 10000 3600\r\n").expect("it reads");
            let mut answer = [0; 64];
            let read = stream.read(&mut answer).expect("it answers");
            assert!(answer[..read].starts_with(b"*5\r\n:1\r\n"), "{}", answer.escape_ascii());
        }
    }
}

/// Reads frames of HTTP/2 until one ends the first stream.
fn until_end_of_stream(stream: &mut TcpStream) {
    const ENDS: u8 = 1;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("it answers");
        let [high, middle, low, kind, flags, _, _, _, number] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let mut payload = Read::take(&mut *stream, u64::from(length));
        std::io::copy(&mut payload, &mut std::io::sink()).expect("it answers");
        // Data or headers of the first stream.
        if kind <= 1 && number == 1 && flags & ENDS != 0 {
            return;
        }
    }
}
