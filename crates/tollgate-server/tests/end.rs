//! Once a server has stopped its state stands still, so that whoever keeps it keeps all of it.
#![allow(clippy::unwrap_used, reason = "of tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::{Gate, Limit, Policy, Request, Rule};
use tollgate_server::{Server, Stopped};

const BODY: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn a_request_that_was_cut_off_is_never_decided() {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(10));
    let gate = Gate::new(Policy::new().rule(rule)).unwrap();
    // It goes on when the server has stopped, as a program's does that keeps the state.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let anywhere = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::builder(gate.clone()).http(anywhere).drain(Duration::from_millis(50));
    let server = runtime.block_on(server.bind()).unwrap();
    let mut client = TcpStream::connect(server.http_address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (stop, stopping) = oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async { drop(stopping.await) }));
    let length = BODY.len();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}");
    write!(client, "{head}\r\nexpect: 100-continue\r\n\r\n{}", &BODY[..5]).unwrap();
    let mut answer = [0; 25];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n", "it waits for the body");

    drop(stop);
    assert_eq!(runtime.block_on(running).unwrap(), Stopped::CutOff);
    // The rest comes too late. There may be nobody left to send it to.
    let _ = client.write_all(&BODY.as_bytes()[5..]);
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    assert_eq!(answer, "");
    assert_eq!(gate.store().len(), 0, "and nothing was decided");
}

#[test]
fn what_is_held_is_given_back_when_the_server_stops() {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_hour(10));
    let gate = Gate::new(Policy::new().rule(rule)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let anywhere = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = runtime.block_on(Server::builder(gate.clone()).http(anywhere).bind()).unwrap();
    let mut client = TcpStream::connect(server.http_address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (stop, stopping) = oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async { drop(stopping.await) }));
    let body = r#"{"attributes": {"user": "ana"}, "cost": 4}"#;
    let head = "POST /v1/reserve HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length:";
    write!(client, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"remaining\":6"), "{answer}");
    drop(stop);
    assert_eq!(runtime.block_on(running).unwrap(), Stopped::InOrder);
    let left = gate.status(&Request::new().with("user", "ana")).remaining();
    assert_eq!(left, 10, "a snapshot would keep it charged for ever");
}
