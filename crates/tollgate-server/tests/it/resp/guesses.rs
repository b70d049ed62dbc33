//! Guesses at the password.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::RespBounds;

use super::support::RespServer;

async fn say(server: &RespServer, commands: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guesses_is_soon_refused_whatever_the_guess() {
    let server = RespServer::start(RespBounds::default(), Some("sesame")).await;
    let mut in_time = TcpStream::connect(server.address).await.unwrap();
    in_time.write_all(b"AUTH sesame\r\n").await.unwrap();
    let mut ok = [0; 5];
    in_time.read_exact(&mut ok).await.unwrap();
    assert_eq!(&ok, b"+OK\r\n");
    let began = std::time::Instant::now();
    let answers = say(&server, &"AUTH wrong\r\n".repeat(4)).await;
    assert_eq!(answers.matches("-WRONGPASS").count(), 4, "{answers}");
    // Also the right one is refused then, or the answers would say which it is.
    let guesses = "HELLO 3 AUTH default wrong\r\n".repeat(1000) + "AUTH sesame\r\nPING\r\n";
    let answers = say(&server, &guesses).await;
    let wrong = answers.matches("-WRONGPASS").count();
    // Ten at once, of which four are gone, and one more every six seconds.
    let most = 6 + began.elapsed().as_secs() / 6;
    assert!((6..=most).contains(&u64::try_from(wrong).unwrap()), "{wrong} of {most}");
    let refused = answers.matches("-ERR ").count();
    assert_eq!(wrong + refused, 1001);
    let codes: Vec<_> = answers.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(codes[1000..], ["-ERR", "-NOAUTH", "+OK"], "also the right one, and then PING");
    in_time.write_all(b"PING\r\n").await.unwrap();
    let mut pong = [0; 7];
    in_time.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"+PONG\r\n", "who is in stays in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_password_is_never_counted() {
    let server = RespServer::start(RespBounds::default(), Some("sesame")).await;
    let answers = say(&server, &"AUTH sesame\r\n".repeat(1000)).await;
    assert_eq!(answers, "+OK\r\n".repeat(1001));
    server.stop().await;
}
