//! A real `redis-server` for tests: started on a free port, gone when the test is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ports::free_port;
use crate::wait::eventually;

/// A server of one's own on 127.0.0.1. Dropped, or when the test process ends in whatever way, it is
/// killed and its directory removed.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
    guard: Option<Child>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Panics
    /// Where there is no `redis-server`, or it does not start.
    pub fn start() -> RedisServer {
        RedisServer::with_options(&[])
    }

    /// The server that the tests of this process share. A test that kills it, changes its
    /// configuration or counts its commands starts one for itself.
    pub fn shared() -> &'static RedisServer {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(RedisServer::start)
    }

    /// Starts a server with more options, such as `["--requirepass", "secret"]`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn with_options(options: &[&str]) -> RedisServer {
        RedisServer::on_port(free_port(), options)
    }

    pub(crate) fn on_port(port: u16, options: &[&str]) -> RedisServer {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-redis-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = RedisServer { port, directory, options, guard: None };
        server.run();
        server
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to connect to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The path of its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Kills it without a warning; its directory stays.
    ///
    /// # Panics
    /// Where the process cannot be waited for.
    pub fn kill(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            if let Some(mut input) = guard.stdin.take() {
                // A guard that is gone needs not be told.
                let _ = input.write_all(b"keep");
            }
            guard.wait().expect("the guard of a server can be waited for");
        }
    }

    /// Kills it and starts it anew on the same port, with nothing in it.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn restart(&mut self) {
        self.kill();
        self.run();
    }

    fn run(&mut self) {
        let mut command = guarded("redis-server", &self.directory);
        command.args(["--port", &self.port.to_string()]);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(&self.directory);
        command.args(&self.options);
        self.guard = Some(command.spawn().expect("a shell can be started"));
        let what = format!(
            "an answer of redis-server on port {} (test.sh installs redis-server)",
            self.port
        );
        eventually(&what, || self.answers());
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 5];
        let asked = stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok();
        // One that wants a password is there, too.
        asked && (answer == *b"+PONG" || answer.starts_with(b"-NOAU"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A command that is killed when its input is closed, as it is when the test process ends. Its
/// directory is then removed, unless something was written to its input.
pub(crate) fn guarded(program: &str, directory: &Path) -> Command {
    // The shell outlives a test that is killed: its input then ends, and it kills the server.
    let script = r#"directory=$1; shift
"$@" >/dev/null 2>&1 & server=$!
keep=$(cat); kill -9 $server; wait
[ -n "$keep" ] || rm -rf "$directory""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(directory).arg(program);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
