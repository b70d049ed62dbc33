//! Addresses of clients: one spelling, and the part of them that a key counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Policy;

/// The attribute that is an address in every policy.
pub(crate) const IP: &str = "ip";

/// The part of an address that a key counts: its first bits, for IPv4 and for IPv6.
///
/// By default a key counts a whole IPv4 address, and the first 64 bits of an IPv6 address: providers
/// give each customer at least the 64 bits that follow.
///
/// ```
/// use tollgate::AddressPrefix;
///
/// let prefix = AddressPrefix::default();
/// assert_eq!(prefix.key("203.0.113.9:4711"), "203.0.113.9");
/// assert_eq!(prefix.key("2001:DB8::1"), "2001:db8::/64");
/// assert_eq!(AddressPrefix::new(24, 48).key("203.0.113.9"), "203.0.113.0/24");
/// assert_eq!(prefix.key("unknown"), "unknown");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPrefix {
    v4: u8,
    v6: u8,
}

impl AddressPrefix {
    /// The whole address.
    pub const WHOLE: AddressPrefix = AddressPrefix { v4: 32, v6: 128 };

    /// The first `v4` bits of an IPv4 address (at most 32), and the first `v6` bits of an IPv6
    /// address (at most 128).
    pub const fn new(v4: u8, v6: u8) -> AddressPrefix {
        AddressPrefix { v4: if v4 > 32 { 32 } else { v4 }, v6: if v6 > 128 { 128 } else { v6 } }
    }

    /// The bits of an IPv4 address.
    pub const fn v4(self) -> u8 {
        self.v4
    }

    /// The bits of an IPv6 address.
    pub const fn v6(self) -> u8 {
        self.v6
    }

    /// The address with all other bits zero.
    pub fn cut(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & kept))
            }
            IpAddr::V6(address) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & kept))
            }
        }
    }

    /// The value that a key counts for `value`: the canonical address if all of it counts, else its
    /// network. A value that is no address is used as it is.
    pub fn key(self, value: &str) -> Cow<'_, str> {
        match parse_address(value) {
            Some(address) => self.key_text(address).instead_of(value),
            None => Cow::Borrowed(value),
        }
    }

    /// The text that a key counts for an address.
    pub(crate) fn key_text(self, address: IpAddr) -> CanonicalAddress {
        let (bits, all) = if address.is_ipv4() { (self.v4, 32) } else { (self.v6, 128) };
        let mut text = CanonicalAddress::new(self.cut(address));
        if bits < all {
            text.append(format_args!("/{bits}"));
        }
        text
    }

    /// The wider of both: the bits that both keep.
    fn min(self, other: AddressPrefix) -> AddressPrefix {
        AddressPrefix { v4: self.v4.min(other.v4), v6: self.v6.min(other.v6) }
    }
}

impl Default for AddressPrefix {
    fn default() -> AddressPrefix {
        AddressPrefix { v4: 32, v6: 64 }
    }
}

/// The address that a value writes, without a port and a zone; an IPv4 address that is mapped into
/// IPv6 is the IPv4 address.
pub(crate) fn parse_address(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    // The longest: an IPv6 address with a zone and a port.
    if value.len() > 128 {
        return None;
    }
    let without_zone = without_zone(value);
    let value = without_zone.as_ref();
    let in_brackets = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    let address = match in_brackets {
        Some(value) => value.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => value
            .parse::<IpAddr>()
            .or_else(|_| value.parse::<SocketAddr>().map(|address| address.ip()))
            .ok(),
    };
    address.map(|address| address.to_canonical())
}

/// The value without the zone of an IPv6 address: `fe80::1%eth0`, `[fe80::1%2]:80`.
fn without_zone(value: &str) -> Cow<'_, str> {
    let Some((address, rest)) = value.split_once('%') else { return Cow::Borrowed(value) };
    match rest.find(']') {
        Some(0) => Cow::Borrowed(value),
        Some(end) => Cow::Owned(format!("{address}{}", &rest[end..])),
        None if rest.is_empty() || address.starts_with('[') || !address.contains(':') => {
            Cow::Borrowed(value)
        }
        None => Cow::Borrowed(address),
    }
}

/// The one spelling of the address that a value writes; a value that is no address is used as it is.
pub(crate) fn canonical_address(value: &str) -> Cow<'_, str> {
    match parse_address(value) {
        Some(address) => CanonicalAddress::new(address).instead_of(value),
        None => Cow::Borrowed(value),
    }
}

/// The longest text: an IPv6 address, a slash and three digits.
const LONGEST: usize = 39 + 4;

/// The one spelling of an address, or of a network, without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanonicalAddress {
    text: [u8; LONGEST],
    length: u8,
}

impl CanonicalAddress {
    pub(crate) fn new(address: IpAddr) -> CanonicalAddress {
        let mut text = CanonicalAddress { text: [0; LONGEST], length: 0 };
        text.append(format_args!("{address}"));
        text
    }

    fn append(&mut self, text: std::fmt::Arguments<'_>) {
        // Every address fits: a property below writes all kinds.
        let _ = self.write_fmt(text);
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }

    /// The text, or `value` if they are equal.
    fn instead_of(self, value: &str) -> Cow<'_, str> {
        if self.as_str() == value {
            Cow::Borrowed(value)
        } else {
            Cow::Owned(self.as_str().to_owned())
        }
    }
}

impl Write for CanonicalAddress {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let start = usize::from(self.length);
        let end = start + text.len();
        let room = self.text.get_mut(start..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = u8::try_from(end).map_err(|_| std::fmt::Error)?;
        Ok(())
    }
}

/// The attributes of a policy that are addresses. Each has the part of it by which an override finds
/// its client: the widest that a key of the policy counts.
pub(crate) type AddressAttributes = BTreeMap<String, AddressPrefix>;

impl Policy {
    /// The attributes that are addresses: `ip`, and what a key declares as one.
    pub(crate) fn address_attributes(&self) -> AddressAttributes {
        let mut attributes = AddressAttributes::new();
        for part in self.rules.iter().flat_map(|rule| &rule.key) {
            if let Some(prefix) = part.address_prefix() {
                let widest = attributes.entry(part.attribute.clone()).or_insert(prefix);
                *widest = widest.min(prefix);
            }
        }
        attributes.entry(IP.to_owned()).or_default();
        attributes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_address_are_read_as_one() {
        for (text, address) in [
            ("203.0.113.9", "203.0.113.9"),
            ("203.0.113.9:4711", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("::ffff:cb00:7109", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:DB8:0:0::0001", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%eth0]", "fe80::1"),
            ("[fe80::1%2]:80", "fe80::1"),
        ] {
            assert_eq!(canonical_address(text), address, "{text}");
        }
    }

    #[test]
    fn value_that_is_no_address_stays_as_it_is() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "203.0.113",
            "203.0.113.09",
            " 203.0.113.9",
            "203.0.113.9/32",
            "2001:db8::/64",
            "[203.0.113.9]",
            "203.0.113.9:",
            "fe80::1%",
            "[fe80::1%]",
            "[fe80::1",
            "203.0.113.9%eth0x]",
            "a%b",
        ] {
            assert_eq!(canonical_address(text), text);
            assert_eq!(AddressPrefix::default().key(text), text);
        }
    }

    proptest! {
        #[test]
        fn key_of_an_address_keeps_just_its_first_bits(address: IpAddr, v4 in 0..=32_u8, v6 in 0..=128_u8) {
            let address = address.to_canonical();
            let prefix = AddressPrefix::new(v4, v6);
            let bits = if address.is_ipv4() { v4 } else { v6 };
            let network = ipnet::IpNet::new(address, bits).unwrap().trunc();
            prop_assert_eq!(prefix.cut(address), network.addr());
            let key = prefix.key(&address.to_string()).into_owned();
            let whole = network.max_prefix_len() == bits;
            prop_assert_eq!(&key, &if whole { address.to_string() } else { network.to_string() });
            // A key that an operator copies from a list is found.
            prop_assert_eq!(prefix.key(&key), &*key);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*", zone in "[\\]\\[:%0-9a-f.]{0,40}") {
            for text in [text, zone] {
                let canonical = canonical_address(&text).into_owned();
                prop_assert_eq!(canonical_address(&canonical), &*canonical);
            }
        }
    }
}
