//! What connections take up that nobody uses. In a file of its own: other tests would share its memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

#[path = "it/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use support::TestServer;
use tollgate_testkit::DEADLINE;

/// Both ends of all three are within 1024 open files; `bench` measures a thousand with an optimised build.
const CONNECTIONS: usize = 150;

const HTTP: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
const GRPC: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const RESP: &[u8] = b"PING\r\n";

/// A connection that was answered once.
fn used(address: SocketAddr, ask: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(ask).unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    stream
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn connections_that_are_idle_take_up_little() {
    let server = TestServer::start();
    // So that no transport uses again what another has given back.
    let mut kept = Vec::new();
    // The bytes that each may take: half as much again as an optimised build does. Of gRPC's, 28
    // kilobytes are h2's own.
    let all = [
        ("http", server.address, HTTP, 30_000),
        ("grpc", server.grpc, GRPC, 60_000),
        ("resp", server.resp, RESP, 8_000),
    ];
    for (name, address, ask, most) in all {
        kept.push(used(address, ask));
        kept.reserve(CONNECTIONS);
        let before = resident();
        kept.extend((0..CONNECTIONS).map(|_| used(address, ask)));
        let each = resident().saturating_sub(before) / CONNECTIONS;
        assert!(each <= most, "{name}: {each} bytes each");
    }
}
