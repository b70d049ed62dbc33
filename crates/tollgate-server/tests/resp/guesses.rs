//! Guesses at the password.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::RespBounds;

use crate::support::Server;

async fn say(server: &Server, commands: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_guesses_is_soon_refused_whatever_the_guess() {
    let server = Server::start(RespBounds::default(), Some("sesame")).await;
    let mut in_time = TcpStream::connect(server.address).await.unwrap();
    in_time.write_all(b"AUTH sesame\r\n").await.unwrap();
    let mut ok = [0; 5];
    in_time.read_exact(&mut ok).await.unwrap();
    assert_eq!(&ok, b"+OK\r\n");
    let answers = say(&server, &"AUTH wrong\r\n".repeat(4)).await;
    assert_eq!(answers.matches("-WRONGPASS").count(), 4, "{answers}");
    // Also the right one is refused then, or the answers would say which it is.
    let guesses = "HELLO 3 AUTH default wrong\r\n".repeat(1000) + "AUTH sesame\r\nPING\r\n";
    let answers = say(&server, &guesses).await;
    let wrong = answers.matches("-WRONGPASS").count();
    assert!((6..20).contains(&wrong), "{wrong}");
    let refused = answers.matches("-ERR too many wrong passwords, try again in ").count();
    assert_eq!(wrong + refused, 1001);
    assert!(answers.ends_with("-NOAUTH Authentication required, send AUTH password\r\n+OK\r\n"));
    in_time.write_all(b"PING\r\n").await.unwrap();
    let mut pong = [0; 7];
    in_time.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"+PONG\r\n", "who is in stays in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_password_is_never_counted() {
    let server = Server::start(RespBounds::default(), Some("sesame")).await;
    let answers = say(&server, &"AUTH sesame\r\n".repeat(1000)).await;
    assert_eq!(answers, "+OK\r\n".repeat(1001));
    server.stop().await;
}
