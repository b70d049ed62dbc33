//! A connection that says what is wrong where hyper says only that something is: what is no HTTP, or has
//! too large a head, hyper answers by itself, with a status and no body.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::problem::Problem;

/// What hyper answers by itself, and what it means. Answers of ours with these statuses have a body.
const MEANINGS: [(StatusCode, &str); 3] = [
    (
        StatusCode::BAD_REQUEST,
        "this is no request of HTTP/1.1: one begins with a line such as \"POST /v1/check HTTP/1.1\", \
         and each header after it is a name, a colon and a value",
    ),
    (
        StatusCode::URI_TOO_LONG,
        "the path and the query are too long, put what is long into the body",
    ),
    (
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "the head of the request is too large or has more than 100 fields, see bounds.head",
    ),
];

/// A connection whose answers without a body get one.
#[derive(Debug)]
pub(super) struct Telling<S> {
    stream: S,
    /// What is written instead of an answer that was begun.
    instead: Bytes,
}

impl<S> Telling<S> {
    pub(super) fn new(stream: S) -> Telling<S> {
        Telling { stream, instead: Bytes::new() }
    }
}

/// What is to be written instead of `answer`, if hyper has made it.
fn instead(answer: &[u8]) -> Option<Bytes> {
    let told = answer.strip_prefix(b"HTTP/1.1 ")?;
    let (status, detail) =
        MEANINGS.iter().find(|(status, _)| told.starts_with(status.as_str().as_bytes()))?;
    let mut fields = answer.split(|byte| *byte == b'\n').take_while(|line| line.len() > 1);
    fields.any(|field| field.eq_ignore_ascii_case(b"content-length: 0\r")).then(|| {
        let body = Problem::new(*status, *detail).json();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Bytes::from([head.into_bytes(), body].concat())
    })
}

impl<S: AsyncWrite + Unpin> Telling<S> {
    /// Writes what stands in for `answer`, all of it; `None` if nothing does.
    fn poll_instead(
        &mut self,
        context: &mut Context<'_>,
        answer: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_empty() {
            self.instead = instead(answer)?;
        }
        while !self.instead.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, &self.instead) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => self.instead.advance(written),
                other => return Some(other),
            }
        }
        Some(Poll::Ready(Ok(answer.len())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Telling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Telling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_instead(context, bytes) {
            Some(written) => written,
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bytes.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| piece);
        match self.poll_instead(context, first) {
            Some(written) => written,
            None => Pin::new(&mut self.stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What comes out of a connection of four bytes at a time.
    async fn written(answer: &'static str) -> String {
        let (stream, mut other) = duplex(4);
        let write = async {
            let mut telling = Telling::new(stream);
            telling.write_all(answer.as_bytes()).await.unwrap();
        };
        let mut read = String::new();
        let (_, all) = tokio::join!(write, other.read_to_string(&mut read));
        all.unwrap();
        read
    }

    #[tokio::test]
    async fn what_hyper_answers_by_itself_gets_words_as_long_as_they_say() {
        for (answer, status) in [
            ("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", 400),
            ("HTTP/1.1 414 URI Too Long\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 414),
            ("HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\n\r\n", 431),
        ] {
            let told = written(answer).await;
            let (head, body) = told.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["status"], status);
        }
    }

    #[tokio::test]
    async fn other_answers_pass_as_they_are() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 25\r\n\r\n\r\ncontent-length: 0\r\n    ",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(written(answer).await, answer);
        }
    }
}
