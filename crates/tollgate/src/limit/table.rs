//! A limit as a table, such as `{ count = 100, per = "1m", burst = 20 }`.

use super::text::{LimitBuilder, OptionWord, WORDS, known};
use super::{Limit, LimitError};

/// A limit's table as it was read: every word is still to be understood.
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub(crate) struct LimitTable {
    pub(crate) algorithm: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) count: u64,
    pub(crate) per: String,
    pub(crate) burst: Option<u64>,
    pub(crate) align: Option<String>,
    pub(crate) zone: Option<String>,
}

/// What is wrong with a table, and which of its keys says so; none where it is the whole.
pub(crate) struct LimitTableError {
    // Without the policy file nobody points at the line.
    #[cfg_attr(not(feature = "file"), allow(dead_code))]
    pub(crate) key: Option<&'static str>,
    pub(crate) error: LimitError,
}

impl LimitTable {
    pub(crate) fn build(&self) -> Result<Limit, LimitTableError> {
        let rate = format!("{}/{}", self.count, self.per);
        let parts = LimitBuilder::new(&rate, &self.count.to_string(), &self.per);
        let mut parts = parts.map_err(|error| LimitTableError { key: Some("per"), error })?;
        parts.algorithm = pick("algorithm", self.algorithm.as_deref(), |word| match word {
            OptionWord::Algorithm(algorithm) => Some(algorithm),
            _ => None,
        })?;
        parts.mode = pick("mode", self.mode.as_deref(), |word| match word {
            OptionWord::Mode(mode) => Some(mode),
            _ => None,
        })?;
        parts.start = pick("align", self.align.as_deref(), |word| match word {
            OptionWord::Start(start) => Some(start),
            _ => None,
        })?;
        parts.burst = self.burst;
        parts.zone = self.zone.as_deref();
        parts.build().map_err(|error| LimitTableError { key: None, error })
    }
}

/// The meaning of a key's value, which has to be one of the words that `choose` takes.
fn pick<T>(
    key: &'static str,
    value: Option<&str>,
    choose: fn(OptionWord) -> Option<T>,
) -> Result<Option<T>, LimitTableError> {
    let Some(value) = value else { return Ok(None) };
    if let Some(chosen) = known(value).and_then(choose) {
        return Ok(Some(chosen));
    }
    let names = WORDS.iter().filter(|(_, word)| choose(*word).is_some()).map(|(name, _)| *name);
    let names = names.collect::<Vec<_>>().join(", ");
    let error = LimitError::new(format!("unknown {key} {value:?}, use {names}"));
    Err(LimitTableError { key: Some(key), error })
}
