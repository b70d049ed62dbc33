//! Room to read and to write, which the connections of a thread hand on to each other: one that
//! waits holds none.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::resp::bounds::{KEPT_BUFFERS, MAX_COMMAND, READ_BUFFER};

thread_local! {
    /// As long as is read at once, or empty while a connection has it.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUTPUTS: RefCell<Outputs> = const { RefCell::new(Outputs { kept: Vec::new(), bytes: 0 }) };
}

/// Buffers that nobody answers into, and what they take up.
struct Outputs {
    kept: Vec<Vec<u8>>,
    bytes: usize,
}

/// An empty buffer to answer into.
pub(super) fn take_output() -> Vec<u8> {
    OUTPUTS.with_borrow_mut(|outputs| {
        let output = outputs.kept.pop().unwrap_or_default();
        outputs.bytes -= output.capacity();
        output
    })
}

/// Leaves a buffer to the next that answers, unless enough are kept.
pub(super) fn give_back_output(mut output: Vec<u8>) {
    OUTPUTS.with_borrow_mut(|outputs| {
        let bytes = outputs.bytes + output.capacity();
        if output.capacity() > 0 && bytes <= KEPT_BUFFERS {
            output.clear();
            outputs.kept.push(output);
            outputs.bytes = bytes;
        }
    });
}

/// Bytes that were read and not answered yet.
#[derive(Default)]
pub(super) struct Input {
    /// Empty while there are none.
    room: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    /// Reads what there is and says how much. While there is nothing, it takes up no room.
    pub(super) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut space = ReadBuf::new(self.space());
        let polled = Pin::new(stream).poll_read(context, &mut space);
        let read = space.filled().len();
        self.end += read;
        if polled.is_pending() {
            self.tidy();
        }
        polled.map_ok(|()| read)
    }

    /// Whether all there is room for was read, so that there may be more.
    pub(super) fn is_full(&self) -> bool {
        self.end == self.room.len()
    }

    /// Where to read to; never empty, since no command takes more than the bound.
    fn space(&mut self) -> &mut [u8] {
        if self.room.is_empty() {
            self.room = ROOM.take();
        }
        if self.start > 0 && (self.start == self.end || self.end == self.room.len()) {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.room.len() {
            let grown = (self.room.len() * 2).clamp(READ_BUFFER, MAX_COMMAND + READ_BUFFER);
            self.room.resize(grown, 0);
        }
        &mut self.room[self.end..]
    }

    pub(super) fn used(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Leaves the room to the next that reads, once all is answered.
    pub(super) fn tidy(&mut self) {
        if self.start == self.end {
            let room = std::mem::take(self).room;
            if room.len() == READ_BUFFER {
                ROOM.set(room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_every_command_and_it_is_given_back() {
        let mut input = Input::default();
        for _ in 0..MAX_COMMAND {
            assert!(!input.space().is_empty());
            input.end += 1;
        }
        assert!(input.room.len() <= MAX_COMMAND + READ_BUFFER);
        input.used(MAX_COMMAND - 3);
        input.tidy();
        assert_eq!(input.bytes().len(), 3, "what is not answered yet stays");
        assert!(!input.space().is_empty());
        input.used(3);
        input.tidy();
        assert_eq!(input.room.capacity(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_waits_takes_up_no_room() {
        let (mut client, mut server) = tokio::io::duplex(64);
        let mut input = Input::default();
        let mut fill = async |input: &mut Input| {
            std::future::poll_fn(|context| Poll::Ready(input.poll_fill(&mut server, context))).await
        };
        assert!(fill(&mut input).await.is_pending());
        assert_eq!(input.room.capacity(), 0);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"PING\r\n").await.unwrap();
        assert!(matches!(fill(&mut input).await, Poll::Ready(Ok(6))));
        assert_eq!(input.bytes(), b"PING\r\n");
        input.used(6);
        input.tidy();
        assert!(fill(&mut input).await.is_pending());
        assert_eq!(input.room.capacity(), 0);
        assert_eq!(ROOM.take().len(), READ_BUFFER, "the next finds it");
    }

    #[test]
    fn only_so_much_is_kept_to_answer_into() {
        give_back_output(vec![1; KEPT_BUFFERS]);
        let kept = take_output();
        assert!(kept.is_empty() && kept.capacity() >= KEPT_BUFFERS);
        give_back_output(vec![1; KEPT_BUFFERS + 1]);
        assert_eq!(take_output().capacity(), 0);
        (0..10).for_each(|_| give_back_output(vec![1; KEPT_BUFFERS / 4]));
        let kept = std::iter::repeat_with(take_output).take_while(|of| of.capacity() > 0).count();
        assert_eq!(kept, 4, "of many as of one");
    }
}
