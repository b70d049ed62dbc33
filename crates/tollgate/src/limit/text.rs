//! The text of a limit, such as `100/min burst 20`: read, and written back the same.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::period::{Decimal, Period, write_period};
use super::{Algorithm, CalendarUnit, Limit, LimitError, WindowStart};
use crate::bounds::MAX_LIMIT_TEXT;

/// What a word after the rate means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionWord {
    Burst,
    Align,
    Algorithm(Algorithm),
    /// Which of the two leaky buckets.
    Mode(Algorithm),
    Start(StartWord),
}

/// An [`WindowStart`] whose calendar unit is still to come from the period.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StartWord {
    Epoch,
    First,
    Calendar,
}

pub(super) const WORDS: [(&str, OptionWord); 12] = [
    ("burst", OptionWord::Burst),
    ("token_bucket", OptionWord::Algorithm(Algorithm::TokenBucket)),
    ("leaky_bucket", OptionWord::Algorithm(Algorithm::LeakyMeter)),
    ("fixed_window", OptionWord::Algorithm(Algorithm::FixedWindow)),
    ("sliding_log", OptionWord::Algorithm(Algorithm::SlidingLog)),
    ("sliding_counter", OptionWord::Algorithm(Algorithm::SlidingCounter)),
    ("meter", OptionWord::Mode(Algorithm::LeakyMeter)),
    ("queue", OptionWord::Mode(Algorithm::LeakyQueue)),
    ("align", OptionWord::Align),
    ("epoch", OptionWord::Start(StartWord::Epoch)),
    ("first", OptionWord::Start(StartWord::First)),
    ("calendar", OptionWord::Start(StartWord::Calendar)),
];

/// Reads `COUNT/PERIOD` or `COUNT per PERIOD`, then options in any order.
///
/// The count is a whole number or a decimal, the period a unit or a duration such as `1h30m`.
/// The options are `burst N` and an algorithm: `token_bucket` unless another is named,
/// `leaky_bucket` with `meter` or `queue`, `fixed_window` with `epoch`, `first` or
/// `calendar ZONE`, `sliding_log`, `sliding_counter`. Only the zone's case matters.
///
/// ```
/// use tollgate::{CalendarUnit, Limit};
///
/// let day = Limit::calendar(1000, CalendarUnit::Day).zone("Europe/Paris");
/// assert_eq!(day, "1000/day calendar Europe/Paris".parse()?);
/// assert_eq!("0.5 per second".parse::<Limit>()?.to_string(), "1/2s");
///
/// let error = "100/min brust 20".parse::<Limit>().unwrap_err();
/// assert_eq!(error.to_string(), r#"unknown word "brust", did you mean "burst"?"#);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let length = text.len();
        if length > MAX_LIMIT_TEXT {
            return Err(error(format!("limit is {length} bytes long, at most {MAX_LIMIT_TEXT}")));
        }
        let (mut parts, options) = read_rate(text.trim_ascii())?;
        parts.read_options(options)?;
        parts.build()
    }
}

/// Splits off and reads the rate; a slash counts only here, as zones have them too.
fn read_rate(text: &str) -> Result<(LimitBuilder<'_>, &str), LimitError> {
    if text.is_empty() {
        return Err(error("limit is empty, write for example 100/min"));
    }
    let (count, rest) = split_before(text, |c| c == '/' || c.is_ascii_whitespace());
    let rest = rest.trim_ascii_start();
    let (first, after_first) = split_before(rest, |c| c.is_ascii_whitespace());
    let rest = match rest.strip_prefix('/') {
        Some(rest) => rest.trim_ascii_start(),
        None if first.eq_ignore_ascii_case("per") => after_first.trim_ascii_start(),
        None => "",
    };
    let (period, options) = split_before(rest, |c| c.is_ascii_whitespace());
    let rate = if period.is_empty() { count } else { &text[..text.len() - options.len()] };
    Ok((LimitBuilder::new(rate, count, period)?, options))
}

/// A limit in the making, from text or from a table.
pub(super) struct LimitBuilder<'a> {
    /// The rate as it was written, for messages.
    rate: &'a str,
    count: u64,
    /// The count as it was written, rounded up: what a fraction holds unless it says otherwise.
    written_count: u64,
    period: Period,
    pub(super) burst: Option<u64>,
    pub(super) algorithm: Option<Algorithm>,
    pub(super) mode: Option<Algorithm>,
    pub(super) start: Option<StartWord>,
    pub(super) zone: Option<&'a str>,
}

impl<'a> LimitBuilder<'a> {
    pub(super) fn new(
        rate: &'a str,
        count: &str,
        period: &str,
    ) -> Result<LimitBuilder<'a>, LimitError> {
        let count = Decimal::parse("count", count)?;
        let mut period = Period::parse(period, rate)?;
        // A fraction moves into the period, where it stays exact: 0.5 per second is 1 per 2s.
        let shared = gcd(count.value, count.scale);
        let stretched = period.nanos.checked_mul(count.scale / shared);
        period.nanos = stretched.ok_or_else(|| too_long(rate))?;
        let narrow = |units| {
            u64::try_from(units)
                .map_err(|_| error(format!("count in {rate:?} is too large, at most {}", u64::MAX)))
        };
        let written_count = narrow(count.value.div_ceil(count.scale))?;
        let count = narrow(count.value / shared)?;
        let (burst, algorithm, mode, start, zone) = (None, None, None, None, None);
        Ok(LimitBuilder { rate, count, written_count, period, burst, algorithm, mode, start, zone })
    }

    fn read_options(&mut self, options: &'a str) -> Result<(), LimitError> {
        let mut words = options.split_ascii_whitespace().peekable();
        while let Some(word) = words.next() {
            match known(word).ok_or_else(|| unknown(word))? {
                OptionWord::Burst => {
                    set_once(&mut self.burst, read_burst(words.next())?, word, "burst")?
                }
                OptionWord::Algorithm(named) => {
                    set_once(&mut self.algorithm, named, word, "algorithm")?
                }
                OptionWord::Mode(mode) => set_once(&mut self.mode, mode, word, "mode")?,
                OptionWord::Start(start) => {
                    set_once(&mut self.start, start, word, "align")?;
                    if start == StartWord::Calendar {
                        self.zone = words.next_if(|next| known(next).is_none());
                    }
                }
                OptionWord::Align => match words.peek().copied().and_then(known) {
                    Some(OptionWord::Start(_)) => {}
                    _ => return Err(error("\"align\" must go before epoch, first or calendar")),
                },
            }
        }
        Ok(())
    }

    pub(super) fn build(self) -> Result<Limit, LimitError> {
        let default = self.start.map_or(Algorithm::TokenBucket, |_| Algorithm::FixedWindow);
        let algorithm = self.algorithm.unwrap_or(default);
        // What does not fit is centuries beyond what a plan accepts.
        let nanos = u64::try_from(self.period.nanos).map_err(|_| too_long(self.rate))?;
        let mut limit = Limit::new(algorithm, self.count, Duration::from_nanos(nanos));
        if let Some(mode) = self.mode {
            belongs(OptionWord::Mode(mode), Algorithm::LeakyMeter, algorithm)?;
            limit.algorithm = mode;
        }
        if let Some(start) = self.start {
            belongs(OptionWord::Start(start), Algorithm::FixedWindow, algorithm)?;
        }
        limit.align = self.align()?;
        limit.burst = self.burst;
        if self.burst.is_none() && limit.is_bucket() && self.written_count < self.count {
            // 0.7/s is 7 per 10s, but nobody who writes it means seven at once.
            limit.burst = Some(self.written_count);
        }
        limit.zone = self.zone.map(|zone| zone.to_owned().into());
        limit.validate()?;
        Ok(limit)
    }

    fn align(&self) -> Result<WindowStart, LimitError> {
        let LimitBuilder { rate, period: Period { nanos, last_unit }, .. } = self;
        match (self.start, *last_unit) {
            (Some(StartWord::Calendar), Some(unit)) if unit.nominal().as_nanos() == *nanos => {
                Ok(WindowStart::Calendar(unit))
            }
            (Some(StartWord::Calendar), _) => Err(error(format!(
                "{rate:?} cannot be calendar, write a whole count per min, h, day, week or month"
            ))),
            (_, Some(CalendarUnit::Month)) => {
                Err(error(format!("month in {rate:?} needs calendar, or write 30d")))
            }
            (Some(StartWord::First), _) => Ok(WindowStart::FirstRequest),
            (Some(StartWord::Epoch) | None, _) => Ok(WindowStart::Epoch),
        }
    }
}

/// Writes the text that reads back as this limit.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.count)?;
        write_period(f, self)?;
        match (self.algorithm, self.align) {
            (Algorithm::TokenBucket, WindowStart::Epoch) | (_, WindowStart::Calendar(_)) => {}
            (Algorithm::LeakyQueue, _) => f.write_str(" leaky_bucket queue")?,
            (algorithm, _) => write!(f, " {}", name_of(OptionWord::Algorithm(algorithm)))?,
        }
        match self.align {
            WindowStart::Epoch => {}
            WindowStart::FirstRequest => f.write_str(" first")?,
            WindowStart::Calendar(_) => f.write_str(" calendar")?,
        }
        if let Some(zone) = &self.zone {
            write!(f, " {zone}")?;
        }
        match self.burst {
            Some(units) => write!(f, " burst {units}"),
            None => Ok(()),
        }
    }
}

pub(super) fn known(word: &str) -> Option<OptionWord> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    WORDS.iter().find(|(name, _)| *name == word).map(|(_, meaning)| *meaning)
}

fn name_of(word: OptionWord) -> &'static str {
    WORDS.iter().find(|(_, meaning)| *meaning == word).map_or("", |(name, _)| *name)
}

fn read_burst(word: Option<&str>) -> Result<u64, LimitError> {
    let word = word.unwrap_or("");
    let burst = Decimal::parse("burst", word).ok().filter(|number| number.scale == 1);
    burst.and_then(|number| u64::try_from(number.value).ok()).ok_or_else(|| {
        error(format!("burst {word:?} is not a whole number such as 20, below 2^64"))
    })
}

fn set_once<T>(slot: &mut Option<T>, value: T, word: &str, what: &str) -> Result<(), LimitError> {
    match slot.replace(value) {
        Some(_) => Err(error(format!("{word:?} comes after another {what}, write only one"))),
        None => Ok(()),
    }
}

fn belongs(word: OptionWord, owner: Algorithm, named: Algorithm) -> Result<(), LimitError> {
    if named == owner {
        return Ok(());
    }
    let [word, owner, named] =
        [word, OptionWord::Algorithm(owner), OptionWord::Algorithm(named)].map(name_of);
    Err(error(format!("{word:?} belongs to {owner}, not to {named}")))
}

fn unknown(word: &str) -> LimitError {
    let lower = word.to_ascii_lowercase();
    if let Some((name, _)) = WORDS.iter().find(|(name, _)| is_near(&lower, name)) {
        return error(format!("unknown word {word:?}, did you mean {name:?}?"));
    }
    let names = WORDS.map(|(name, _)| name).join(", ");
    error(format!("unknown word {word:?}, use {names}"))
}

/// Whether they differ by a slip: at most two letters, next to each other.
fn is_near(word: &str, name: &str) -> bool {
    let same_start = word.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let same_end = word.bytes().rev().zip(name.bytes().rev()).take_while(|(a, b)| a == b).count();
    same_start + same_end + 2 >= word.len().max(name.len())
}

pub(super) fn split_before(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// Whether these are digits, with underscores only between them.
pub(super) fn is_digits(text: &str) -> bool {
    let is_framed = !text.is_empty() && !text.starts_with('_') && !text.ends_with('_');
    is_framed && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) fn too_long(rate: &str) -> LimitError {
    error(format!("period in {rate:?} is too long, must be at most 100 years"))
}

pub(super) fn error(message: impl Into<String>) -> LimitError {
    LimitError::new(message)
}
