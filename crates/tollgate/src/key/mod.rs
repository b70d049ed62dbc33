//! `Key`: who is counted.
//!
//! A key is one part or several. Parts are told apart by kind and length, never by a separator,
//! so that ("a:b", "c") and ("a", "b:c") are different keys, and so are 42 and "42".

mod fingerprint;
mod name;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use fingerprint::{Fingerprint, Fingerprints, Seed};
pub use name::KeyName;
pub(crate) use name::write_part;

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// Text or any other bytes.
    Bytes(&'a [u8]),
    /// A whole number, of whatever integer type.
    Number(i128),
    /// A whole number beyond those.
    Large(u128),
    /// An IP address.
    Ip(IpAddr),
}

/// What can be counted: text, bytes, integers, IP addresses, and tuples or slices of them.
///
/// Equal values are one key whatever their type: `"ana"`, `String::from("ana")` and `b"ana"`;
/// `7_u8` and `7_i64`; nested tuples are read as one list. A lookup allocates nothing. A type of your own is a key once it says its
/// parts:
///
/// ```
/// use tollgate::{Key, Part};
///
/// struct Tenant { name: String, plan: u32 }
///
/// impl Key for Tenant {
///     fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
///         (self.name.as_str(), self.plan).parts(part);
///     }
/// }
/// ```
pub trait Key {
    /// Calls `part` with each part in turn.
    ///
    /// The store calls this while it holds a lock: it must not use a limiter.
    fn parts(&self, part: &mut impl FnMut(Part<'_>));

    /// The bytes of a key that is nothing but one part of bytes, which are hashed where they lie.
    #[doc(hidden)]
    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        None
    }

    /// The address of a key that is nothing but one, which is hashed without being walked.
    #[doc(hidden)]
    #[inline]
    fn as_ip(&self) -> Option<IpAddr> {
        None
    }
}

/// A key of whatever type, for its name alone.
pub(crate) trait Name {
    fn name(&self) -> KeyName;
}

impl<K: Key> Name for K {
    fn name(&self) -> KeyName {
        KeyName::new(self)
    }
}

macro_rules! bytes_keys {
    ($($type:ty => |$key:ident| $bytes:expr;)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
                let $key = self;
                part(Part::Bytes($bytes));
            }

            #[inline]
            fn as_single(&self) -> Option<&[u8]> {
                let $key = self;
                Some($bytes)
            }
        }
    )*};
}

bytes_keys! {
    str => |key| key.as_bytes();
    String => |key| key.as_bytes();
    [u8] => |key| key;
    Vec<u8> => |key| key;
    std::borrow::Cow<'_, str> => |key| key.as_bytes();
    Box<str> => |key| key.as_bytes();
    std::sync::Arc<str> => |key| key.as_bytes();
}

impl<const N: usize> Key for [u8; N] {
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        self.as_slice().parts(part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        Some(self)
    }
}

macro_rules! part_keys {
    ($($type:ty => |$key:ident| $part:expr;)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
                let $key = *self;
                part($part);
            }
        }
    )*};
}

part_keys! {
    u8 => |key| Part::Number(key.into());
    u16 => |key| Part::Number(key.into());
    u32 => |key| Part::Number(key.into());
    u64 => |key| Part::Number(key.into());
    usize => |key| Part::Number(key as i128);
    i8 => |key| Part::Number(key.into());
    i16 => |key| Part::Number(key.into());
    i32 => |key| Part::Number(key.into());
    i64 => |key| Part::Number(key.into());
    isize => |key| Part::Number(key as i128);
    i128 => |key| Part::Number(key);
}

macro_rules! address_keys {
    ($($type:ty)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
                part(Part::Ip((*self).into()));
            }

            #[inline]
            fn as_ip(&self) -> Option<IpAddr> {
                Some((*self).into())
            }
        }
    )*};
}

address_keys! { IpAddr Ipv4Addr Ipv6Addr }

impl Key for u128 {
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        part(i128::try_from(*self).map_or(Part::Large(*self), Part::Number));
    }
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        (**self).parts(part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        (**self).as_single()
    }

    #[inline]
    fn as_ip(&self) -> Option<IpAddr> {
        (**self).as_ip()
    }
}

macro_rules! tuple_keys {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Key),+> Key for ($($name,)+) {
            fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
                $(self.$index.parts(part);)+
            }
        }
    )*};
}

tuple_keys! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

impl Key for [&str] {
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        self.iter().for_each(|text| text.parts(part));
    }

    fn as_single(&self) -> Option<&[u8]> {
        match self {
            [only] => Some(only.as_bytes()),
            _ => None,
        }
    }
}
