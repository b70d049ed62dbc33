//! The address of who is at the other end of the connection.

use std::net::SocketAddr;

use http::Extensions;

/// The peer's address, as an extension of the request: for servers on hyper, which put it there
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The peer's address, from whichever server has put it there.
#[inline]
pub(super) fn address(extensions: &Extensions) -> Option<&SocketAddr> {
    if let Some(PeerAddr(peer)) = extensions.get() {
        return Some(peer);
    }
    of_axum(extensions).or_else(|| of_tonic(extensions))
}

#[cfg(feature = "axum")]
fn of_axum(extensions: &Extensions) -> Option<&SocketAddr> {
    extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|peer| &peer.0)
}

#[cfg(not(feature = "axum"))]
fn of_axum(_: &Extensions) -> Option<&SocketAddr> {
    None
}

#[cfg(feature = "tonic")]
fn of_tonic(extensions: &Extensions) -> Option<&SocketAddr> {
    extensions.get::<tonic::transport::server::TcpConnectInfo>()?.remote_addr.as_ref()
}

#[cfg(not(feature = "tonic"))]
fn of_tonic(_: &Extensions) -> Option<&SocketAddr> {
    None
}
