//! What connections cost that nobody uses: a thousand of each transport to the binary that people run,
//! before they have said anything and after each was asked once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::bytes::resident_of;
use crate::crab::free_port;
use crate::grpc;

const CONNECTIONS: usize = 1000;
const MEGABYTE: f64 = 1e6;
const GOAL: f64 = 20.0;
const BINARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/tollgate");
const POLICY: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"1000/min\"\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

/// A server of its own, of one transport alone, until it is dropped.
struct Served {
    process: Child,
    address: SocketAddr,
}

impl Served {
    /// Starts it, or says what is missing.
    fn start(transport: Transport) -> Option<Served> {
        let address = free_port();
        let policy = std::env::temp_dir().join(format!("tollgate-idle-{}.toml", address.port()));
        std::fs::write(&policy, POLICY).expect("temporary files can be written");
        let mut command = Command::new(BINARY);
        command.args(["serve", "--resp-threads", "1", "--policy"]).arg(&policy);
        for (flag, of) in
            [("--http", Transport::Http), ("--grpc", Transport::Grpc), ("--resp", Transport::Resp)]
        {
            let is_it = transport == of;
            command.arg(flag).arg(if is_it { address.to_string() } else { "off".to_owned() });
        }
        let Ok(process) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            println!(
                "  {transport:?}: no figure; cargo build --release in the folder above makes the server"
            );
            return None;
        };
        let served = Served { process, address };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "the server listens");
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_file(policy);
        Some(served)
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    fn resident(&self) -> i64 {
        resident_of(&self.process.id().to_string()).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the process of its own does.
pub(crate) fn one(transport: Transport) {
    let Some(served) = Served::start(transport) else { return };
    // What is there once however many connections there are.
    let mut first = served.connect();
    ask(transport, &mut first);
    let before = served.resident();
    let megabytes = || {
        std::thread::sleep(Duration::from_millis(500));
        (served.resident() - before) as f64 / MEGABYTE
    };
    let mut idle: Vec<_> = (0..CONNECTIONS).map(|_| served.connect()).collect();
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
