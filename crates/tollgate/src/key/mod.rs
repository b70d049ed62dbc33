//! `Key`: who is counted.
//!
//! A key is one part or several. Parts are told apart by kind and length, never by a separator,
//! so that ("a:b", "c") and ("a", "b:c") are different keys, and so are 42 and "42".

mod fingerprint;
mod lists;
mod name;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;

pub(crate) use fingerprint::{HashSeed, KeyHasher, KeyId, LimitKeyHasher};
pub use name::KeyName;
pub(crate) use name::write_part;

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPart<'a> {
    /// Text or any other bytes.
    Bytes(&'a [u8]),
    /// A whole number, of whatever integer type.
    Number(i128),
    /// A whole number beyond those.
    Large(u128),
    /// An IP address.
    Ip(IpAddr),
    /// A truth value.
    Bool(bool),
    /// Before the items of a list that is itself part of a key: how many there are.
    List(u64),
}

/// What can be counted: text, characters, bytes, integers, truth values, IP and socket addresses, and
/// tuples, arrays, slices or options of them; also behind a `&`, `Box`, `Rc`, `Arc` or `Cow`. A
/// limiter without keys counts `()`.
///
/// Equal values are one key whatever their type: `"ana"`, `String::from("ana")` and `b"ana"`;
/// `7_u8` and `7_i64`; `("a", 7)` and `("a", (7,))`, since nested tuples and arrays are read as one
/// list. A slice or a `Vec` inside another key counts with its length, so that different values of
/// one type are different keys: `(["a"], ["b", "c"])` and `(["a", "b"], ["c"])` as slices. An array
/// or slice of `u8` is bytes, not a list. An option counts like a slice of no item or one, a character
/// like its text, and a socket address like a tuple of its address and port, followed by scope and
/// flow if it is of IPv6. `true` is not 1.
///
/// A lookup allocates nothing. A type of your own is a key once it says its parts; if it has now
/// more of them and now fewer and is part of other keys, it should say how many, too.
///
/// ```
/// use tollgate::{Key, KeyPart};
///
/// struct Tenant { name: String, plan: u32 }
///
/// impl Key for Tenant {
///     fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
///         (self.name.as_str(), self.plan).parts(part);
///     }
/// }
/// ```
pub trait Key {
    /// Calls `part` with each part in turn.
    ///
    /// The store calls this while it holds a lock: it must not use a limiter.
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>));

    /// The parts where this is itself a part of a key: as in [`parts`](Self::parts), unless there
    /// can be more and fewer of them.
    #[doc(hidden)]
    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.parts(part);
    }

    /// The parts of a slice of these. Bytes are one part, which is why this is asked of the item.
    #[doc(hidden)]
    #[inline]
    fn slice_parts(slice: &[Self], part: &mut impl FnMut(KeyPart<'_>))
    where
        Self: Sized,
    {
        slice.iter().for_each(|key| key.nested(part));
    }

    /// [`nested`](Self::nested) of a slice of these.
    #[doc(hidden)]
    #[inline]
    fn slice_nested(slice: &[Self], part: &mut impl FnMut(KeyPart<'_>))
    where
        Self: Sized,
    {
        part(KeyPart::List(u64::try_from(slice.len()).unwrap_or(u64::MAX)));
        Self::slice_parts(slice, part);
    }

    /// [`as_single`](Self::as_single) of a slice of these.
    #[doc(hidden)]
    #[inline]
    fn slice_as_single(slice: &[Self]) -> Option<&[u8]>
    where
        Self: Sized,
    {
        match slice {
            [only] => only.as_single(),
            _ => None,
        }
    }

    /// The key of a [`Charge`](crate::Charge), which may be of any type.
    #[doc(hidden)]
    #[inline]
    fn into_charge_key<'k>(self) -> ChargeKey<'k>
    where
        Self: Sized + 'k,
    {
        ChargeKey::of(&self)
    }

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

/// The key of a charge: what it is stored under if it is new. It is hashed already.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ChargeKey<'k>(ChargeKeyForm<'k>);

#[derive(Clone, Debug)]
enum ChargeKeyForm<'k> {
    /// A key of one part of bytes, which need not be copied.
    Bytes(&'k [u8]),
    Name(KeyName),
}

impl<'k> ChargeKey<'k> {
    #[inline]
    fn of_bytes(bytes: &'k [u8]) -> ChargeKey<'k> {
        ChargeKey(ChargeKeyForm::Bytes(bytes))
    }

    #[inline]
    fn of(key: &(impl Key + ?Sized)) -> ChargeKey<'k> {
        ChargeKey(ChargeKeyForm::Name(KeyName::new(key)))
    }
}

/// A key of any type.
pub(crate) trait WriteKey {
    fn name(&self) -> KeyName;
}

impl<K: Key> WriteKey for K {
    fn name(&self) -> KeyName {
        KeyName::new(self)
    }
}

impl WriteKey for ChargeKey<'_> {
    fn name(&self) -> KeyName {
        match &self.0 {
            ChargeKeyForm::Bytes(bytes) => KeyName::new(*bytes),
            ChargeKeyForm::Name(name) => name.clone(),
        }
    }
}

macro_rules! text_keys {
    ($($type:ty)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                part(KeyPart::Bytes(self.as_bytes()));
            }

            #[inline]
            fn as_single(&self) -> Option<&[u8]> {
                Some(self.as_bytes())
            }
        }
    )*};
}

text_keys! { str String }

/// A byte by itself is a number.
impl Key for u8 {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Number((*self).into()));
    }

    #[inline]
    fn slice_parts(slice: &[u8], part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Bytes(slice));
    }

    #[inline]
    fn slice_nested(slice: &[u8], part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Bytes(slice));
    }

    #[inline]
    fn slice_as_single(slice: &[u8]) -> Option<&[u8]> {
        Some(slice)
    }
}

macro_rules! part_keys {
    ($($type:ty => |$key:ident| $part:expr;)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                let $key = *self;
                part($part);
            }
        }
    )*};
}

part_keys! {
    u16 => |key| KeyPart::Number(key.into());
    u32 => |key| KeyPart::Number(key.into());
    u64 => |key| KeyPart::Number(key.into());
    usize => |key| KeyPart::Number(key as i128);
    i8 => |key| KeyPart::Number(key.into());
    i16 => |key| KeyPart::Number(key.into());
    i32 => |key| KeyPart::Number(key.into());
    i64 => |key| KeyPart::Number(key.into());
    isize => |key| KeyPart::Number(key as i128);
    i128 => |key| KeyPart::Number(key);
}

macro_rules! address_keys {
    ($($type:ty)*) => {$(
        impl Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                part(KeyPart::Ip((*self).into()));
            }

            #[inline]
            fn as_ip(&self) -> Option<IpAddr> {
                Some((*self).into())
            }
        }
    )*};
}

address_keys! { IpAddr Ipv4Addr Ipv6Addr }

impl Key for bool {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Bool(*self));
    }
}

/// The text of one character.
impl Key for char {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Bytes(self.encode_utf8(&mut [0; 4]).as_bytes()));
    }
}

impl Key for SocketAddrV4 {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        (*self.ip(), self.port()).parts(part);
    }
}

impl Key for SocketAddrV6 {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        (*self.ip(), self.port(), self.scope_id(), self.flowinfo()).parts(part);
    }
}

impl Key for SocketAddr {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        match self {
            SocketAddr::V4(address) => address.parts(part),
            SocketAddr::V6(address) => address.parts(part),
        }
    }
}

impl Key for u128 {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(i128::try_from(*self).map_or(KeyPart::Large(*self), KeyPart::Number));
    }
}

macro_rules! nonzero_keys {
    ($($type:ty)*) => {$(
        impl Key for NonZero<$type> {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                self.get().parts(part);
            }
        }
    )*};
}

nonzero_keys! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }
