//! Every maximum of a replay in one place, each with its reason.

/// How much is asked of a file at once, and how much text is read into one block: enough that what
/// is done for each costs nothing, and little enough that lines are still in the cache when they are
/// decided. With many logs, less.
const READ_BUFFER: usize = 128 << 10;
const BLOCK: usize = 256 << 10;

/// The least of it: a block need not be larger than a page or two.
const LEAST_BUFFER: usize = 8 << 10;

/// How much all buffers together may take.
const BUFFERS: usize = 96 << 20;

/// How many files are kept open. More are opened anew for each of their blocks: a process may have
/// a thousand or so.
const OPEN_FILES: usize = 64;

/// The largest window of a zstd frame. The `zstd` command has the same default: a small file can ask
/// for terabytes.
pub(super) const MAX_ZSTD_WINDOW: u64 = 128 << 20;

/// What each of so many logs may take, so that thousands take no more than a few do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// How much is asked of a file at once.
    pub(super) read_buffer: usize,
    /// How much text is read into one block.
    pub(super) block: usize,
    /// How much text waits for lines before it.
    pub(super) held: usize,
    /// Whether files stay open while they are read.
    pub(super) stay_open: bool,
}

impl Share {
    pub(super) fn of(logs: usize) -> Share {
        let part = BUFFERS / logs.max(1);
        Share {
            read_buffer: (part / 4).clamp(LEAST_BUFFER, READ_BUFFER),
            block: (part / 2).clamp(LEAST_BUFFER, BLOCK),
            held: MAX_HELD / logs.max(1),
            stay_open: logs <= OPEN_FILES,
        }
    }
}

/// The longest line that is looked at: servers cut requests far below. A longer one is malformed,
/// and read over without being held.
pub(super) const MAX_LINE: usize = 1 << 20;

/// How much text waits for lines before it, unless everything is sorted: what a very busy server
/// writes within the window.
const MAX_HELD: usize = 512 << 20;

/// How many malformed lines are shown.
pub(super) const SHOWN_MALFORMED: usize = 5;

/// How many bytes of a line are shown.
pub(super) const SHOWN_LINE: usize = 300;

/// How many bytes of a key are shown.
pub(super) const SHOWN_KEY: usize = 200;

/// How many keys with the most refusals are kept: those with fewer are forgotten first, and any
/// key with more than a four-thousandth of all refusals is there.
pub(super) const TOP_KEYS: usize = 4096;

/// How many points of time a picture has at most; two become one when there are more.
pub(super) const POINTS: usize = 512;

/// How many rules a picture tells apart; the rest are one.
pub(super) const SERIES: usize = 7;

/// How many tiers are counted apart: a client may write as many as it likes into a field.
pub(super) const TIERS: usize = 256;

/// How many bytes the states of all candidate limits may take: about what a processor has near.
/// States that lie further away take longer to fetch than everything else of a line, and a part of so
/// many keys says as much as all of them.
pub(super) const LADDER_BYTES: usize = 32 << 20;

/// How many limits of a policy get suggestions.
pub(super) const LADDERS: usize = 64;
