//! `tollgate bench` with a wrong server, port, request or option.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::support::{
    Folder, Said, TestServer, Transcript, assert_transcript, without_reason_of_end, without_times,
};
use serde_json::json;

fn bench(arguments: &[&str]) -> Said {
    Folder::new().tollgate(&[&["bench"], arguments].concat())
}

#[test]
fn a_server_that_is_not_there_is_told() {
    // No service listens on port 1.
    let said = ["http", "grpc", "redis"].map(|scheme| {
        let said = bench(&[&format!("{scheme}://127.0.0.1:1")]);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
        said
    });
    assert_transcript("bench/no_server", said);
}

#[test]
fn a_port_of_another_protocol_is_told() {
    let server = TestServer::start(&Folder::new(), &[]);
    let mut transcript = Transcript::default();
    for protocol in ["http", "grpc", "resp"] {
        transcript.hide(server.address(protocol), format!("{{{protocol}}}"));
    }
    for (scheme, others) in
        [("http", ["grpc", "resp"]), ("grpc", ["http", "resp"]), ("redis", ["http", "grpc"])]
    {
        for other in others {
            let url = format!("{scheme}://{}", server.address(other));
            let said = bench(&[&url, "--timeout", "60s"]);
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{scheme} to {other}");
            // The port of HTTP ends the connection while gRPC still writes.
            let err = match (scheme, other) {
                ("grpc", "http") => without_reason_of_end(&said.err),
                _ => said.err.clone(),
            };
            transcript.add(&Said { err, ..said });
        }
    }
    transcript.assert_golden("bench/other_protocol");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_forever() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound").to_string();
    let mut transcript = Transcript::default();
    transcript.hide(&address, "{silent}");
    for scheme in ["http", "grpc", "redis"] {
        let said = bench(&[&format!("{scheme}://{address}"), "--timeout", "200ms"]);
        assert_eq!(said.code, Some(1));
        transcript.add(&said);
    }
    transcript.assert_golden("bench/silent_server");
}

#[test]
fn a_request_that_the_server_cannot_decide_is_told() {
    let server = TestServer::start(&Folder::new(), &[]);
    let long = "x".repeat(5000);
    let said = bench(&[&server.url("http"), "--attribute", &format!("user={long}")]);
    assert_eq!(said.code, Some(1));
    let mut transcript = Transcript::default();
    transcript.hide(server.address("http"), "{http}");
    transcript.hide(&long, "{5000 bytes}");
    transcript.add(&said);
    transcript.assert_golden("bench/cannot_decide");
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
    let report = bench(&[&arguments[..], &["--json"]].concat());
    assert_eq!(report.code, Some(1));
    let report = report.json();
    assert_eq!(report["decisions"], 0);
    let kinds = json!([{"kind": "an error", "count": 10, "first": "ERR the store is away"}]);
    assert_eq!(report["errors"], json!({"total": 10, "kinds": kinds}));
    let mut transcript = Transcript::default();
    transcript.hide(&url, "redis://{server}");
    transcript.add(&Said { out: without_times(&said.out), ..said });
    transcript.assert_golden("bench/errors_alone");
    let server = TestServer::start(&Folder::new(), &[]);
    let fine = bench(&[&server.url("resp"), "--requests", "10", "--fail-on-errors"]);
    assert_eq!(fine.code, Some(0), "{}", fine.out);
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right_and_the_code_is_2() {
    let cases: [&[&str]; 16] = [
        &["ftp://h:1"],
        &["http://h"],
        &["--connections", "0"],
        &["--connections", "10001"],
        &["resp", "--pipeline", "1025"],
        &["resp", "--connections", "1000", "--pipeline", "1000"],
        &["http", "--pipeline", "2"],
        &["--rate", "0"],
        &["--rate", "10000001"],
        &["--duration", "0s"],
        &["--duration", "8d"],
        &["--zipf", "eleven"],
        &["--zipf", "1", "--keys", "1000001"],
        &["--attribute", "user"],
        &["--attribute", "user=1", "--keys", "5"],
        &["http", "--ca", "ca.pem"],
    ];
    let said = cases.map(|arguments| {
        let said = bench(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {}", said.err);
        said
    });
    assert_transcript("bench/wrong_options", said);
}
