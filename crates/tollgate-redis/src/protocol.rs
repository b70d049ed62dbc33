//! Whether a server that cannot be connected to speaks TLS and the URL does not, or the reverse.

use redis::{ConnectionAddr, ConnectionInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounds::PROTOCOL_TEST;
use crate::error::StoreError;

/// A record of TLS with a handshake that no server accepts: one that speaks TLS answers with an alert.
/// Redis resets a connection with anything else on it.
const BROKEN_HELLO: [u8; 10] = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];

/// The first bytes of an alert and of a handshake of TLS.
const TLS: [u8; 2] = [0x15, 0x16];

/// The first bytes of an answer of Redis, a text or an error.
const PLAIN: [u8; 2] = [b'+', b'-'];

/// What is wrong with a URL that says TLS to a server without it, or the reverse. `None` if neither is so,
/// or if the server does not tell.
pub(crate) async fn mismatch(info: &ConnectionInfo, is_node: bool, at: &str) -> Option<StoreError> {
    let (host, port, by_tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host, *port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host, *port, true),
        _ => return None,
    };
    let kind = if is_node { "+cluster" } else { "" };
    let (question, first, wrong): (&[u8], _, _) = if by_tls {
        let wrong = format!("does not speak tls, write redis{kind}:// instead of rediss{kind}://");
        (b"PING\r\n", PLAIN, wrong)
    } else {
        let wrong = format!("speaks tls, write rediss{kind}:// instead of redis{kind}://");
        (&BROKEN_HELLO, TLS, wrong)
    };
    let answer = timeout(PROTOCOL_TEST, first_byte(host, port, question)).await.ok().flatten()?;
    first.contains(&answer).then(|| StoreError::Incompatible(format!("{at} {wrong}")))
}

/// The first byte that a server answers.
async fn first_byte(host: &str, port: u16, question: &[u8]) -> Option<u8> {
    let mut stream = TcpStream::connect((host, port)).await.ok()?;
    stream.write_all(question).await.ok()?;
    stream.read_u8().await.ok()
}
