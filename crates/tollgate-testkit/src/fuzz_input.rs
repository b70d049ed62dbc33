//! Structured values from fuzz input.

use std::time::Duration;

use tollgate::{Algorithm, CalendarUnit, Limit, Timestamp};

/// A reader of fuzz input: numbers, times and limits from bytes; missing bytes are zero.
#[derive(Clone, Debug)]
pub struct FuzzInput<'a>(&'a [u8]);

impl<'a> FuzzInput<'a> {
    /// Reads from the start of `data`.
    pub fn new(data: &'a [u8]) -> FuzzInput<'a> {
        FuzzInput(data)
    }

    /// `true` if every byte is read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `length` bytes, fewer at the end.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// The next `N` bytes, zeros past the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next eight bytes, little-endian.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number, small in most cases and of any size in others.
    pub fn number(&mut self) -> u64 {
        let size = self.u8();
        match size {
            0..=199 => u64::from(size % 20) + 1,
            200..=219 => u64::from(self.u8()),
            220..=239 => u64::from(u16::from_le_bytes(self.array())),
            _ => self.u64() >> (size % 16 * 4),
        }
    }

    /// A duration from a nanosecond to centuries, often a round one.
    pub fn duration(&mut self) -> Duration {
        const UNITS: [u64; 8] = [
            1,
            1_000,
            1_000_000,
            1_000_000_000,
            60_000_000_000,
            3_600_000_000_000,
            86_400_000_000_000,
            0,
        ];
        match UNITS[usize::from(self.u8() % 8)] {
            0 => Duration::from_nanos(self.u64()),
            unit => Duration::from_nanos(unit.saturating_mul(self.number())),
        }
    }

    /// A point in time, including the first and the last.
    pub fn moment(&mut self) -> Timestamp {
        match self.u8() % 5 {
            0 => Timestamp::from_nanos(0),
            1 => Timestamp::from_nanos(self.u64()),
            2 => Timestamp::MAX,
            3 => Timestamp::from_nanos(Timestamp::MAX.as_nanos().saturating_sub(self.number())),
            _ => Timestamp::from_secs(946_684_800),
        }
    }

    /// A limit of any algorithm, if it is valid.
    pub fn limit(&mut self) -> Option<Limit> {
        let (kind, count, period) = (self.u8(), self.number(), self.duration());
        let limit = match kind % 9 {
            0 | 1 => Limit::token_bucket(count, period),
            2 => Limit::leaky_bucket(count, period),
            3 => Limit::leaky_queue(count, period),
            4 => Limit::fixed_window(count, period),
            5 => Limit::fixed_window(count, period).starting_at_first_request(),
            6 => Limit::sliding_log(count, period),
            7 => Limit::sliding_counter(count, period),
            _ => self.calendar(count),
        };
        let is_bucket = matches!(
            limit.algorithm(),
            Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue
        );
        let limit = if is_bucket && kind >= 128 {
            limit.burst(self.number().saturating_sub(1))
        } else {
            limit
        };
        limit.validate().is_ok().then_some(limit)
    }

    fn calendar(&mut self, count: u64) -> Limit {
        const ZONES: [&str; 4] = ["UTC", "Europe/Paris", "Asia/Kathmandu", "America/St_Johns"];
        const UNITS: [CalendarUnit; 5] = [
            CalendarUnit::Minute,
            CalendarUnit::Hour,
            CalendarUnit::Day,
            CalendarUnit::Week,
            CalendarUnit::Month,
        ];
        let choice = usize::from(self.u8());
        Limit::calendar(count, UNITS[choice % 5]).zone(ZONES[choice / 5 % 4])
    }
}
