//! What a key is called in Redis.
//!
//! ```text
//! tg:{tag}:<length of the limiter's name>:<name>:k<key>
//! tg:{tag}:<length of the limiter's name>:<name>:h<sha-256><beginning of the key>
//! ```
//!
//! The tag decides the slot in a Cluster. It holds no brace, the name's length is said, and the key
//! is written part by part with the length of each, to the end: no two keys are written alike.

use sha2::{Digest, Sha256};
use tollgate::{Key, KeyName, port};

use crate::bounds::MAX_KEY;

const DIGEST: usize = 32;

/// What all keys of a limiter begin with.
#[derive(Clone, Debug)]
pub(crate) struct Prefix(Vec<u8>);

impl Prefix {
    pub(crate) fn new(tag: &str, limiter: &str) -> Prefix {
        let tag: String = tag.chars().flat_map(escaped).collect();
        Prefix(format!("tg:{{{tag}}}:{}:{limiter}:", limiter.len()).into_bytes())
    }

    /// The name in Redis of `key`.
    pub(crate) fn key(&self, key: &(impl Key + ?Sized)) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.0.len() + 40);
        name.extend_from_slice(&self.0);
        name.push(b'k');
        port::key_bytes(key, &mut name);
        self.shortened(name)
    }

    /// The name in Redis of a key that is written already.
    pub(crate) fn written(&self, key: &[u8]) -> Vec<u8> {
        self.shortened([self.0.as_slice(), b"k", key].concat())
    }

    /// The name in Redis, once a long key is cut to its digest and beginning.
    fn shortened(&self, mut name: Vec<u8>) -> Vec<u8> {
        let start = self.0.len() + 1;
        if name.len() - start > MAX_KEY {
            let digest = Sha256::digest(&name[start..]);
            name.truncate(start + MAX_KEY - DIGEST);
            name[start - 1] = b'h';
            name.splice(start..start, digest);
        }
        name
    }

    /// The inverse of [`key`](Self::key); of a long one the beginning.
    pub(crate) fn name(&self, key: &[u8]) -> Option<KeyName> {
        match key.strip_prefix(self.0.as_slice())?.split_first()? {
            (b'k', written) => Some(port::key_name(written)),
            (b'h', rest) => Some(port::key_name(rest.get(DIGEST..)?)),
            _ => None,
        }
    }

    /// A pattern for SCAN that matches the limiter's keys.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::with_capacity(self.0.len() + 1);
        literally(&self.0, &mut pattern);
        pattern.push(b'*');
        pattern
    }
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
    let key = std::str::from_utf8(key.strip_prefix(b"tg:{")?)
        .or_else(|wrong| std::str::from_utf8(&key[4..4 + wrong.valid_up_to()]))
        .ok()?;
    let (length, rest) = key.split_once("}:")?.1.split_once(':')?;
    rest.get(..length.parse().ok()?)
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

/// A brace would end the tag.
fn escaped(letter: char) -> impl Iterator<Item = char> {
    let code = match letter {
        '{' => "%7B",
        '}' => "%7D",
        '%' => "%25",
        _ => "",
    };
    code.chars().chain(code.is_empty().then_some(letter))
}

/// A key as errors show it.
pub(crate) fn shown(key: &[u8]) -> String {
    let beginning = &key[..key.len().min(64)];
    let more = if key.len() > beginning.len() { "…" } else { "" };
    format!("\"{}{more}\"", beginning.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_are_written_alike() {
        let long = "x".repeat(70_000);
        let longer = "x".repeat(70_001);
        let mut all = vec![
            Prefix::new("", "a").key("b:c"),
            Prefix::new("", "a:k").key("c"),
            Prefix::new("", "a").key(&("b", "c")),
            Prefix::new("", "a").key(&("b:", "c")),
            Prefix::new("", "a").key(""),
            Prefix::new("", "a").key(&7),
            Prefix::new("", "a").key("7"),
            Prefix::new("}:1:a:", "a").key(""),
            Prefix::new("%7D", "a").key(""),
            Prefix::new("", "a").key(long.as_str()),
            Prefix::new("", "a").key(longer.as_str()),
        ];
        assert!(all.iter().all(|key| key.len() < 300), "a long key is shortened");
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_name_is_read_back() {
        let prefix = Prefix::new("t", "login");
        let name = prefix.name(&prefix.key(&("acme", 42))).expect("it is a key of the limiter");
        assert_eq!(name.to_string(), "(acme, 42)");
        assert_eq!(Prefix::new("t", "logi").name(&prefix.key("ana")), None);
    }
}
