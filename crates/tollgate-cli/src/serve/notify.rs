//! Telling a service manager such as systemd how things are: `sd_notify`, which is a datagram to
//! the socket named in `NOTIFY_SOCKET`.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use std::os::unix::net::UnixDatagram;

/// Whoever wants to know, if anybody does.
#[derive(Debug, Default)]
pub(super) struct Notify {
    #[cfg(unix)]
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the process lives.
    every: Option<Duration>,
}

/// Tells that the process lives until it is dropped.
#[must_use = "dropping it ends it"]
pub(super) struct Alive(Option<tokio::task::JoinHandle<()>>);

impl Notify {
    /// Says that it is ready, and from now on that it lives.
    pub(super) fn ready(&self) -> Alive {
        self.send("READY=1");
        Alive(self.every.and_then(|every| self.repeat(every)))
    }

    /// Says that it is about to end.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }
}

#[cfg(unix)]
impl Notify {
    /// As the environment says.
    pub(super) fn from_environment() -> io::Result<Notify> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Notify::default());
        };
        let socket = connected(name.as_encoded_bytes())?;
        // Who is slow to listen must not hold the server up.
        socket.set_nonblocking(true)?;
        Ok(Notify { socket: Some(socket), every: watchdog() })
    }

    fn send(&self, state: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(state.as_bytes())
        {
            tracing::warn!(%error, state, "cannot notify the service manager");
        }
    }

    /// In a task, so that it stops when the tasks do.
    fn repeat(&self, every: Duration) -> Option<tokio::task::JoinHandle<()>> {
        let socket = self.socket.as_ref()?.try_clone().ok()?;
        let notify = Notify { socket: Some(socket), every: None };
        Some(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            loop {
                ticks.tick().await;
                notify.send("WATCHDOG=1");
            }
        }))
    }
}

/// A socket whose other end is there; a name that begins with `@` is not in the file system.
#[cfg(unix)]
fn connected(name: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        socket.connect_addr(&address)?;
        return Ok(socket);
    }
    use std::os::unix::ffi::OsStrExt;
    socket.connect(std::ffi::OsStr::from_bytes(name))?;
    Ok(socket)
}

/// Half of the time after which the process would be taken for dead, if it is meant.
#[cfg(unix)]
fn watchdog() -> Option<Duration> {
    let variable = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = variable("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
    let micros = variable("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0)?;
    Some(Duration::from_micros(micros / 2).max(Duration::from_millis(1)))
}

#[cfg(not(unix))]
impl Notify {
    pub(super) fn from_environment() -> io::Result<Notify> {
        Ok(Notify::default())
    }

    fn send(&self, _state: &str) {}

    fn repeat(&self, _every: Duration) -> Option<tokio::task::JoinHandle<()>> {
        None
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
