//! A limit in a configuration: written as its text, read from its text or from a table.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};

use super::Limit;
use super::table::LimitTable;

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
        let table = LimitTable::deserialize(MapAccessDeserializer::new(map))?;
        table.build().map_err(|wrong| A::Error::custom(wrong.error))
    }
}
