//! Any parts: equal lists are one key, different lists are two, and a name is the key again.

use std::net::IpAddr;

use tollgate::{Key, KeyName, KeyPart, Limit, Limiter, ManualClock};
use tollgate_testkit::FuzzInput;

/// The most parts that a key here has.
const MOST_PARTS: u8 = 6;

/// What of a name is kept: longer ones are cut.
const MAX_NAME: usize = 256;

#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Bytes(Vec<u8>),
    Number(i128),
    Ip(IpAddr),
}

#[derive(Clone, Debug, PartialEq)]
struct Parts(Vec<Owned>);

impl Key for Parts {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        for owned in &self.0 {
            part(match owned {
                Owned::Bytes(bytes) => KeyPart::Bytes(bytes),
                Owned::Number(number) => KeyPart::Number(*number),
                Owned::Ip(ip) => KeyPart::Ip(*ip),
            });
        }
    }
}

impl Parts {
    fn read(input: &mut FuzzInput<'_>) -> Parts {
        Parts((0..input.u8() % (MOST_PARTS + 1)).map(|_| Owned::read(input)).collect())
    }

    fn of(key: &impl Key) -> Parts {
        let mut parts = Vec::new();
        key.parts(&mut |part| {
            parts.push(match part {
                KeyPart::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
                KeyPart::Number(number) => Owned::Number(number),
                KeyPart::Ip(ip) => Owned::Ip(ip),
                other => unreachable!("a part of a new kind: {other:?}"),
            });
        });
        Parts(parts)
    }

    /// Whether a name has room for all of it, a header of two bytes a part included.
    fn fits_a_name(&self) -> bool {
        let length = |owned: &Owned| match owned {
            Owned::Bytes(bytes) => bytes.len(),
            Owned::Number(_) | Owned::Ip(_) => 16,
        };
        self.0.iter().map(|owned| 2 + length(owned)).sum::<usize>() <= MAX_NAME
    }
}

impl Owned {
    fn read(input: &mut FuzzInput<'_>) -> Owned {
        let kind = input.u8();
        match kind {
            0..=159 => Owned::Bytes(input.bytes(usize::from(kind) * 2).to_vec()),
            160..=199 => Owned::Number(i128::from(input.u8()) - 128),
            200..=229 => {
                Owned::Number(i128::from_le_bytes(input.array()) >> (kind % 32 * 4).min(127))
            }
            230..=242 => Owned::Ip(input.array::<4>().into()),
            _ => Owned::Ip(input.array::<16>().into()),
        }
    }
}

/// Reads two keys from the bytes.
pub(crate) fn keys(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    let first = Parts::read(&mut input);
    let second = Parts::read(&mut input);
    let names = [&first, &second].map(KeyName::new);
    for (parts, name) in [(&first, &names[0]), (&second, &names[1])] {
        let _ = (name.to_string(), format!("{name:?}"));
        if parts.fits_a_name() {
            assert_eq!(Parts::of(name), *parts, "the name says otherwise");
            assert_eq!(KeyName::new(name), *name, "the name of a name is itself");
        }
    }
    if first.fits_a_name() && second.fits_a_name() {
        assert_eq!(names[0] == names[1], first == second, "{first:?} and {second:?}");
    }
    let limiter = Limiter::builder(Limit::per_day(2)).clock(ManualClock::new()).max_keys(8);
    let limiter = limiter.build().expect("the limit is valid");
    assert!(limiter.check_n(&first, 2).is_allowed());
    assert_eq!(limiter.check(&second).is_allowed(), first != second, "{first:?} and {second:?}");
    if first.fits_a_name() {
        assert_eq!(limiter.status(&names[0]).used(), 2, "the name is not the key {first:?}");
        assert!(limiter.keys().any(|(name, _)| name == names[0]));
    }
    if let [Owned::Bytes(bytes)] = &first.0[..] {
        assert_eq!(limiter.status(bytes).used(), 2, "one part of bytes is not those bytes");
    }
}

#[test]
fn different_parts_are_different_keys() {
    tollgate_testkit::fuzz("keys", 40_000, keys);
}
