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

use super::bounds::{MAX_ZSTD_WINDOW, Share};

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
        (_, true) => Box::new(Zstd {
            from,
            head: io::Cursor::default(),
            decoder: FrameDecoder::new(),
            is_open: false,
        }),
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

/// The most bytes of a zstd frame header, with its magic number.
const LONGEST_HEADER: u64 = 18;

/// The largest window for which `ruzstd` uses a decoder again.
const MAX_REUSED_WINDOW: u64 = 100 << 20;

/// Any number of zstd frames, one after the other.
struct Zstd<R> {
    from: R,
    /// Bytes that were read ahead to find the window of a frame. They come before `from`.
    head: io::Cursor<Vec<u8>>,
    decoder: FrameDecoder,
    is_open: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Opens the next frame. Returns whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        loop {
            self.read_head()?;
            let head = self.head.get_ref();
            if head.is_empty() {
                return Ok(false);
            }
            // Before the decoder allocates it. Without a whole header, the decoder reports the error.
            let window = window_size(head).unwrap_or(0);
            if window > MAX_ZSTD_WINDOW {
                return Err(too_large(window));
            }
            if window > MAX_REUSED_WINDOW {
                self.decoder = FrameDecoder::new();
            }
            let mut from = self.head.by_ref().chain(&mut self.from);
            match self.decoder.reset(&mut from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut from.take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    /// Reads ahead until `head` holds a whole frame header or the input ends.
    fn read_head(&mut self) -> io::Result<()> {
        let read = usize::try_from(self.head.position()).unwrap_or(usize::MAX);
        let mut head = std::mem::take(self.head.get_mut());
        head.drain(..read.min(head.len()));
        let missing = LONGEST_HEADER.saturating_sub(head.len() as u64);
        self.from.by_ref().take(missing).read_to_end(&mut head)?;
        self.head = io::Cursor::new(head);
        Ok(())
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
                let from = self.head.by_ref().chain(&mut self.from);
                self.decoder.decode_blocks(from, UptoBytes(to.len())).map_err(wrong)?;
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

fn too_large(window: u64) -> io::Error {
    let (window, most) = (window.div_ceil(1 << 20), MAX_ZSTD_WINDOW >> 20);
    let message = format!("zstd: the window is {window} MiB, must be at most {most} MiB");
    io::Error::new(ErrorKind::InvalidData, message)
}

/// The window of the zstd frame whose header `head` begins with (RFC 8878, section 3.1.1.1). `None`
/// for other frames and for a header that is not whole.
fn window_size(head: &[u8]) -> Option<u64> {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = head else { return None };
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window of a single segment is its length, which follows the number of a dictionary.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let length = rest.get(dictionary..dictionary + length)?;
    // Two bytes count from 256, which makes no difference here.
    Some(length.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
}
