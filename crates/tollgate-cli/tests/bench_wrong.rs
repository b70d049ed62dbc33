//! `tollgate bench` where something is wrong: the server, the port, what is asked, an option.
#![cfg(unix)]

#[path = "support/served.rs"]
mod served;
mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use served::Served;
use support::{Folder, Said};

const PROTOCOLS: [&str; 3] = ["http", "rls", "resp"];

fn bench(arguments: &[&str]) -> Said {
    Folder::new().tollgate(&[&["bench"], arguments].concat())
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let port = tollgate_testkit::free_port();
    for scheme in ["http", "grpc", "redis"] {
        let said = bench(&[&format!("{scheme}://127.0.0.1:{port}")]);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
        let told = format!("cannot connect to 127.0.0.1:{port}: Connection refused");
        assert!(said.err.contains(&told) && said.err.contains("tollgate serve"), "{}", said.err);
    }
}

#[test]
fn a_port_of_another_protocol_is_told() {
    let served = Served::start(&Folder::new(), &[]);
    for (spoken, name) in [("http", "HTTP"), ("grpc", "gRPC"), ("redis", "the Redis protocol")] {
        for other in PROTOCOLS.map(|protocol| served.url(protocol)) {
            let Some(address) = other.split("://").nth(1).filter(|_| !other.starts_with(spoken))
            else {
                continue;
            };
            let said = bench(&[&format!("{spoken}://{address}"), "--timeout", "5s"]);
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{spoken} to {other}");
            // Some servers end the connection before what they say is heard.
            let told =
                [&format!("does not speak {name}"), "ended the connection without an answer"];
            assert!(told.iter().any(|told| said.err.contains(told)), "{other}: {}", said.err);
            assert!(said.err.contains("has HTTP on 8080"), "{spoken} to {other}: {}", said.err);
        }
    }
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_forever() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    for scheme in ["http", "grpc", "redis"] {
        let said = bench(&[&format!("{scheme}://{address}"), "--timeout", "200ms"]);
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains("does not answer in time"), "{scheme}: {}", said.err);
    }
}

#[test]
fn a_request_that_the_server_cannot_decide_is_told() {
    let served = Served::start(&Folder::new(), &[]);
    let long = format!("user={}", "x".repeat(5000));
    let said = bench(&[&served.url("http"), "--attribute", &long]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot decide what is asked, it says status 400"), "{}", said.err);
}

#[test]
fn an_error_is_counted_and_fails_the_command_where_it_is_asked_to() {
    // A server that answers the first look and then only errors.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        let decision = b"*2\r\n$7\r\nallowed\r\n:1\r\n";
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let look = bytes[..length].windows(7).any(|word| word == b"TG.PEEK");
                    let answer = if look { &decision[..] } else { b"-ERR the store is away\r\n" };
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let arguments = [url.as_str(), "--requests", "10", "--connections", "1"];
    let said = bench(&arguments);
    assert_eq!(said.code, Some(1), "nothing was measured");
    assert!(said.out.contains("10 an error, the first: ERR the store is away"), "{}", said.out);
    assert!(said.out.contains("no request got a decision"), "{}", said.out);
    let served = Served::start(&Folder::new(), &[]);
    let fine = bench(&[&served.url("resp"), "--requests", "10", "--fail-on-errors"]);
    assert_eq!(fine.code, Some(0), "{}", fine.out);
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right_and_the_code_is_2() {
    let cases: [(&[&str], &str); 16] = [
        (&["ftp://h:1"], "has an unknown scheme, use http, rls, resp"),
        (&["http://h"], "has no port"),
        (&["--connections", "0"], "--connections is 0, must be from 1 to 10000"),
        (&["--connections", "10001"], "--connections is 10001"),
        (&["resp", "--pipeline", "1025"], "--pipeline is 1025, must be from 1 to 1024"),
        (&["resp", "--connections", "1000", "--pipeline", "1000"], "must be at most 100000"),
        (&["http", "--pipeline", "2"], "use more --connections"),
        (&["--rate", "0"], "--rate is 0"),
        (&["--rate", "10000001"], "must be from 1 to 10000000"),
        (&["--duration", "0s"], "--duration is 0s"),
        (&["--duration", "8d"], "at most 7 days"),
        (&["--zipf", "eleven"], "is not a number from 0 to 10"),
        (&["--zipf", "1", "--keys", "1000001"], "at most 1000000"),
        (&["--attribute", "user"], "is not NAME=VALUE, such as user={key}"),
        (&["--attribute", "user=1", "--keys", "5"], "change nothing"),
        (&["http", "--ca", "ca.pem"], "are for TLS, such as https://127.0.0.1:8080"),
    ];
    for (arguments, message) in cases {
        let said = bench(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(message), "{arguments:?}: {}", said.err);
        assert_eq!(said.out, "", "{arguments:?}");
    }
}
