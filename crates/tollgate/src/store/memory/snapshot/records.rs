//! The records of a snapshot, as bytes.

use std::io::{self, Read, Write};

use super::super::RegisteredLimit;
use super::super::blocks::BlockRecord;
use super::{SnapshotError, malformed};
use crate::algorithm::{EventLog, State, StateRef};
use crate::key::KeyId;
use crate::time::Timestamp;

/// Writes numbers, texts and records.
pub(super) struct RecordWriter<W>(pub(super) W);

impl<W: Write> RecordWriter<W> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(super) fn u64(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) fn length(&mut self, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.bytes(&length.to_le_bytes())
    }

    pub(super) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        let length = u16::try_from(text.len()).map_err(io::Error::other)?;
        self.bytes(&length.to_le_bytes())?;
        self.bytes(text)
    }

    pub(super) fn limit(&mut self, named: &RegisteredLimit) -> io::Result<()> {
        self.text(named.limiter.as_bytes())?;
        self.text(named.limit.to_string().as_bytes())
    }

    pub(super) fn long_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length(bytes.len())?;
        self.bytes(bytes)
    }

    pub(super) fn block(&mut self, fingerprint: KeyId, blocked: &BlockRecord) -> io::Result<()> {
        self.bytes(&[2])?;
        self.u64(fingerprint.id)?;
        self.u64(fingerprint.place)?;
        self.text(blocked.rule.as_bytes())?;
        self.text(blocked.key.as_bytes())?;
        self.u64(blocked.until.as_nanos())?;
        self.u64(blocked.forgotten.as_nanos())?;
        self.bytes(&blocked.times.to_le_bytes())?;
        self.bytes(&[u8::from(blocked.by_hand)])
    }

    pub(super) fn state(&mut self, state: StateRef<'_>) -> io::Result<()> {
        match state {
            StateRef::Words(words) => {
                self.bytes(&[0])?;
                words.into_iter().try_for_each(|word| self.u64(word))
            }
            StateRef::Log(log) => {
                self.bytes(&[1])?;
                self.length(log.entries().len())?;
                log.entries().try_for_each(|(at, units)| {
                    self.u64(at)?;
                    self.u64(units)
                })
            }
        }
    }
}

/// Reads numbers, texts and records.
pub(super) struct RecordReader<R>(pub(super) R);

impl<R: Read> RecordReader<R> {
    pub(super) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn length(&mut self) -> io::Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    pub(super) fn text(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(u16::from_le_bytes(self.array()?))];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Bytes that may be many. A wrong length takes no more memory than there are bytes.
    pub(super) fn long_bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.length()?;
        let mut bytes = Vec::new();
        (&mut self.0).take(length as u64).read_to_end(&mut bytes)?;
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) fn string(&mut self) -> Result<String, SnapshotError> {
        String::from_utf8(self.text()?).map_err(|_| malformed("a name is not UTF-8"))
    }

    pub(super) fn state(&mut self) -> Result<State, SnapshotError> {
        let moment = |nanos| Timestamp::from_nanos(nanos).as_nanos();
        match self.array::<1>()? {
            [0] => Ok(State::Words([self.u64()?, self.u64()?, self.u64()?])),
            [1] => {
                let count = self.length()?;
                let (mut entries, mut room) = (Vec::new(), u64::MAX);
                for _ in 0..count {
                    let (at, units) = (moment(self.u64()?), self.u64()?.min(room));
                    // Together they fit a running total, which would wrap.
                    room -= units;
                    entries.push((at, units));
                }
                Ok(State::Log(EventLog::from_entries(entries)))
            }
            [kind] => Err(malformed(format!("a state is of kind {kind}, must be 0 or 1"))),
        }
    }
}
