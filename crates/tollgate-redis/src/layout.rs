//! What a key is called in Redis.
//!
//! ```text
//! tg:{tag}:<length of the limiter's name>:<name>:k<key>
//! tg:{tag}:<length of the limiter's name>:<name>:h<sha-256><beginning of the key>
//! ```
//!
//! The tag decides the slot in a Cluster, and is empty elsewhere. It holds no brace, the name's length is said, and the key
//! is written part by part with the length of each, to the end: no two keys are written alike.

use sha2::{Digest, Sha256};
use tollgate::{Key, KeyName, KeyPart, port};

use crate::bounds::MAX_KEY;

const DIGEST: usize = 32;

/// What all keys begin with, up to the tag.
const HEAD: &[u8] = b"tg:{";

/// What ends a namespace in the name of a gate's limiter.
pub(crate) const NAMESPACE_END: char = '\u{1d}';

/// The longest tag that is kept as it is.
const MAX_TAG: usize = 40;

/// What a key's tag is made of. Keys with one tag lie in one slot of a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashTag {
    /// There are no slots.
    None,
    /// The whole key: limiters with the same keys share their slots.
    Key,
    /// One part of it, by its number.
    Part(usize),
}

/// What all keys of a limiter have in common.
#[derive(Clone, Debug)]
pub(crate) struct KeyPrefix {
    tagging: HashTag,
    /// From the tag's end to the key.
    rest: Vec<u8>,
}

impl KeyPrefix {
    pub(crate) fn new(tagging: HashTag, limiter: &str) -> KeyPrefix {
        KeyPrefix { tagging, rest: format!("}}:{}:{limiter}:", limiter.len()).into_bytes() }
    }

    /// The same with keys that are found by one part of theirs, if they are tagged at all.
    pub(crate) fn by_part(&self, part: usize) -> KeyPrefix {
        let tagging = match self.tagging {
            HashTag::None => HashTag::None,
            _ => HashTag::Part(part),
        };
        KeyPrefix { tagging, rest: self.rest.clone() }
    }

    /// The name in Redis of `key`.
    pub(crate) fn key(&self, key: &(impl Key + ?Sized)) -> Vec<u8> {
        let mut name = self.begun(key);
        let start = name.len();
        port::key_bytes(key, &mut name);
        shortened(name, start)
    }

    /// The name in Redis of a key that is written already.
    pub(crate) fn written(&self, key: &[u8]) -> Vec<u8> {
        let mut name = match self.tagging {
            HashTag::None => self.begun(""),
            _ => self.begun(&port::written_key(key)),
        };
        let start = name.len();
        name.extend_from_slice(key);
        shortened(name, start)
    }

    /// What the name of `key` has before the key itself.
    fn begun(&self, key: &(impl Key + ?Sized)) -> Vec<u8> {
        let mut name = Vec::with_capacity(HEAD.len() + self.rest.len() + 40);
        name.extend_from_slice(HEAD);
        match self.tagging {
            HashTag::None => {}
            HashTag::Key => tag(key, None, &mut name),
            HashTag::Part(part) => tag(key, Some(part), &mut name),
        }
        name.extend_from_slice(&self.rest);
        name.push(b'k');
        name
    }

    /// The inverse of [`key`](Self::key); of a long one the beginning.
    pub(crate) fn name(&self, key: &[u8]) -> Option<KeyName> {
        let tagged = key.strip_prefix(HEAD)?;
        let end = tagged.iter().position(|byte| *byte == b'}')?;
        if (end == 0) != (self.tagging == HashTag::None) {
            return None;
        }
        key_name(tagged[end..].strip_prefix(self.rest.as_slice())?)
    }

    /// A pattern for SCAN that matches the limiter's keys, and others by chance.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        let mut pattern = HEAD.to_vec();
        if self.tagging != HashTag::None {
            pattern.push(b'*');
        }
        literally(&self.rest, &mut pattern);
        pattern.push(b'*');
        pattern
    }
}

/// A name whose key begins at `start`; of a long key its digest and beginning.
fn shortened(mut name: Vec<u8>, start: usize) -> Vec<u8> {
    if name.len() - start > MAX_KEY {
        let digest = Sha256::digest(&name[start..]);
        name.truncate(start + MAX_KEY - DIGEST);
        name[start - 1] = b'h';
        name.splice(start..start, digest);
    }
    name
}

/// A pattern for SCAN that matches the keys of all limiters whose names begin with `name`, and
/// some others.
pub(crate) fn pattern_of_names(name: &str) -> Vec<u8> {
    let mut pattern = b"tg:{*}:*:".to_vec();
    literally(name.as_bytes(), &mut pattern);
    pattern.push(b'*');
    pattern
}

/// The name of the limiter that a key belongs to.
pub(crate) fn limiter_of(key: &[u8]) -> Option<&str> {
    limiter_and_rest(key).map(|(limiter, _)| limiter)
}

/// The key by itself, whatever limiter it belongs to; of a long one the beginning.
pub(crate) fn key_of(key: &[u8]) -> Option<KeyName> {
    key_name(limiter_and_rest(key)?.1.strip_prefix(b":")?)
}

fn limiter_and_rest(key: &[u8]) -> Option<(&str, &[u8])> {
    let tagged = key.strip_prefix(HEAD)?;
    let end = tagged.windows(2).position(|two| two == b"}:")?;
    let (_, rest) = tagged.split_at(end + 2);
    let colon = rest.iter().position(|byte| *byte == b':')?;
    let length = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
    let (limiter, rest) = rest[colon + 1..].split_at_checked(length)?;
    Some((std::str::from_utf8(limiter).ok()?, rest))
}

/// What follows the limiter.
fn key_name(rest: &[u8]) -> Option<KeyName> {
    match rest.split_first()? {
        (b'k', written) => Some(port::key_name(written)),
        (b'h', rest) => Some(port::key_name(rest.get(DIGEST..)?)),
        _ => None,
    }
}

/// Adds `bytes` to a pattern of SCAN, with no meaning but themselves.
fn literally(bytes: &[u8], pattern: &mut Vec<u8>) {
    for byte in bytes {
        if br"*?[]\^-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
}

/// Writes the tag of `key`, by one of its parts or by all of them: legible, without a brace, never empty.
/// Different keys may share a tag: it says where a key lies, not which it is.
fn tag(key: &(impl Key + ?Sized), part: Option<usize>, name: &mut Vec<u8>) {
    let start = name.len();
    let mut number = 0;
    key.parts(&mut |found| {
        if part.is_none_or(|part| part == number) {
            if name.len() > start {
                name.push(b'|');
            }
            write_part(found, name);
        }
        number += 1;
    });
    if part.is_some_and(|part| part >= number) {
        return tag(key, None, name);
    }
    if name.len() == start {
        name.push(b'-');
    }
    if name.len() - start > MAX_TAG {
        let digest = Sha256::digest(&name[start..]);
        name.truncate(start);
        for byte in &digest[..8] {
            name.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
    }
}

fn write_part(part: KeyPart<'_>, name: &mut Vec<u8>) {
    match part {
        KeyPart::Bytes(bytes) => {
            for byte in bytes {
                match byte {
                    // A brace would end the tag.
                    b'{' | b'}' | b'%' | b'|' | ..=b' ' | 0x7f.. => {
                        name.extend_from_slice(format!("%{byte:02X}").as_bytes());
                    }
                    _ => name.push(*byte),
                }
            }
        }
        KeyPart::Number(number) => name.extend_from_slice(number.to_string().as_bytes()),
        KeyPart::Large(number) => name.extend_from_slice(number.to_string().as_bytes()),
        KeyPart::Ip(address) => name.extend_from_slice(address.to_string().as_bytes()),
        _ => name.push(b'?'),
    }
}

/// A key as errors show it: a limiter's key names a client, and is not shown.
pub(crate) fn shown(key: &[u8]) -> String {
    match limiter_of(key) {
        Some(limiter) => {
            // A gate's limiter is the namespace, the rule, and more behind a control character.
            let rule = limiter.rsplit_once(NAMESPACE_END).map_or(limiter, |(_, rule)| rule);
            let rule = rule.split(char::is_control).next().unwrap_or(rule);
            format!("a redis key of {rule:?}")
        }
        None => format!("the redis key \"{}\"", key.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routed::slot;

    #[test]
    fn no_two_keys_are_written_alike() {
        let long = "x".repeat(70_000);
        let longer = "x".repeat(70_001);
        let prefix = |name| KeyPrefix::new(HashTag::None, name);
        let mut all = vec![
            prefix("a").key("b:c"),
            prefix("a:k").key("c"),
            prefix("a").key(&("b", "c")),
            prefix("a").key(&("b:", "c")),
            prefix("a").key(""),
            prefix("a").key(&7),
            prefix("a").key("7"),
            KeyPrefix::new(HashTag::Key, "a").key("}:1:a:k"),
            KeyPrefix::new(HashTag::Key, "a").key("%7D"),
            KeyPrefix::new(HashTag::Part(0), "a").key(&("b", "c")),
            prefix("a").key(long.as_str()),
            prefix("a").key(longer.as_str()),
            KeyPrefix::new(HashTag::Key, "a").key(longer.as_str()),
        ];
        assert!(all.iter().all(|key| key.len() < 300), "a long key is shortened");
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_name_is_read_back() {
        for tagging in [HashTag::None, HashTag::Key, HashTag::Part(0), HashTag::Part(1)] {
            let prefix = KeyPrefix::new(tagging, "login");
            let name = prefix.name(&prefix.key(&("ac}me", 42))).expect("it is the limiter's key");
            assert_eq!(name.to_string(), "(ac}me, 42)");
            assert_eq!(KeyPrefix::new(tagging, "logi").name(&prefix.key("ana")), None);
        }
        let tagged = KeyPrefix::new(HashTag::Key, "login").key("ana");
        assert_eq!(KeyPrefix::new(HashTag::None, "login").name(&tagged), None);
    }

    #[test]
    fn a_key_that_is_written_already_has_the_same_name() {
        let long = "x".repeat(70_000);
        for tagging in [HashTag::None, HashTag::Key, HashTag::Part(0), HashTag::Part(1)] {
            let prefix = KeyPrefix::new(tagging, "login");
            for key in [
                ("acme", "ana"),
                ("", "}"),
                ("a{b}", "\u{0}\u{ff}"),
                ("t", long.as_str()),
                (&long, "u"),
            ] {
                let mut written = Vec::new();
                port::key_bytes(&key, &mut written);
                assert_eq!(prefix.written(&written), prefix.key(&key));
                assert_eq!(limiter_of(&prefix.key(&key)), Some("login"));
            }
        }
    }

    #[test]
    fn error_names_the_rule_of_a_key_and_not_the_key() {
        let of_rule = KeyPrefix::new(HashTag::Key, "shop\u{1d}login\u{1e}user");
        assert_eq!(shown(&of_rule.key("ana@example.com")), "a redis key of \"login\"");
        let of_limiter = KeyPrefix::new(HashTag::None, "per user");
        assert_eq!(shown(&of_limiter.key("ana")), "a redis key of \"per user\"");
        assert_eq!(shown(b"tg:{}:shared:shop"), "the redis key \"tg:{}:shared:shop\"");
    }

    #[test]
    fn keys_of_one_partition_share_a_slot() {
        let per_user = KeyPrefix::new(HashTag::Part(0), "per user");
        let per_route = KeyPrefix::new(HashTag::Part(1), "per route");
        let tenant = KeyPrefix::new(HashTag::Key, "tenant");
        let keys = |tenant_name: &str| {
            let (user, route) = ((tenant_name, 42), ("/search", tenant_name));
            [per_user.key(&user), per_route.key(&route), tenant.key(tenant_name)]
                .map(|key| slot(&key))
        };
        let long = "x".repeat(70_000);
        for name in ["acme", "", "{", "}", "a{b}c", "\u{0}\u{ff}", long.as_str()] {
            let [a, b, c] = keys(name);
            assert!(a == b && b == c, "{name:.20}");
        }
        assert_ne!(keys("acme"), keys("globex"));
        assert!(per_user.key(&("acme", 42)).starts_with(b"tg:{acme}:8:per user:k"));
        let short = per_user.key("acme");
        assert_eq!(slot(&short), slot(&tenant.key("acme")), "a key without that part goes by all");
        assert!(tenant.key(long.as_str()).len() < 330, "a long tag is shortened");
    }
}
