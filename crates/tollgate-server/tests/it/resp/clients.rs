//! Clients that others have written: redis-cli and the `redis` crate.

use std::process::Stdio;

use redis::{Value, cmd};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tollgate_server::RespBounds;

use super::support::RespServer;

/// What redis-cli prints for a command, raw.
async fn redis_cli(server: &RespServer, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string()]).args(arguments);
    let output = command.output().await.expect("redis-cli is installed");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_asks_in_both_protocols() {
    let server = RespServer::start(RespBounds::default(), None).await;
    assert_eq!(redis_cli(&server, &["PING"]).await, "PONG\n");
    assert_eq!(
        redis_cli(&server, &["CL.THROTTLE", "u", "1", "2", "60"]).await,
        "0\n2\n1\n-1\n30\n"
    );
    assert_eq!(
        redis_cli(&server, &["-3", "CL.THROTTLE", "u", "1", "2", "60"]).await,
        "0\n2\n0\n-1\n60\n"
    );
    assert_eq!(
        redis_cli(&server, &["CL.THROTTLE", "u", "1", "2", "60"]).await,
        "1\n2\n0\n30\n60\n"
    );
    assert_eq!(redis_cli(&server, &["THROTTLE", "u", "1", "2", "60"]).await, "1\n1\n0\n30\n0\n");
    let checked = redis_cli(&server, &["-3", "--json", "TG.CHECK", "user", "ana"]).await;
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    let figures = ["allowed", "limit", "remaining"].map(|name| checked[name].as_u64());
    assert_eq!(figures, [Some(1), Some(10), Some(9)], "{checked}");
    assert!(redis_cli(&server, &["NONSENSE"]).await.starts_with("ERR "));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_pipes_thousands_of_commands() {
    let server = RespServer::start(RespBounds::default(), None).await;
    let mut child = Command::new("redis-cli")
        .args(["-p", &server.address.port().to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli is installed");
    let mut commands = child.stdin.take().unwrap();
    commands.write_all(&b"THROTTLE u 9 9 60\r\n".repeat(20_000)).await.unwrap();
    drop(commands);
    let output = child.wait_with_output().await.unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.lines().last(), Some("errors: 0, replies: 20000"), "{output}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_crate_connects_and_pipelines_in_both_protocols() {
    let server = RespServer::start(RespBounds::default(), None).await;
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://{}/?protocol={protocol}", server.address);
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut pipeline = redis::pipe();
        for _ in 0..100 {
            pipeline.cmd("CL.THROTTLE").arg(protocol).arg(49).arg(50).arg(60);
        }
        let answers: Vec<Vec<i64>> = pipeline.query_async(&mut connection).await.unwrap();
        let allowed = answers.iter().filter(|answer| answer[0] == 0).count();
        assert_eq!((answers.len(), allowed), (100, 50), "{protocol}");
        let key: &[u8] = b"\xff\0\r\n";
        let mut ask = cmd("THROTTLE");
        ask.arg(key).arg(1).arg(1).arg(60);
        let answer: Vec<i64> = ask.query_async(&mut connection).await.unwrap();
        assert_eq!(answer[1..3], [1, 0]);
        let checked: Value =
            cmd("TG.CHECK").arg(&["user", protocol]).query_async(&mut connection).await.unwrap();
        assert_eq!(matches!(checked, Value::Map(_)), protocol == "resp3", "{checked:?}");
        let error = cmd("CL.THROTTLE").arg("k").exec_async(&mut connection).await.unwrap_err();
        assert_eq!(error.code(), Some("ERR"), "{error}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_password_only_who_gives_it_is_answered() {
    let server = RespServer::start(RespBounds::default(), Some("sesame")).await;
    assert!(redis_cli(&server, &["PING"]).await.starts_with("NOAUTH"));
    assert!(redis_cli(&server, &["THROTTLE", "u", "1", "1", "60"]).await.starts_with("NOAUTH"));
    assert!(redis_cli(&server, &["AUTH", "wrong"]).await.starts_with("WRONGPASS"));
    let client = redis::Client::open(format!("redis://:sesame@{}/?protocol=resp3", server.address));
    let mut connection = client.unwrap().get_multiplexed_async_connection().await.unwrap();
    cmd("PING").exec_async(&mut connection).await.unwrap();
    let client = redis::Client::open(format!("redis://:wrong@{}/", server.address)).unwrap();
    assert!(client.get_multiplexed_async_connection().await.is_err());
    server.stop().await;
}
