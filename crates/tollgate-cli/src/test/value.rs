//! The figures that are expected and got.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::duration::exact;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Flag(bool),
    /// The largest number stands for no limit.
    Number(u64),
    Length(Duration),
    /// A wait without an end.
    Never,
    Text(String),
    /// There is no such figure.
    Nothing,
}

impl Value {
    pub(super) fn wait(length: Option<Duration>) -> Value {
        length.map_or(Value::Never, Value::Length)
    }

    pub(super) fn text(text: Option<impl Into<String>>) -> Value {
        text.map_or(Value::Nothing, |text| Value::Text(text.into()))
    }

    /// The same as told by a store whose shortest time is `tick`.
    pub(super) fn in_ticks(&self, tick: Duration) -> Value {
        let Value::Length(length) = self else { return self.clone() };
        let ticks = length.as_nanos().div_ceil(tick.as_nanos().max(1));
        let nanos = u64::try_from(ticks.saturating_mul(tick.as_nanos())).unwrap_or(u64::MAX);
        Value::Length(Duration::from_nanos(nanos).max(*length))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Number(u64::MAX) => f.write_str("unlimited"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Length(length) => f.write_str(&exact(*length)),
            Value::Never => f.write_str("never"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Nothing => f.write_str("nothing"),
        }
    }
}

/// Numbers and truths as such, nothing as null, everything else as its text.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Number(number) if *number < u64::MAX => serializer.serialize_u64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Nothing => serializer.serialize_none(),
            other => serializer.collect_str(other),
        }
    }
}
