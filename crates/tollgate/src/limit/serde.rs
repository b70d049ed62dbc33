//! A limit in a configuration: written as its text, read from its text or from a table.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};

use super::text::{Parts, WORDS, Word, known};
use super::{Limit, LimitError};

/// Writes the text form, such as `100/min burst 20`.
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the text form, or a table such as `{ count = 100, per = "1m", burst = 20 }`.
///
/// A table may also name an `algorithm`, the `mode` of a leaky bucket, and the `align` and `zone`
/// of a fixed window, in the words of the text form.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

// By hand, as an untagged enum would replace every message with "did not match any variant".
impl<'de> Visitor<'de> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit such as \"100/min\" or a table with count and per")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Limit, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Limit, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        table.build().map_err(A::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    algorithm: Option<String>,
    mode: Option<String>,
    count: u64,
    per: String,
    burst: Option<u64>,
    align: Option<String>,
    zone: Option<String>,
}

impl Table {
    fn build(&self) -> Result<Limit, LimitError> {
        let rate = format!("{}/{}", self.count, self.per);
        let mut parts = Parts::new(&rate, &self.count.to_string(), &self.per)?;
        parts.algorithm = pick("algorithm", self.algorithm.as_deref(), |word| match word {
            Word::Algorithm(algorithm) => Some(algorithm),
            _ => None,
        })?;
        parts.mode = pick("mode", self.mode.as_deref(), |word| match word {
            Word::Mode(mode) => Some(mode),
            _ => None,
        })?;
        parts.start = pick("align", self.align.as_deref(), |word| match word {
            Word::Start(start) => Some(start),
            _ => None,
        })?;
        parts.burst = self.burst;
        parts.zone = self.zone.as_deref();
        parts.build()
    }
}

/// The meaning of a key's value, which has to be one of the words that `choose` takes.
fn pick<T>(
    key: &str,
    value: Option<&str>,
    choose: fn(Word) -> Option<T>,
) -> Result<Option<T>, LimitError> {
    let Some(value) = value else { return Ok(None) };
    if let Some(chosen) = known(value).and_then(choose) {
        return Ok(Some(chosen));
    }
    let names = WORDS.iter().filter(|(_, word)| choose(*word).is_some()).map(|(name, _)| *name);
    let names = names.collect::<Vec<_>>().join(", ");
    Err(LimitError::new(format!("unknown {key} {value:?}, use {names}")))
}
