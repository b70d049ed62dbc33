//! Why it cannot listen, and what to do about it.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tollgate_server::{AdminListen, BindError};

use super::config::Config;

/// `cannot listen on 127.0.0.1:8080: another program does, …`
pub(super) fn explain(error: &BindError, config: &Config) -> String {
    match error {
        BindError::Address(address, cause) => {
            format!("{error}: {}", advice(*address, cause, config))
        }
        _ => chain(error),
    }
}

fn advice(address: SocketAddr, cause: &io::Error, config: &Config) -> String {
    let admin = match config.admin {
        AdminListen::At(address) => Some(address),
        _ => None,
    };
    let settings = [
        ("http", config.http),
        ("resp", config.resp),
        ("grpc", config.grpc),
        ("admin", admin),
        ("health", config.health),
    ];
    let of = settings.iter().find(|(_, wanted)| *wanted == Some(address));
    let flag = of.map_or("http", |(flag, _)| flag);
    match cause.kind() {
        ErrorKind::AddrInUse => format!(
            "another program does; stop it, choose another port with --{flag}, or turn this off with --{flag} off"
        ),
        ErrorKind::PermissionDenied => format!(
            "this user may not; choose a port from 1024 with --{flag}, or grant CAP_NET_BIND_SERVICE"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "this machine has no such address; choose one with --{flag}, 0.0.0.0 or [::] for all"
        ),
        _ => cause.to_string(),
    }
}

/// An error and what caused it, in one line.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
