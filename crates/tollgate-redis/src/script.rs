//! The scripts, put together when this crate is built, and the numbers they are called with.

use std::sync::OnceLock;

use redis::Script;

/// A script.
pub(crate) struct ScriptText {
    source: &'static str,
    hash: OnceLock<String>,
}

/// In the order of their numbers: each uses what those before it define.
pub(crate) static SINGLE: ScriptText = ScriptText::new(concat!(
    include_str!("script/1_head.lua"),
    include_str!("script/2_sliding_log.lua"),
    include_str!("script/3_change.lua"),
    include_str!("script/4_block.lua"),
    include_str!("script/4_fetch.lua"),
    include_str!("script/4_probe.lua"),
    include_str!("script/4_swap.lua"),
    include_str!("script/4_beat.lua"),
    include_str!("script/5_decide.lua"),
    include_str!("script/6_rules.lua"),
    include_str!("script/7_take.lua"),
));

/// The same decision, in a loop over requests. It is a script of its own since a function around the
/// decision would cost each single call the making of it.
pub(crate) static BATCH: ScriptText = ScriptText::new(concat!(
    include_str!("script/batch_1_guard.lua"),
    include_str!("script/1_head.lua"),
    include_str!("script/2_sliding_log.lua"),
    include_str!("script/batch_2_open.lua"),
    include_str!("script/5_decide.lua"),
    include_str!("script/7_take.lua"),
    include_str!("script/batch_3_each.lua"),
));

/// The ends of several reservations, in a loop over their keys.
pub(crate) static SETTLE: ScriptText = ScriptText::new(concat!(
    include_str!("script/batch_1_guard.lua"),
    include_str!("script/1_head.lua"),
    include_str!("script/2_sliding_log.lua"),
    include_str!("script/settle_2_open.lua"),
    include_str!("script/3_change.lua"),
    include_str!("script/5_decide.lua"),
    include_str!("script/7_take.lua"),
    include_str!("script/settle_3_each.lua"),
));

impl ScriptText {
    const fn new(source: &'static str) -> ScriptText {
        ScriptText { source, hash: OnceLock::new() }
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
    }

    /// What the server knows it by.
    pub(crate) fn hash(&self) -> &str {
        self.hash.get_or_init(|| Script::new(self.source).get_hash().to_owned())
    }
}

/// The script's answers other than allowed and denied.
pub(crate) const OTHER: i64 = 2;
pub(crate) const CALENDAR: i64 = 3;
pub(crate) const DUE: i64 = 4;
pub(crate) const MANY: i64 = 5;
pub(crate) const FOREIGN: i64 = 6;
/// Denied for want of what a request on its way may hold.
pub(crate) const HELD: i64 = 7;

/// Another client converts the state.
pub(crate) const CLAIMED: i64 = 9;

/// Bytes of a reservation's record.
pub(crate) const RECORD: usize = 59;

/// What a record says of units that no bucket owes.
pub(crate) const ANY: u64 = 1 << 53;

/// A moment later than any that a state can hold.
pub(crate) const LATEST: i64 = 1 << 53;

/// What the script counts its moments from, in microseconds since 1970.
const EPOCH: i64 = 4_000_000_000_000_000;

/// The epoch's distance from the last multiple of `window`.
pub(crate) fn phase(window: u64) -> u64 {
    EPOCH.unsigned_abs() % window
}

/// A moment as the script counts it.
pub(crate) fn moment(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX) - EPOCH
}

/// A moment of the script's, in microseconds since 1970; none is earlier.
pub(crate) fn micros(moment: i64) -> u64 {
    u64::try_from(moment.saturating_add(EPOCH)).unwrap_or(0)
}

/// Writes what the script's `struct.unpack` reads: seven bytes, the highest first. The callers'
/// numbers are below 2^53 by the limit's own check or by a cut.
#[derive(Debug, Default)]
pub(crate) struct PackedBytes(pub(crate) Vec<u8>);

impl PackedBytes {
    #[must_use]
    pub(crate) fn number(self, number: u64) -> PackedBytes {
        self.signed(i64::try_from(number).unwrap_or(i64::MAX))
    }

    #[must_use]
    pub(crate) fn signed(mut self, number: i64) -> PackedBytes {
        self.0.extend_from_slice(&number.to_be_bytes()[1..]);
        self
    }

    #[must_use]
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> PackedBytes {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Reads what the script packs.
#[derive(Debug)]
pub(crate) struct PackedReader<'a>(pub(crate) &'a [u8]);

impl PackedReader<'_> {
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<7>()?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[1..].copy_from_slice(number);
        Some(u64::from_be_bytes(bytes))
    }

    pub(crate) fn moment(&mut self) -> Option<i64> {
        // Shifted up and down again, which carries the sign along.
        self.number().map(|number| (number << 8).cast_signed() >> 8)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*word))
    }
}
