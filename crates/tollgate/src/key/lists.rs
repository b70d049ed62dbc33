//! Keys made of other keys: lists of them, and what holds one.

use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::{ChargeKey, Key, KeyPart};

macro_rules! holding_keys {
    ($($type:ty $(where $to:tt)?;)*) => {$(
        impl<K: Key + ?Sized $(+ $to)?> Key for $type {
            #[inline]
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                (**self).parts(part);
            }

            #[inline]
            fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                (**self).nested(part);
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
    )*};
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        (**self).parts(part);
    }

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        (**self).nested(part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        (**self).as_single()
    }

    #[inline]
    fn as_ip(&self) -> Option<IpAddr> {
        (**self).as_ip()
    }

    /// Bytes are borrowed for as long as the reference lives.
    #[inline]
    fn into_charge_key<'k>(self) -> ChargeKey<'k>
    where
        Self: 'k,
    {
        match K::as_single(self) {
            Some(bytes) => ChargeKey::of_bytes(bytes),
            None => ChargeKey::of(self),
        }
    }
}

holding_keys! {
    Box<K>;
    Rc<K>;
    Arc<K>;
    Cow<'_, K> where ToOwned;
}

macro_rules! tuple_keys {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Key),+> Key for ($($name,)+) {
            fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
                $(self.$index.nested(part);)+
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

/// The key that it holds.
impl<K: Key> Key for (K,) {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.0.parts(part);
    }

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.0.nested(part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        self.0.as_single()
    }

    #[inline]
    fn as_ip(&self) -> Option<IpAddr> {
        self.0.as_ip()
    }
}

impl<K: Key> Key for [K] {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        K::slice_parts(self, part);
    }

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        K::slice_nested(self, part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        K::slice_as_single(self)
    }
}

impl<K: Key> Key for Vec<K> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.as_slice().parts(part);
    }

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.as_slice().nested(part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        self.as_slice().as_single()
    }
}

/// Its length is known from its type, as a tuple's is: inside a list its items are items of the list.
impl<K: Key, const N: usize> Key for [K; N] {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        K::slice_parts(self, part);
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        K::slice_as_single(self)
    }
}

/// No parts; inside another key, an empty list.
impl Key for () {
    #[inline]
    fn parts(&self, _: &mut impl FnMut(KeyPart<'_>)) {}

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::List(0));
    }
}

/// A list of no item or one.
impl<K: Key> Key for Option<K> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        if let Some(key) = self {
            key.nested(part);
        }
    }

    #[inline]
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::List(self.is_some().into()));
        self.parts(part);
    }
}
