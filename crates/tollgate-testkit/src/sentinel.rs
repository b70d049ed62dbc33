//! A real Redis Sentinel for tests.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Child;

use crate::ports::free_port;
use crate::redis::guarded;
use crate::wait::eventually;

/// A Sentinel that decides alone, a second after a server has gone. Gone when the test is.
#[derive(Debug)]
pub struct RedisSentinel {
    port: u16,
    directory: PathBuf,
    guard: Child,
}

impl RedisSentinel {
    /// Watches the server on `port` and its replicas under the name `mymaster`.
    ///
    /// # Panics
    /// Where there is no `redis-server`, or it does not start.
    pub fn start(port: u16) -> RedisSentinel {
        RedisSentinel::with_lines(port, &[])
    }

    /// The same with more lines of configuration, such as `["requirepass secret"]`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn with_lines(port: u16, more: &[&str]) -> RedisSentinel {
        let own = free_port();
        let name = format!("tollgate-sentinel-{}-{own}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let file = directory.join("sentinel.conf");
        let mut lines = vec![
            format!("port {own}"),
            "bind 127.0.0.1".to_owned(),
            format!("sentinel monitor mymaster 127.0.0.1 {port} 1"),
            "sentinel down-after-milliseconds mymaster 1000".to_owned(),
            // Who fails tries again after twice this.
            "sentinel failover-timeout mymaster 2000".to_owned(),
        ];
        lines.extend(more.iter().map(|line| (*line).to_owned()));
        std::fs::write(&file, lines.join("\n")).expect("the directory can be written");
        let mut command = guarded("redis-server", &directory);
        command.arg(&file).arg("--sentinel").arg("--dir").arg(&directory);
        let guard = command.spawn().expect("a shell can be started");
        eventually("the sentinel to listen", || TcpStream::connect(("127.0.0.1", own)));
        RedisSentinel { port: own, directory, guard }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to connect to for what it watches.
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/mymaster", self.port)
    }
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
