//! Ports for servers that cannot choose one themselves.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port tried. Below the range from which Linux takes the local ports of outgoing
/// connections, so that no connection occupies a port while its server restarts. A Cluster node
/// also listens on its port plus 10,000, which is below that range too.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// A port of 127.0.0.1 that no process listens on now and that no other call in this process
/// returned.
///
/// # Panics
/// If every port is taken.
pub fn free_port() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time start far from each other.
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    let start = u16::try_from(start).expect("a remainder of COUNT fits");
    (0..COUNT)
        .map(|_| CALLS.fetch_add(1, Ordering::Relaxed) % COUNT)
        .map(|call| FIRST + (start + call) % COUNT)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a port is free")
}
