//! The client's address: the peer's, or what proxies that are trusted say it is.

mod forwarded;
mod peer;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{Extensions, HeaderMap};
use ipnet::{IpNet, Ipv4Net};

use crate::error::LayerError;
use forwarded::Hops;
pub use peer::PeerAddr;

/// Whose address counts as the client's.
///
/// Without trusted proxies it is the peer's, whatever headers say. With them, it is the rightmost
/// address of one header that is not theirs: each proxy adds the address it was called from, so
/// that everything to the left of the first one that is not trusted may be made up.
///
/// ```
/// use tollgate_tower::ClientIp;
///
/// let direct = ClientIp::peer();
/// let behind_a_proxy = ClientIp::x_forwarded_for(["10.0.0.0/8", "2001:db8::/32"])?;
/// # Ok::<(), tollgate_tower::LayerError>(())
/// ```
///
/// An IPv4 address that is written in IPv6 is the IPv4 address. The part of an address that is
/// counted belongs to the rule's key ([`KeyAttribute::address`](tollgate::KeyAttribute::address)), or for a
/// limiter to the layer ([`address_prefix`](crate::GateLayerBuilder::address_prefix)).
#[derive(Clone)]
pub struct ClientIp {
    trusted: Box<[IpNet]>,
    believed: Believed,
    peer: Option<PeerFn>,
}

type PeerFn = Arc<dyn Fn(&Extensions) -> Option<SocketAddr> + Send + Sync>;

/// Which header trusted proxies write to. Only one is believed: a proxy that sets one of them
/// passes the other through as the client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Believed {
    None,
    XForwardedFor,
    Forwarded,
}

impl ClientIp {
    /// The address of the peer: for servers that clients reach directly.
    pub fn peer() -> ClientIp {
        ClientIp { trusted: Box::default(), believed: Believed::None, peer: None }
    }

    /// The rightmost address of `X-Forwarded-For` that is not in one of the trusted networks.
    ///
    /// # Errors
    /// Where a network is none, or is everybody's.
    pub fn x_forwarded_for<N: AsRef<str>>(
        trusted: impl IntoIterator<Item = N>,
    ) -> Result<ClientIp, LayerError> {
        Ok(ClientIp {
            trusted: networks(trusted)?,
            believed: Believed::XForwardedFor,
            ..ClientIp::peer()
        })
    }

    /// The rightmost address of `Forwarded` (RFC 7239) that is not in one of the trusted networks.
    ///
    /// # Errors
    /// Where a network is none, or is everybody's.
    pub fn forwarded<N: AsRef<str>>(
        trusted: impl IntoIterator<Item = N>,
    ) -> Result<ClientIp, LayerError> {
        Ok(ClientIp {
            trusted: networks(trusted)?,
            believed: Believed::Forwarded,
            ..ClientIp::peer()
        })
    }

    /// Where the peer's address is found, for servers that put it elsewhere than
    /// [`PeerAddr`], axum's `ConnectInfo` and tonic's `TcpConnectInfo` do.
    #[must_use]
    pub fn peer_from(
        mut self,
        peer: impl Fn(&Extensions) -> Option<SocketAddr> + Send + Sync + 'static,
    ) -> ClientIp {
        self.peer = Some(Arc::new(peer));
        self
    }

    /// The client's address; `None` where the peer's is not known.
    #[inline]
    pub(crate) fn of_request(
        &self,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        let peer = match &self.peer {
            Some(peer) => peer(extensions)?.ip(),
            None => peer::address(extensions)?.ip(),
        };
        Some(self.of(peer, headers))
    }

    /// [`of_request`](Self::of_request) of most requests to most servers, where there is nothing
    /// to find out: the address of an IPv4 peer, read where it lies.
    #[inline]
    pub(crate) fn of_direct(&self, extensions: &Extensions) -> Option<Ipv4Addr> {
        if self.peer.is_some() || self.believed != Believed::None {
            return None;
        }
        match peer::address(extensions)? {
            SocketAddr::V4(peer) => Some(*peer.ip()),
            SocketAddr::V6(_) => None,
        }
    }

    /// The client's address, of a request that came from `peer` with these headers.
    pub fn of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        match self.believed {
            Believed::None => peer,
            _ => self.behind(peer, headers),
        }
    }

    /// Whether the headers name a client and are not believed, since `peer` is no trusted proxy: a
    /// proxy that was not named, or a client that makes something up.
    pub fn ignores(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let header = match self.believed {
            Believed::None => return false,
            Believed::XForwardedFor => "x-forwarded-for",
            Believed::Forwarded => "forwarded",
        };
        headers.contains_key(header) && !self.trusts(peer.to_canonical())
    }

    /// Who is behind the proxies that are trusted.
    fn behind(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut hop = peer;
        if self.trusts(hop) {
            for named in Hops::new(self.believed, headers) {
                // What cannot be understood was not written by a proxy that does its work: the
                // last one that can be trusted stands for whoever is behind it.
                let Some(named) = named else { break };
                hop = named.to_canonical();
                if !self.trusts(hop) {
                    break;
                }
            }
        }
        hop
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

impl std::fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIp")
            .field("trusted", &self.trusted)
            .field("believed", &self.believed)
            .finish_non_exhaustive()
    }
}

fn networks<N: AsRef<str>>(texts: impl IntoIterator<Item = N>) -> Result<Box<[IpNet]>, LayerError> {
    texts.into_iter().map(|text| network(text.as_ref())).collect()
}

fn network(text: &str) -> Result<IpNet, LayerError> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse().or(address).map_err(|_| LayerError::Network(text.to_owned()))?;
    match undressed(network) {
        everybody if everybody.prefix_len() == 0 => {
            Err(LayerError::TrustsEverybody(text.to_owned()))
        }
        network => Ok(network),
    }
}

/// A network of IPv4 in IPv6 clothes as what it is, since addresses are compared so.
fn undressed(network: IpNet) -> IpNet {
    let bare = network.prefix_len().checked_sub(128 - 32);
    match (network.addr().to_canonical(), bare) {
        (IpAddr::V4(address), Some(bits)) if network.max_prefix_len() == 128 => {
            Ipv4Net::new(address, bits).map_or(network, IpNet::V4)
        }
        _ => network,
    }
}
