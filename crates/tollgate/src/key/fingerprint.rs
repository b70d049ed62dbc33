//! Fingerprints: a keyed 128-bit hash, taken once, finds a key's state.
//!
//! Keys of ordinary length are hashed with XXH3 under a secret of 192 bytes, long ones with
//! SipHash-1-3. Both are keyed from one random seed, which never leaves the process but in a
//! snapshot: without it nobody can aim keys at one shard, or find a key that meets somebody
//! else's. A table keeps 55 bits of the hash, and 8 to 15 more chose its shard: by chance any two
//! of 10^6 keys meet once in ten million stores, of 10^8 keys once in a hundred thousand.
//!
//! The shard depends on the key alone, not on the limiter: a request over several limits of one key
//! needs one lock. Within the shard the limiters' states differ by a number of each limiter, which is
//! as secret as the seed.

use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use siphasher::sip::SipHasher13 as Sip;
use siphasher::sip128::{Hasher128, SipHasher13 as Sip128};
use xxhash_rust::xxh3::xxh3_128_with_secret;

use super::{Key, KeyPart, name};

/// What hashes are keyed with.
pub(crate) type HashSeed = [u8; 16];

/// What finds a key's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyId {
    /// What the table compares. Its last byte is 0, for the table to use.
    pub(crate) id: u64,
    /// What chooses the shard.
    pub(crate) place: u64,
}

/// The bits of an id that are not the hash's: the table's own, and one that is never set, so that no
/// id is all ones, which is what a free slot has.
const OWN: u64 = 0x1ff;

impl KeyId {
    /// The nearest id that a table can hold.
    #[inline]
    pub(crate) fn usable(id: u64) -> u64 {
        id & !OWN
    }
}

/// A key's hash, whoever counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyHash {
    id: u64,
    place: u64,
}

impl KeyHash {
    /// The key's fingerprint for the limiter of this number.
    #[inline]
    fn counted_by(self, limiter: u64) -> KeyId {
        KeyId { id: KeyId::usable(self.id ^ limiter), place: self.place }
    }
}

/// Takes fingerprints for one limiter; another limiter's of the same key have another id.
#[derive(Clone)]
pub(crate) struct LimitKeyHasher {
    hashes: Arc<KeyHasher>,
    /// What tells its ids from those of other limiters.
    limiter: u64,
    /// Of a key that has no part, and so is always the same.
    nobody: KeyId,
}

/// What all limiters of a store take fingerprints with.
pub(crate) struct KeyHasher {
    /// For keys of one part of bytes, hashed where they lie.
    single: RawHash,
    /// For all others, hashed as they are written down.
    composite: RawHash,
    seed: HashSeed,
}

/// A keyed hash.
#[derive(Clone)]
struct RawHash {
    secret: [u8; 192],
    long: Sip128,
}

/// Up to this length keys are hashed with XXH3, and composite ones are written down on the stack.
const SHORT: usize = 128;

impl LimitKeyHasher {
    pub(crate) fn new(hashes: &Arc<KeyHasher>, limiter: &str) -> LimitKeyHasher {
        let limiter = random(&hashes.seed, [0, 0], limiter.as_bytes());
        let nobody = hashes.composite.of(&[]).counted_by(limiter);
        LimitKeyHasher { hashes: Arc::clone(hashes), limiter, nobody }
    }

    /// What [`of`](Self::of) gives for a key that has no part.
    #[inline]
    pub(crate) fn of_nobody(&self) -> KeyId {
        self.nobody
    }

    #[inline]
    pub(crate) fn of(&self, key: &(impl Key + ?Sized)) -> KeyId {
        self.of_hashed(self.hashes.of(key))
    }

    /// That of a key which is hashed already, by the same store.
    #[inline]
    pub(crate) fn of_hashed(&self, key: KeyHash) -> KeyId {
        key.counted_by(self.limiter)
    }
}

impl KeyHasher {
    pub(crate) fn new(seed: &HashSeed) -> KeyHasher {
        KeyHasher { single: RawHash::new(seed, 1), composite: RawHash::new(seed, 2), seed: *seed }
    }

    #[inline]
    pub(crate) fn of(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        if let Some(bytes) = key.as_single() {
            return self.single.of(bytes);
        }
        match key.as_ip() {
            Some(ip) => self.of_ip(ip),
            None => self.of_parts(key),
        }
    }

    /// What [`of_parts`](Self::of_parts) gives for a key of one address.
    #[inline(always)]
    fn of_ip(&self, ip: IpAddr) -> KeyHash {
        match ip {
            IpAddr::V4(ip) => self.composite.of(&name::written_ip::<4, 5>(ip.octets())),
            IpAddr::V6(ip) => self.composite.of(&name::written_ip::<16, 17>(ip.octets())),
        }
    }

    fn of_parts(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        let mut buffer = [0_u8; SHORT];
        let (mut length, mut count, mut last_is_bytes) = (0_usize, 0, false);
        key.parts(&mut |part| {
            count += 1;
            last_is_bytes = matches!(part, KeyPart::Bytes(_));
            name::write_part(part, &mut |bytes| {
                let end = length.saturating_add(bytes.len());
                if let Some(room) = buffer.get_mut(length..end) {
                    room.copy_from_slice(bytes);
                }
                length = end;
            });
        });
        if count == 1 && last_is_bytes {
            return self.of_only_part(key);
        }
        match buffer.get(..length) {
            Some(written) => self.composite.of(written),
            None => {
                let mut long = self.composite.long;
                key.parts(&mut |part| name::write_part(part, &mut |bytes| long.write(bytes)));
                finish(&long)
            }
        }
    }

    /// A type of somebody's own that has one part of bytes is the same key as those bytes.
    fn of_only_part(&self, key: &(impl Key + ?Sized)) -> KeyHash {
        let mut hashed = KeyHash::default();
        key.parts(&mut |part| {
            if let KeyPart::Bytes(bytes) = part {
                hashed = self.single.of(bytes);
            }
        });
        hashed
    }
}

impl fmt::Debug for LimitKeyHasher {
    /// The secret stays one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprints").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyHasher {
    /// The secret stays one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashes").finish_non_exhaustive()
    }
}

/// A number that nobody knows without the seed, another for each purpose and text.
fn random(seed: &HashSeed, purpose: [u8; 2], text: &[u8]) -> u64 {
    let mut sip = Sip::new_with_key(seed);
    sip.write(&purpose);
    sip.write(text);
    sip.finish()
}

impl RawHash {
    fn new(seed: &HashSeed, purpose: u8) -> RawHash {
        let random = |counter: u8| random(seed, [purpose, counter], &[]);
        let mut secret = [0; 192];
        for (counter, word) in (2..).zip(secret.chunks_exact_mut(8)) {
            word.copy_from_slice(&random(counter).to_le_bytes());
        }
        RawHash { secret, long: Sip128::new_with_keys(random(0), random(1)) }
    }

    /// Apart, so that the other need not make room for what it works with.
    #[cold]
    fn of_long(&self, bytes: &[u8]) -> KeyHash {
        let mut long = self.long;
        long.write(bytes);
        finish(&long)
    }

    #[inline]
    fn of(&self, bytes: &[u8]) -> KeyHash {
        if bytes.len() > SHORT {
            return self.of_long(bytes);
        }
        let hash = xxh3_128_with_secret(bytes, &self.secret).to_le_bytes();
        let (id, place) = hash.split_at(8);
        let word = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        KeyHash { id: word(id), place: word(place) }
    }
}

fn finish(hasher: &Sip128) -> KeyHash {
    let hash = hasher.finish128();
    KeyHash { id: hash.h1, place: hash.h2 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fingerprints(seed: &HashSeed, limiter: &str) -> LimitKeyHasher {
        LimitKeyHasher::new(&Arc::new(KeyHasher::new(seed)), limiter)
    }

    proptest! {
        #[test]
        fn an_address_has_the_fingerprint_of_its_parts(seed: [u8; 16], ip: IpAddr) {
            let fingerprints = fingerprints(&seed, "limiter");
            prop_assert_eq!(fingerprints.hashes.of(&ip), fingerprints.hashes.of_parts(&ip));
            prop_assert_eq!(fingerprints.of(&ip), fingerprints.of(&super::super::KeyName::new(&ip)));
        }

        #[test]
        fn under_another_seed_a_key_lies_elsewhere(
            seeds: [[u8; 16]; 2], text in "[a-z]{0,200}"
        ) {
            prop_assume!(seeds[0] != seeds[1]);
            let [of, other] = seeds.map(|seed| fingerprints(&seed, "limiter"));
            prop_assert_ne!(of.of(&text).id, other.of(&text).id);
            prop_assert_ne!(of.of(&text).place, other.of(&text).place);
            prop_assert_ne!(of.of(&(&text, 1)).id, other.of(&(&text, 1)).id);
            prop_assert_ne!(of.of(&(&text, 1)).place, other.of(&(&text, 1)).place);
        }

        #[test]
        fn for_another_limiter_a_key_lies_in_the_same_shard_under_another_id(
            seed: [u8; 16], text in "[a-z]{0,200}"
        ) {
            let [of, other] = ["limiter", "another"].map(|name| fingerprints(&seed, name));
            prop_assert_ne!(of.of(&text).id, other.of(&text).id);
            prop_assert_eq!(of.of(&text).place, other.of(&text).place);
            prop_assert_ne!(of.of(&(&text, 1)).id, other.of(&(&text, 1)).id);
            prop_assert_eq!(of.of(&(&text, 1)).place, other.of(&(&text, 1)).place);
        }

        #[test]
        fn a_key_without_parts_is_known_in_advance(seed: [u8; 16]) {
            let fingerprints = fingerprints(&seed, "limiter");
            let nobody: &[&str] = &[];
            prop_assert_eq!(fingerprints.of(nobody), fingerprints.of_nobody());
        }
    }
}
