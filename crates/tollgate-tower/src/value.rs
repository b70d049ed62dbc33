//! The values of attributes, allocated only where a closure has done so.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use tollgate::KeyPart;

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Value<'r> {
    Borrowed(&'r str),
    /// An address, as a limiter counts it.
    Ip(IpAddr),
    /// An address, as a policy reads it.
    Address(AddressText),
    Owned(String),
}

impl<'r> Value<'r> {
    /// The value as a policy reads it.
    pub(crate) fn into_text(self) -> Value<'r> {
        match self {
            Value::Ip(address) => Value::Address(AddressText::new(address)),
            value => value,
        }
    }

    /// The text, which an address has once it was made one.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Value::Borrowed(text) => text,
            Value::Ip(_) => "",
            Value::Address(text) => text.as_str(),
            Value::Owned(text) => text,
        }
    }

    /// The value as part of a limiter's key.
    #[inline]
    pub(crate) fn part(&self) -> KeyPart<'_> {
        match self {
            Value::Ip(address) => KeyPart::Ip(*address),
            value => KeyPart::Bytes(value.as_str().as_bytes()),
        }
    }

    /// A value that outlives the request.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Borrowed(text) => Value::Owned(text.to_owned()),
            Value::Ip(address) => Value::Ip(address),
            Value::Address(text) => Value::Address(text),
            Value::Owned(text) => Value::Owned(text),
        }
    }
}

impl<'r> From<Cow<'r, str>> for Value<'r> {
    fn from(text: Cow<'r, str>) -> Value<'r> {
        match text {
            Cow::Borrowed(text) => Value::Borrowed(text),
            Cow::Owned(text) => Value::Owned(text),
        }
    }
}

/// The longest text of an address, which is one of IPv6.
const LONGEST: usize = 39;

#[allow(clippy::cast_possible_truncation, reason = "a digit is below 10")]
const fn digit(value: usize) -> u8 {
    b'0' + value as u8
}

/// Every octet as text with a dot after it, and how many digits it has.
const OCTETS: [([u8; 4], usize); 256] = {
    let mut octets = [([b'.'; 4], 1); 256];
    let mut octet = 0;
    while octet < 256 {
        let hundreds = digit(octet / 100);
        let (tens, ones) = (digit(octet / 10 % 10), digit(octet % 10));
        octets[octet] = match octet {
            0..10 => ([ones, b'.', b'.', b'.'], 1),
            10..100 => ([tens, ones, b'.', b'.'], 2),
            _ => ([hundreds, tens, ones, b'.'], 3),
        };
        octet += 1;
    }
    octets
};

/// An address as text, where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressText {
    text: [u8; LONGEST],
    length: u8,
}

impl AddressText {
    fn new(address: IpAddr) -> AddressText {
        let mut text = AddressText { text: [0; LONGEST], length: 0 };
        match address {
            IpAddr::V4(address) => text.write_v4(address),
            // Every address fits: the longest was measured by the test below.
            IpAddr::V6(address) => write!(text, "{address}").unwrap_or_default(),
        }
        text
    }

    /// By hand, since the standard library's way takes longer than the whole check.
    fn write_v4(&mut self, address: Ipv4Addr) {
        let mut length = 0;
        for octet in address.octets() {
            let (text, digits) = OCTETS[usize::from(octet)];
            self.text[length..length + text.len()].copy_from_slice(&text);
            length += digits + 1;
        }
        // Without the last dot.
        self.length = u8::try_from(length - 1).unwrap_or(0);
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_reads_as_the_standard_library_writes_it(address: IpAddr) {
            // An address of IPv4 in IPv6 clothes is longer, and is undressed before.
            let address = address.to_canonical();
            let text = Value::Ip(address).into_text();
            prop_assert_eq!(text.as_str(), address.to_string());
        }
    }

    #[test]
    fn the_longest_address_fits() {
        let longest = IpAddr::from([0xffff_u16; 8]);
        let text = |address: IpAddr| Value::Ip(address).into_text().as_str().to_owned();
        assert_eq!(text(longest), longest.to_string());
        assert_eq!(text([255, 255, 255, 255].into()), "255.255.255.255");
    }
}
