//! A connection whose other end must speak, and read: one that does not is not waited for without
//! end.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection that fails when nothing of what is written goes out for so long.
#[derive(Debug)]
pub(crate) struct Patience<S> {
    stream: S,
    longest: Duration,
    /// Since when nothing goes out: only while that is so.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Until when something must come in: only before anything has.
    silent: Option<Pin<Box<Sleep>>>,
}

impl<S> Patience<S> {
    pub(crate) fn new(stream: S, longest: Duration) -> Patience<S> {
        Patience { stream, longest, waiting: None, silent: None }
    }

    /// Fails also when nothing at all comes in for so long from now.
    pub(crate) fn first_byte(mut self, within: Duration) -> Patience<S> {
        self.silent = Some(Box::pin(sleep(within)));
        self
    }

    fn bounded<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let longest = self.longest;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(longest)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "nobody reads the answers")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.silent = None;
        }
        let Some(silent) = &mut self.silent else { return read };
        ready!(silent.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "nothing was said")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.bounded(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_end_that_never_reads_is_given_up() {
        let (stream, _other) = duplex(4);
        let before = Instant::now();
        let error = Patience::new(stream, LONGEST).write_all(b"longer than four").await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(before.elapsed() >= LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_never_speaks_is_given_up_and_one_that_has_spoken_is_not() {
        let (stream, mut other) = duplex(4);
        let mut patience = Patience::new(stream, LONGEST).first_byte(LONGEST / 2);
        let before = Instant::now();
        let error = patience.read_u8().await.unwrap_err();
        assert_eq!((error.kind(), before.elapsed()), (ErrorKind::TimedOut, LONGEST / 2));
        let mut patience = patience.first_byte(LONGEST / 2);
        other.write_all(b"ab").await.unwrap();
        assert_eq!(patience.read_u8().await.unwrap(), b'a');
        sleep(LONGEST).await;
        assert_eq!(patience.read_u8().await.unwrap(), b'b');
        let speaks = async { (sleep(LONGEST).await, other.write_all(b"c").await) };
        assert_eq!(tokio::join!(patience.read_u8(), speaks).0.unwrap(), b'c');
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_reads_slowly_is_waited_for() {
        let (stream, mut other) = duplex(4);
        let reading = async {
            let mut read = [0; 16];
            for byte in &mut read {
                sleep(LONGEST / 2).await;
                *byte = other.read_u8().await.unwrap();
            }
            read
        };
        let mut patience = Patience::new(stream, LONGEST);
        let (written, read) = tokio::join!(patience.write_all(b"longer than four"), reading);
        assert!(written.is_ok());
        assert_eq!(&read, b"longer than four");
    }
}
