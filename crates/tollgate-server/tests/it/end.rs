//! A stopped server no longer changes its state, so that a snapshot holds all of it.

use std::io::Read;
use std::time::Duration;

use tollgate::Request;
use tollgate_server::Stopped;

use crate::support::TestServer;

const BODY: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn a_request_that_was_cut_off_is_never_decided() {
    // The server's runtime runs on after the stop, as in a program that saves the state.
    let mut server = TestServer::with(|server| server.drain(Duration::from_millis(50)));
    let mut client = server.connect();
    let length = BODY.len();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}");
    client.write(format!("{head}\r\nexpect: 100-continue\r\n\r\n{}", &BODY[..5]));
    assert_eq!(client.read().unwrap().status, 100, "it waits for the body");

    assert_eq!(server.stopped(), Stopped::CutOff);
    // The rest comes too late. The connection may be gone.
    client.write(&BODY[5..]);
    let mut answer = String::new();
    let _ = client.0.read_to_string(&mut answer);
    assert_eq!(answer, "");
    assert_eq!(server.gate().store().len(), 0, "and nothing was decided");
}

#[test]
fn what_is_held_is_given_back_when_the_server_stops() {
    let mut server = TestServer::start();
    let held = server.post("/v1/reserve", r#"{"attributes": {"user": "ana"}, "cost": 4}"#);
    assert_eq!(held.json()["remaining"], 6);
    assert_eq!(server.stopped(), Stopped::InOrder);
    let left = server.gate().status(&Request::new().with("user", "ana")).remaining();
    assert_eq!(left, 10, "a snapshot would keep it charged for ever");
}
