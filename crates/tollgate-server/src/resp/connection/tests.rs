use std::future::pending;
use std::io;
use std::sync::Arc;
use std::task::Context;

use parking_lot::Mutex;
use tokio::io::{BufStream, DuplexStream, ReadBuf, duplex};
use tokio::task::JoinHandle;
use tollgate::{Gate, Policy};
use tollgate_testkit::DEADLINE;

use super::*;

fn resp() -> Resp {
    Resp::new(Gate::new(Policy::new()).unwrap())
}

/// A connection whose pipe holds `pipe` bytes each way.
fn connect(resp: &Resp, pipe: usize) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(pipe);
    (client, tokio::spawn(run(server, (resp.clone(), None), pending())))
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_sent_away() {
    let resp = resp();
    let began = Instant::now();
    let (_client, connection) = connect(&resp, 64);
    connection.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(resp.counts().timed_out, 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_byte_by_byte_has_one_time_for_all_of_it() {
    let resp = resp();
    let began = Instant::now();
    let (mut client, connection) = connect(&resp, 64);
    for byte in b"*2\r\n$4\r\nECHO\r\n$100\r\naaaaaaaaaaaaaaaaaaa" {
        if client.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    connection.await.unwrap();
    let waited = began.elapsed().as_secs();
    assert!((10..=12).contains(&waited), "{waited} s");
    assert_eq!(resp.counts().timed_out, 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_as_long_as_the_bound_says_since_its_last_command() {
    let resp = resp();
    let (mut client, connection) = connect(&resp, 64);
    let mut answer = [0; 7];
    let began = Instant::now();
    for _ in 0..3 {
        client.write_all(b"PING\r\n").await.unwrap();
        client.read_exact(&mut answer).await.unwrap();
        tokio::time::sleep(Duration::from_secs(599)).await;
    }
    connection.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 2 * 599 + 600);
    assert_eq!(client.read(&mut answer).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_sent_away_and_nothing_more_is_decided_for_it() {
    let resp = resp();
    let (mut client, connection) = connect(&resp, 1024);
    let began = Instant::now();
    let pipeline = b"CL.THROTTLE a 1000000 1000000 60\r\n".repeat(10_000);
    assert!(client.write_all(&pipeline).await.is_err());
    connection.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(resp.counts().timed_out, 1);
    let mut answer = Vec::new();
    resp.session().answer(b"CL.THROTTLE a 1000000 1000000 60 0\r\n", &mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let left: u64 = answer.split("\r\n:").nth(3).unwrap().parse().unwrap();
    assert!(left > 999_000, "{left} left of a million");
}

#[tokio::test]
async fn a_client_that_half_closes_gets_all_its_answers() {
    let resp = resp();
    let (mut client, connection) = connect(&resp, 1 << 20);
    client.write_all(&b"ECHO hello\r\n".repeat(5_000)).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    assert_eq!(answers, b"$5\r\nhello\r\n".repeat(5_000));
    connection.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_stream_keeps_back_is_written_before_more_is_waited_for() {
    // As TLS does while its client is slow.
    let (mut client, server) = duplex(1024);
    let kept_back = BufStream::with_capacity(1024, 64 * 1024, server);
    let connection = tokio::spawn(run(kept_back, (resp(), None), pending()));
    let text = "x".repeat(16 * 1024);
    let command = format!("*2\r\n$4\r\nECHO\r\n$16384\r\n{text}\r\n");
    client.write_all(command.as_bytes()).await.unwrap();
    let began = Instant::now();
    let mut answer = vec![0; format!("$16384\r\n{text}\r\n").len()];
    client.read_exact(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"x\r\n"));
    assert_eq!(began.elapsed(), Duration::ZERO, "and not when the connection ends");
    connection.abort();
}

#[tokio::test(start_paused = true)]
async fn what_follows_garbage_is_read_so_that_the_word_that_says_why_is_not_lost() {
    let resp = resp();
    let (mut client, connection) = connect(&resp, 1024);
    client.write_all(&b"*1\r\n?".repeat(10_000)).await.expect("somebody reads it");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("-ERR Protocol error: expected '$', got '?'"), "{answer}");
    connection.await.unwrap();
}

#[tokio::test]
async fn a_stop_comes_after_the_answers_to_what_was_read() {
    let resp = resp();
    let (mut client, server) = duplex(1024);
    client.write_all(b"PING\r\nPING\r\n").await.unwrap();
    run(server, (resp, None), async {}).await;
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    assert_eq!(answers, b"+PONG\r\n+PONG\r\n");
}

#[tokio::test]
async fn a_stop_comes_also_where_a_client_never_pauses() {
    let (client, server) = duplex(64 * 1024);
    let (mut answers, mut commands) = tokio::io::split(client);
    let flood = tokio::spawn(async move {
        let pipeline = b"PING\r\n".repeat(8192);
        while commands.write_all(&pipeline).await.is_ok() {}
    });
    let (answered, stop) = tokio::sync::oneshot::channel();
    let reader = tokio::spawn(async move {
        let mut read = vec![0; 1 << 20];
        // Long after the first commands are there.
        answers.read_exact(&mut read).await.unwrap();
        answered.send(()).unwrap();
        while let Ok(1..) = answers.read(&mut read).await {}
    });
    let stop = async { stop.await.unwrap() };
    let ended = timeout(DEADLINE, run(server, (resp(), None), stop)).await;
    assert!(ended.is_ok(), "it is answered for ever");
    let _ = tokio::join!(flood, reader);
}

/// A stream that writes down who read and who wrote.
struct Seen {
    name: &'static str,
    stream: DuplexStream,
    order: Arc<Mutex<Vec<String>>>,
}

impl AsyncRead for Seen {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !buffer.filled().is_empty() {
            self.order.lock().push(format!("{} reads", self.name));
        }
        polled
    }
}

impl AsyncWrite for Seen {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.order.lock().push(format!("{} writes", self.name));
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[tokio::test]
async fn what_came_at_once_is_read_before_the_first_short_answer_goes_out() {
    let (resp, order) = (resp(), Arc::new(Mutex::new(Vec::new())));
    let mut clients = Vec::new();
    for name in ["ana", "ben", "cleo"] {
        let (mut client, stream) = duplex(1024);
        client.write_all(b"PING\r\n").await.unwrap();
        let stream = Seen { name, stream, order: order.clone() };
        tokio::spawn(run(stream, (resp.clone(), None), pending()));
        clients.push(client);
    }
    for client in &mut clients {
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }
    let right = ["ana reads", "ben reads", "cleo reads", "ana writes", "ben writes", "cleo writes"];
    assert_eq!(*order.lock(), right);
}
