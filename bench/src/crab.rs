//! throttlecrab-server, a process of its own, started as its users start it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How it gets to where it is looked for; it needs `protoc`.
const INSTALL: &str = "cargo install throttlecrab-server --root target/peers";
const INSTALLED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/bin/throttlecrab-server");

/// A server that answers until it is dropped.
pub(crate) struct Crab {
    process: Child,
    pub(crate) http: SocketAddr,
    pub(crate) resp: SocketAddr,
}

impl Crab {
    /// Starts it, or says how to install it.
    pub(crate) fn start() -> Option<Crab> {
        let (http, resp) = (free_port(), free_port());
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.args(["--http", "--http-port", &http.port().to_string()]);
            command.args(["--redis", "--redis-port", &resp.port().to_string()]);
            // Room for the keys beforehand, and no line of log per request.
            command.args(["--store-capacity", "1000000", "--log-level", "error"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        };
        let Some(process) = start(INSTALLED).or_else(|| start("throttlecrab-server")) else {
            println!(
                "throttlecrab-server is left out, since it is not there; in bench/: {INSTALL}"
            );
            return None;
        };
        let crab = Crab { process, http, resp };
        let until = Instant::now() + Duration::from_secs(10);
        while [http, resp].iter().any(|address| TcpStream::connect(address).is_err()) {
            if Instant::now() > until {
                println!("throttlecrab-server is left out, since it does not listen");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(crab)
    }
}

impl Drop for Crab {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound")
}
