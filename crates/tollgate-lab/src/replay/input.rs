//! Logs as bytes: files or standard input, gzip and zstd found by how they begin.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use super::bounds::Share;

/// A log to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// What comes in on standard input.
    Stdin,
    /// A file.
    File(PathBuf),
    /// What is already there.
    Bytes(Arc<[u8]>),
}

impl Log {
    /// The log that a path on the command line means: `-` is standard input.
    pub fn named(path: &Path) -> Log {
        if path == Path::new("-") { Log::Stdin } else { Log::File(path.to_owned()) }
    }

    /// What reports call it.
    pub fn name(&self) -> String {
        match self {
            Log::Stdin => "standard input".to_owned(),
            Log::File(path) => path.display().to_string(),
            Log::Bytes(_) => "memory".to_owned(),
        }
    }

    /// How many bytes it has, compressed or not, where that is known beforehand.
    pub fn length(&self) -> Option<u64> {
        match self {
            Log::Stdin => None,
            Log::Bytes(bytes) => Some(bytes.len() as u64),
            Log::File(path) => {
                std::fs::metadata(path).ok().filter(|of| of.is_file()).map(|of| of.len())
            }
        }
    }

    /// Opens it, and adds what is read of it to `read`.
    pub(super) fn open(&self, read: &Rc<Cell<u64>>, share: Share) -> io::Result<Box<dyn Read>> {
        let size = share.read_buffer;
        match self {
            Log::Stdin => plain(io::stdin().lock(), size, read),
            Log::Bytes(bytes) => plain(io::Cursor::new(Arc::clone(bytes)), size, read),
            Log::File(path) => {
                let file = File::open(path)?;
                let about = file.metadata()?;
                // Reading one would say so less clearly.
                if about.is_dir() {
                    return Err(io::Error::new(ErrorKind::IsADirectory, "is a directory"));
                }
                // What is no file, such as a pipe, cannot be opened a second time.
                if share.stay_open || !about.is_file() {
                    return plain(file, size, read);
                }
                plain(Reopened { path: path.clone(), at: 0 }, size, read)
            }
        }
    }
}

/// A file that is open only while it is read from.
struct Reopened {
    path: PathBuf,
    /// How much of it was read.
    at: u64,
}

impl Read for Reopened {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.at))?;
        let length = file.read(to)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// What `from` holds, without the compression it may have.
pub(super) fn plain(
    from: impl Read + 'static,
    buffer: usize,
    read: &Rc<Cell<u64>>,
) -> io::Result<Box<dyn Read>> {
    let counted = Counted { from, read: Rc::clone(read) };
    let mut from = BufReader::with_capacity(buffer, counted);
    // A pipe may give less than a magic number at first: what it gives is looked at with the rest.
    let mut begin = Vec::new();
    from.by_ref().take(4).read_to_end(&mut begin)?;
    let is_gzip = begin.starts_with(&[0x1f, 0x8b]);
    let is_zstd = is_zstd(&begin);
    let from = io::Cursor::new(begin).chain(from);
    Ok(match (is_gzip, is_zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(from)),
        (_, true) => Box::new(Zstd { from, decoder: FrameDecoder::new(), is_open: false }),
        _ => Box::new(from),
    })
}

/// A frame's magic number, or that of one to be skipped.
fn is_zstd(begin: &[u8]) -> bool {
    matches!(begin, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

struct Counted<R> {
    from: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        self.read.set(self.read.get() + length as u64);
        Ok(length)
    }
}

/// Any number of zstd frames, one after the other.
struct Zstd<R> {
    from: R,
    decoder: FrameDecoder,
    is_open: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Opens the next frame; whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        loop {
            if self.from.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = self.from.by_ref().take(length.into());
                    io::copy(&mut { skipped }, &mut io::sink())?;
                }
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        let said = self.decoder.get_checksum_from_data();
        if said.is_some() && said != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(ErrorKind::InvalidData, "zstd: the checksum is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBytes;
        loop {
            if !self.is_open {
                self.is_open = self.open()?;
                if !self.is_open {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.from, UptoBytes(to.len())).map_err(wrong)?;
            }
            let length = self.decoder.read(to)?;
            if length > 0 || to.is_empty() {
                return Ok(length);
            }
            self.check()?;
            self.is_open = false;
        }
    }
}

fn wrong(error: FrameDecoderError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("zstd: {error}"))
}
