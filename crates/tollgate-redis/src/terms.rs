//! A limit as the script knows it: a tag for its states, its numbers, and how its words are read.

use std::str::FromStr;

use tollgate::port::{ScriptDebt, ScriptLimit, ScriptPlan, ScriptState, ScriptWindow};
use tollgate::{Algorithm, Limit, LimitError};

use crate::bounds::{MAX_LIMIT_TEXT, MOST_DEBT, MOST_EXACT};
use crate::error::StoreError;
use crate::script::{self, PackedBytes, PackedReader};

/// What every state begins with, and the version of what follows.
const MAGIC: &[u8] = b"T\x01";

/// Bytes of a log's header.
pub(crate) const HEADER: usize = 35;

/// What a log field holds, and what an entry takes.
pub(crate) const ENTRIES: usize = 64;
pub(crate) const ENTRY: usize = 14;

/// A checked limit with what the script needs of it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptLimitCodec {
    pub(crate) limit: Limit,
    pub(crate) ported: ScriptPlan,
    pub(crate) shape: ScriptLimit,
    /// What states made under this limit begin with: the limit's own text, so that whoever finds
    /// one under other numbers knows what it means.
    pub(crate) tag: Vec<u8>,
}

impl ScriptLimitCodec {
    pub(crate) fn new(limit: Limit) -> Result<ScriptLimitCodec, StoreError> {
        let ported = ScriptPlan::new(&limit)?;
        let text = limit.to_string();
        let length = u8::try_from(text.len()).map_err(|_| {
            StoreError::InvalidRequest(format!(
                "the limit is written in {} bytes, must be at most {MAX_LIMIT_TEXT}",
                text.len()
            ))
        })?;
        let tag = [MAGIC, &[length], text.as_bytes()].concat();
        Ok(ScriptLimitCodec { limit, shape: ported.shape(), ported, tag })
    }

    /// The limit that a state was made under, and what follows its tag.
    pub(crate) fn of_state(raw: &[u8]) -> Option<(ScriptLimitCodec, &[u8])> {
        let (length, rest) = raw.strip_prefix(MAGIC)?.split_first()?;
        let (text, words) = rest.split_at_checked(usize::from(*length))?;
        let text = std::str::from_utf8(text).ok()?;
        let limit: Result<Limit, LimitError> = Limit::from_str(text);
        Some((ScriptLimitCodec::new(limit.ok()?).ok()?, words))
    }

    /// Adds a charge as the script reads it: the tag behind its length, the kind of limit, and five
    /// numbers, the fourth of which is the cost. `window` is the calendar's as far as it is known.
    pub(crate) fn charge(&self, cost: u64, window: [u64; 2], charges: PackedBytes) -> PackedBytes {
        let length = u16::try_from(self.tag.len()).unwrap_or(u16::MAX).to_be_bytes();
        let begun = charges.bytes(&length).bytes(&self.tag);
        let units = cost.min(MOST_EXACT);
        match self.shape {
            ScriptLimit::Bucket { most, parts } => {
                let price = self.price(cost);
                let limit = begun.bytes(b"b").number(most.micros).number(most.parts).number(parts);
                limit.number(price.micros).number(price.parts)
            }
            ScriptLimit::FixedWindow { limit, start } => {
                let spec = match start {
                    ScriptWindow::Epoch(window) => {
                        let spec = begun.bytes(b"e").number(limit);
                        spec.number(window).number(script::phase(window))
                    }
                    ScriptWindow::First(window) => {
                        begun.bytes(b"f").number(limit).number(window).number(0)
                    }
                    ScriptWindow::Calendar => {
                        let [from, to] = window.map(script::moment);
                        begun.bytes(b"c").number(limit).signed(from).signed(to)
                    }
                };
                let nominal = match start {
                    ScriptWindow::Calendar => self.limit.period().as_micros(),
                    ScriptWindow::Epoch(_) | ScriptWindow::First(_) => 0,
                };
                spec.number(units).number(u64::try_from(nominal).unwrap_or(0))
            }
            ScriptLimit::SlidingCounter { limit, window } => {
                let spec = begun.bytes(b"n").number(limit).number(window);
                spec.number(script::phase(window)).number(units).number(0)
            }
            ScriptLimit::SlidingLog { limit, window } => {
                let spec = begun.bytes(b"l").number(limit).number(window);
                spec.number(0).number(units).number(0)
            }
        }
    }

    /// Units as the script gives them back.
    pub(crate) fn amount(&self, units: u64) -> PackedBytes {
        match self.shape {
            ScriptLimit::Bucket { .. } => {
                let price = self.price(units);
                PackedBytes::default().number(price.micros).number(price.parts)
            }
            _ => PackedBytes::default().number(units.min(MOST_EXACT)).number(0),
        }
    }

    fn price(&self, units: u64) -> ScriptDebt {
        let price = self.ported.price(units);
        if price.micros < MOST_DEBT { price } else { ScriptDebt { micros: MOST_DEBT, parts: 0 } }
    }

    /// Whether what it admits leaves one by one.
    pub(crate) fn is_queue(&self) -> bool {
        self.limit.algorithm() == Algorithm::LeakyQueue
    }

    pub(crate) fn is_log(&self) -> bool {
        matches!(self.shape, ScriptLimit::SlidingLog { .. })
    }

    /// How many bytes of words there are; a log keeps none.
    pub(crate) fn width(&self) -> usize {
        match self.shape {
            ScriptLimit::FixedWindow { .. } => 14,
            ScriptLimit::Bucket { .. } | ScriptLimit::SlidingCounter { .. } => 21,
            ScriptLimit::SlidingLog { .. } => 0,
        }
    }

    /// The words as the script keeps them; for a log, what the script tells of it.
    pub(crate) fn read(&self, words: &[u8]) -> Option<ScriptState> {
        let mut words = PackedReader(words);
        Some(match self.shape {
            ScriptLimit::Bucket { .. } => ScriptState::Bucket {
                at: script::micros(words.moment()?),
                owed: ScriptDebt { micros: words.number()?, parts: words.number()? },
            },
            ScriptLimit::FixedWindow { .. } => ScriptState::FixedWindow {
                ends: script::micros(words.moment()?),
                used: words.number()?,
            },
            ScriptLimit::SlidingCounter { .. } => ScriptState::SlidingCounter {
                last: script::micros(words.moment()?),
                current: words.number()?,
                previous: words.number()?,
            },
            ScriptLimit::SlidingLog { .. } => {
                let (used, seen) = (words.number()?, script::micros(words.moment()?));
                let (wait, left) = (script::micros(words.moment()?), words.number()?);
                // A log of two entries that has the same answer as the whole one.
                let entries = [(wait, left), (seen, used.checked_sub(left)?)];
                ScriptState::SlidingLog(
                    entries.into_iter().filter(|(_, units)| *units > 0).collect(),
                )
            }
        })
    }

    /// The words as the script reads them; none for a log.
    pub(crate) fn write(&self, state: &ScriptState) -> Vec<u8> {
        let words = PackedBytes::default();
        let words = match *state {
            ScriptState::Bucket { at, owed } => {
                let micros = owed.micros.min(MOST_DEBT);
                words.signed(script::moment(at)).number(micros).number(owed.parts)
            }
            ScriptState::FixedWindow { ends, used } => {
                words.signed(script::moment(ends)).number(used.min(MOST_EXACT))
            }
            ScriptState::SlidingCounter { last, current, previous } => {
                let [current, previous] = [current, previous].map(|count| count.min(1 << 50));
                words.signed(script::moment(last)).number(current).number(previous)
            }
            ScriptState::New | ScriptState::SlidingLog(_) => words,
        };
        words.0
    }

    /// What a reservation remembers of a key with this state.
    pub(crate) fn moment(state: &ScriptState, now: u64) -> i64 {
        script::moment(match state {
            ScriptState::FixedWindow { ends, .. } => *ends,
            ScriptState::Bucket { at, owed } => at.saturating_add(owed.micros),
            ScriptState::SlidingCounter { last, .. } => *last,
            ScriptState::SlidingLog(entries) => entries.last().map_or(now, |(at, _)| *at),
            ScriptState::New => now,
        })
    }
}
