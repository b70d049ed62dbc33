//! Reading the headers of proxies, from the right: the nearest hop comes first.
//!
//! Everything is bounded, and what the client has put to the left cannot change how that to the
//! right of it is read: not by quotes, not by commas, not by length.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::Believed;
use crate::bounds::{MAX_ENTRY, MAX_HOPS, MAX_LINES};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The addresses that proxies have written down, the nearest first; `None` for what is no address,
/// or is more than is looked at.
pub(super) struct Hops<'h> {
    believed: Believed,
    /// The last lines of the header, the first of them first.
    lines: SmallVec<[&'h [u8]; 2]>,
    hops: usize,
}

impl<'h> Hops<'h> {
    pub(super) fn new(believed: Believed, headers: &'h HeaderMap) -> Hops<'h> {
        let name = if believed == Believed::Forwarded { FORWARDED } else { X_FORWARDED_FOR };
        let all = headers.get_all(name);
        // Lines past the bound are as if the client had made them up: `take` is of the last ones.
        let count = all.iter().count();
        let last = all.iter().skip(count.saturating_sub(MAX_LINES));
        Hops { believed, lines: last.map(HeaderValue::as_bytes).collect(), hops: 0 }
    }
}

impl Iterator for Hops<'_> {
    type Item = Option<IpAddr>;

    fn next(&mut self) -> Option<Option<IpAddr>> {
        let line = self.lines.last_mut()?;
        self.hops += 1;
        let quotes = self.believed == Believed::Forwarded;
        let Some((rest, entry)) = split_last(line, quotes).filter(|_| self.hops <= MAX_HOPS) else {
            // What is further to the left is not looked at.
            self.lines.clear();
            return Some(None);
        };
        match rest {
            Some(rest) => *line = rest,
            None => drop(self.lines.pop()),
        }
        let text = std::str::from_utf8(entry.trim_ascii()).ok();
        Some(text.and_then(if quotes { forwarded_for } else { address }))
    }
}

/// What is before the last comma, if there is one, and what is after it; `None` where that is
/// longer than any address. Commas in quotes do not count.
fn split_last(line: &[u8], quotes: bool) -> Option<(Option<&[u8]>, &[u8])> {
    let mut quoted = false;
    for (length, (position, byte)) in line.iter().enumerate().rev().enumerate() {
        match byte {
            b'"' if quotes => quoted = !quoted,
            b',' if !quoted => return Some((Some(&line[..position]), &line[position + 1..])),
            _ if length > MAX_ENTRY => return None,
            _ => {}
        }
    }
    Some((None, line))
}

/// The address in an element of `Forwarded`: its one `for` parameter.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut named = None;
    for pair in element.split(';') {
        let (name, value) = pair.split_once('=')?;
        if name.trim_ascii().eq_ignore_ascii_case("for") && named.replace(value).is_some() {
            return None;
        }
    }
    let value = named?.trim_ascii();
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    match unquoted {
        // An address of IPv6 is in brackets, which only a quoted value may hold.
        Some(node) if node.starts_with('[') => address(node),
        Some(node) => ipv4(node),
        None => ipv4(value),
    }
}

fn ipv4(node: &str) -> Option<IpAddr> {
    address(node).filter(IpAddr::is_ipv4)
}

/// An address, with or without a port, of IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(text) = in_brackets {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let with_port = text.parse::<SocketAddr>().ok()?;
    // `[fe80::1%2]:80` parses too; a scope is none of the client's.
    let scoped = matches!(with_port, SocketAddr::V6(v6) if v6.scope_id() != 0);
    (!scoped).then(|| with_port.ip())
}
