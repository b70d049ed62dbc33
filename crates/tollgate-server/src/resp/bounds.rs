//! Every maximum of the Redis protocol in one place, each with its reason.

use std::time::Duration;

/// The longest argument that is read at all. Above the longest key, whatever the operator makes of
/// that, so that one that is too long gets an answer and keeps its connection.
pub(super) const MAX_BULK: usize = 128 << 10;

/// The most arguments of a command: twice the attributes, and room to say that it was more.
pub(super) const MAX_ARGUMENTS: usize = 1024;

/// The most bytes of one command, which is what a connection may make the server keep.
pub(super) const MAX_COMMAND: usize = 256 << 10;

/// The most commands between `MULTI` and `EXEC`...
pub(super) const MAX_QUEUED: usize = 2048;

/// ...and their bytes, as they were received: with words of usual lengths, as many commands.
pub(super) const MAX_QUEUED_BYTES: usize = 128 << 10;

/// How many commands `EXEC` runs before the others of its thread go first: less than a millisecond
/// of work.
pub(super) const EXEC_STEP: usize = 256;

/// The longest inline command, which people type.
pub(super) const MAX_INLINE: usize = 8 << 10;

/// The longest number in a frame: more digits than any 64-bit number, signed, has.
pub(super) const MAX_NUMBER: usize = 20;

/// The longest name that a client gives its connection.
pub(super) const MAX_CLIENT_NAME: usize = 256;

/// What a connection reads at once: a pipeline of 200 commands fits, and is decided in less time
/// than another connection would notice. Nobody keeps it while it waits.
pub(super) const READ_BUFFER: usize = 16 << 10;

/// What a connection writes at once. Nothing more is decided before it is written, so that a
/// client that does not read cannot make the server keep its answers.
pub(super) const WRITE_BUFFER: usize = 64 << 10;

/// Answers up to this many bytes wait until the thread has read what else has come: those of a
/// pipeline of a hundred commands. Longer ones are written at once, so that little is kept.
pub(super) const SHORT_ANSWERS: usize = 4 << 10;

/// The buffers that a thread keeps to answer into, together: one that was full, and has grown for
/// it, or those of many short answers.
pub(super) const KEPT_BUFFERS: usize = 2 * WRITE_BUFFER;

/// How many bytes of a client's word an error repeats.
pub(super) const SHOWN_VALUE: usize = 64;

/// How many connections at once unless the operator says otherwise: with [`MAX_COMMAND`] and
/// [`MAX_QUEUED_BYTES`] each, whose room is at most twice as much, two gigabytes at the very worst.
pub(super) const CONNECTIONS: usize = 4096;

/// How long a new connection may say nothing.
pub(super) const FIRST_BYTE: Duration = Duration::from_secs(10);

/// How long the rest of a command may take: a network's worst minute is not worth a place.
pub(super) const REST_OF_COMMAND: Duration = Duration::from_secs(10);

/// How long a connection may be idle: longer than pools of clients leave theirs unused.
pub(super) const IDLE: Duration = Duration::from_secs(600);

/// How long a client may leave its answers unread.
pub(super) const UNREAD: Duration = Duration::from_secs(10);

/// How long connections have to finish when the server stops.
pub(super) const DRAIN: Duration = Duration::from_secs(5);
