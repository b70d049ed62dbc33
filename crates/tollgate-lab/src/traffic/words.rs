//! Words of a text, one after the other, with errors that say what would be right.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use tollgate::Limit;

use super::{LONGEST, Rate, TrafficError};

/// Reads a length of time such as `250ms`, `1s` or `1h30m`.
///
/// # Errors
/// Where it is none.
pub fn read_duration(text: &str) -> Result<Duration, TrafficError> {
    let wrong = || TrafficError(format!("{text:?} is not a time such as 250ms, 30s or 1h30m"));
    let span: Span = text.parse().map_err(|_| wrong())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// What is left of a text.
pub(super) struct Words<'a>(std::iter::Peekable<std::str::SplitAsciiWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Words<'a> {
        Words(text.split_ascii_whitespace().peekable())
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// Takes the next word if it is `word`.
    pub(super) fn take(&mut self, word: &str) -> bool {
        self.0.next_if(|next| next.eq_ignore_ascii_case(word)).is_some()
    }

    /// What must come next: `after` is the word before, for the message.
    fn need(&mut self, after: &str, example: &str) -> Result<&'a str, TrafficError> {
        let missing = || TrafficError(format!("{after:?} needs {example} after it"));
        self.0.next().ok_or_else(missing)
    }

    pub(super) fn expect(&mut self, word: &str, usage: &str) -> Result<(), TrafficError> {
        match self.0.next() {
            Some(next) if next.eq_ignore_ascii_case(word) => Ok(()),
            Some(next) => Err(TrafficError(format!(
                "{next:?} stands where {word:?} must, write for example {usage:?}"
            ))),
            None => Err(TrafficError(format!("{word:?} is missing, write for example {usage:?}"))),
        }
    }

    pub(super) fn name(&mut self, after: &str) -> Result<&'a str, TrafficError> {
        self.need(after, "a name such as mallory")
    }

    /// Reads a whole number of at least 1.
    pub(super) fn number(&mut self, after: &str) -> Result<u64, TrafficError> {
        match self.number_or_zero(after)? {
            0 => Err(TrafficError(format!("{after:?} is 0, must be at least 1"))),
            number => Ok(number),
        }
    }

    /// Reads a whole number.
    pub(super) fn number_or_zero(&mut self, after: &str) -> Result<u64, TrafficError> {
        let text = self.need(after, "a number such as 100")?;
        text.parse().map_err(|_| {
            TrafficError(format!("{text:?} after {after:?} is not a whole number such as 100"))
        })
    }

    /// A length of time, longer than nothing.
    pub(super) fn time(&mut self, after: &str) -> Result<Duration, TrafficError> {
        let time = self.time_or_zero(after)?;
        if time.is_zero() {
            return Err(TrafficError(format!("{after:?} is 0s, must be longer")));
        }
        Ok(time)
    }

    pub(super) fn time_or_zero(&mut self, after: &str) -> Result<Duration, TrafficError> {
        let text = self.need(after, "a time such as 30s")?;
        let time = read_duration(text)?;
        if time > LONGEST {
            return Err(TrafficError(format!("{text:?} after {after:?} is above 10 years")));
        }
        Ok(time)
    }

    /// A rate, which is written as that of a limit.
    pub(super) fn rate(&mut self, after: &str) -> Result<Rate, TrafficError> {
        let text = self.need(after, "a rate such as 120/s")?;
        let limit: Limit = text.parse().map_err(|error| {
            TrafficError(format!("{text:?} after {after:?} is not a rate such as 120/s: {error}"))
        })?;
        Ok(Rate { count: limit.count(), period: limit.period() })
    }

    /// A rate that may be none at all: the ends of a ramp.
    pub(super) fn rate_or_zero(&mut self, after: &str) -> Result<Rate, TrafficError> {
        let is_zero = |text: &&str| {
            *text == "0" || text.strip_prefix("0/").is_some_and(|unit| !unit.is_empty())
        };
        match self.0.next_if(is_zero) {
            Some(_) => Ok(Rate { count: 0, period: Duration::from_secs(1) }),
            None => self.rate(after),
        }
    }

    /// A number with up to three decimals, in thousandths.
    pub(super) fn thousandths(&mut self, after: &str) -> Result<u32, TrafficError> {
        let text = self.need(after, "a number such as 1.1")?;
        let wrong = || {
            let bounds = "a number from 0 to 10 with at most three decimals, such as 1.1";
            TrafficError(format!("{text:?} after {after:?} is not {bounds}"))
        };
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if decimals.len() > 3 || !is_number(whole) || !is_number(decimals) {
            return Err(wrong());
        }
        let digits = format!("{whole}{decimals:0<3}");
        digits.parse().ok().filter(|number| *number <= 10_000).ok_or_else(wrong)
    }
}
