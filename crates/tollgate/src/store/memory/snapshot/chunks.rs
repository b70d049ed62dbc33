//! The frame of a snapshot: chunks, each followed by a checksum of all bytes before it.
//!
//! ```text
//! "tollgate" version:u16 (length:u32 content:[length] checksum:u64)*
//! ```
//!
//! A chunk of length 0 is the last. A reader verifies a chunk before it hands out any byte of it, so
//! that damage is never interpreted, and keeps no more than one chunk in memory.

use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;

use super::summary::ContentHash;
use super::{SnapshotError, malformed};

const MAGIC: [u8; 8] = *b"tollgate";
const VERSION: u16 = 6;

/// The length of every chunk but the last two.
const CHUNK: usize = 64 << 10;

/// Writes the content of a snapshot in chunks.
pub(super) struct ChunkWriter<'a> {
    to: &'a mut dyn Write,
    chunk: Vec<u8>,
    sum: SipHasher13,
    content: ContentHash,
}

impl<'a> ChunkWriter<'a> {
    /// Writes the preamble.
    pub(super) fn new(to: &'a mut dyn Write) -> io::Result<ChunkWriter<'a>> {
        let (sum, content) = (SipHasher13::new(), ContentHash::new());
        let mut writer = ChunkWriter { to, chunk: Vec::new(), sum, content };
        writer.write_summed(&MAGIC)?;
        writer.write_summed(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    /// Writes the last chunk. Returns the hash of the content.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if !self.chunk.is_empty() {
            self.write_chunk()?;
        }
        self.write_chunk()?;
        Ok(self.content.finish())
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        let length = u32::try_from(chunk.len()).map_err(io::Error::other)?;
        self.write_summed(&length.to_le_bytes())?;
        self.write_summed(&chunk)?;
        self.content.add(&chunk);
        self.to.write_all(&self.sum.finish().to_le_bytes())?;
        self.chunk = chunk;
        self.chunk.clear();
        Ok(())
    }

    fn write_summed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.write(bytes);
        self.to.write_all(bytes)
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK {
            self.write_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the content of a snapshot.
pub(super) struct ChunkReader<'a> {
    from: &'a mut dyn Read,
    chunk: Vec<u8>,
    /// The number of bytes of the chunk that were read.
    read: usize,
    is_last: bool,
    sum: SipHasher13,
    content: ContentHash,
}

impl<'a> ChunkReader<'a> {
    /// Reads the preamble.
    pub(super) fn new(from: &'a mut dyn Read) -> Result<ChunkReader<'a>, SnapshotError> {
        let (sum, content) = (SipHasher13::new(), ContentHash::new());
        let chunk = Vec::new();
        let mut reader = ChunkReader { from, chunk, read: 0, is_last: false, sum, content };
        if reader.read_summed::<8>()? != MAGIC {
            return Err(malformed(
                "it does not begin with \"tollgate\", give a file written by snapshot",
            ));
        }
        let version = u16::from_le_bytes(reader.read_summed()?);
        if version != VERSION {
            return Err(malformed(format!(
                "its version is {version}, this build reads {VERSION}; start without it"
            )));
        }
        Ok(reader)
    }

    /// Checks that nothing is left. Returns the hash of the content.
    pub(super) fn finish(mut self) -> Result<u64, SnapshotError> {
        if self.read == self.chunk.len() && !self.is_last {
            self.read_chunk()?;
        }
        if !self.is_last {
            return Err(malformed("it has content after its last record"));
        }
        match self.from.read_exact(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(self.content.finish()),
            Err(error) => Err(error.into()),
            Ok(()) => Err(malformed("bytes follow its end, restore from an undamaged file")),
        }
    }

    fn read_chunk(&mut self) -> io::Result<()> {
        let length = u32::from_le_bytes(self.read_summed()?) as usize;
        if length > CHUNK {
            return Err(damaged(format!("a chunk is {length} bytes long, at most {CHUNK} are")));
        }
        // In its place only once it is verified: after an error nothing of it can be read.
        let mut chunk = std::mem::take(&mut self.chunk);
        self.read = 0;
        chunk.resize(length, 0);
        self.from.read_exact(&mut chunk)?;
        self.sum.write(&chunk);
        let mut sum = [0; 8];
        self.from.read_exact(&mut sum)?;
        if u64::from_le_bytes(sum) != self.sum.finish() {
            return Err(damaged("its checksum is wrong, restore from an undamaged file"));
        }
        self.content.add(&chunk);
        (self.chunk, self.is_last) = (chunk, length == 0);
        Ok(())
    }

    fn read_summed<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.sum.write(&bytes);
        Ok(bytes)
    }
}

impl Read for ChunkReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() && !self.is_last {
            self.read_chunk()?;
        }
        let rest = &self.chunk[self.read..];
        let taken = bytes.len().min(rest.len());
        bytes[..taken].copy_from_slice(&rest[..taken]);
        self.read += taken;
        Ok(taken)
    }
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
