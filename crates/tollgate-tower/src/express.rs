//! The short way of most layers: a limiter that counts by the client's address, and nothing to skip,
//! to hold or to tell anybody but the client. Decided when the layer is built.
//!
//! It leads where the long way does: what is refused, or has to wait, goes on there.

use std::net::{IpAddr, Ipv4Addr};

use http::Request;
use tollgate::{AddressPrefix, Decision, HeaderStyle, Limiter};

use crate::attribute::Attribute;
use crate::client_ip::ClientIp;
use crate::door::Local;
use crate::fields::Told;
use crate::settings::Settings;

/// What the short way needs to know.
pub(crate) struct Express {
    limiter: Limiter,
    client_ip: ClientIp,
    address_prefix: AddressPrefix,
    units: u64,
    style: HeaderStyle,
}

/// How a request gets on by the short way.
pub(crate) enum Passage {
    AtOnce,
    /// As the decision says.
    Decided,
    /// Its address is not known, and nothing was asked.
    Unknown,
}

impl Express {
    /// The short way of a layer, if it has one.
    pub(crate) fn of(settings: &Settings) -> Option<Express> {
        let Some(Local::Limiter(limiter)) = settings.at_once() else { return None };
        let [Attribute { source, .. }] = settings.attributes.as_slice() else { return None };
        let says_more = settings.extension || settings.observe.is_some();
        let does_more = settings.holds() || settings.shadow || !settings.skips.is_empty();
        if says_more || does_more {
            return None;
        }
        Some(Express {
            limiter: limiter.clone(),
            client_ip: source.as_client_ip()?.clone(),
            address_prefix: settings.address_prefix,
            units: settings.cost.fixed()?,
            style: settings.style,
        })
    }

    /// Whether nobody is told of a request that goes ahead.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        !self.style.covers_allowed()
    }

    /// Takes what the request costs if it may go ahead at once; if it may not, `decision` says why.
    #[inline]
    pub(crate) fn pass<B>(&self, request: &Request<B>, decision: &mut Option<Decision>) -> Passage {
        let passes = match self.whole_ipv4(request) {
            Some(address) => self.limiter.pass_n(address, self.units, decision),
            None => match self.found(request) {
                Some(address) => self.limiter.pass_n(address, self.units, decision),
                None => return Passage::Unknown,
            },
        };
        if passes { Passage::AtOnce } else { Passage::Decided }
    }

    /// [`pass`](Self::pass), with the decision on what goes ahead too.
    #[inline]
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Option<Decision> {
        match self.whole_ipv4(request) {
            Some(address) => Some(self.limiter.check_n(address, self.units)),
            None => self.found(request).map(|address| self.limiter.check_n(address, self.units)),
        }
    }

    /// The IPv4 address of most requests, where all of it is counted.
    #[inline]
    fn whole_ipv4<B>(&self, request: &Request<B>) -> Option<Ipv4Addr> {
        let address = self.client_ip.of_direct(request.extensions());
        address.filter(|_| self.address_prefix.v4() == 32)
    }

    /// The part of any other address that is counted.
    fn found<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        let address = self.client_ip.of_request(request.extensions(), request.headers())?;
        Some(self.address_prefix.cut(address))
    }

    /// What the client is told of a decision.
    #[inline]
    pub(crate) fn told(&self, decision: &Decision) -> Told {
        let clock = self.limiter.store().clock();
        if let Some(numbers) = self.style.numbers(decision, clock) {
            return Told::Numbers(numbers);
        }
        let named = (self.limiter.name(), self.limiter.limit());
        Told::fields(self.style.for_decision(named, decision, clock))
    }
}
