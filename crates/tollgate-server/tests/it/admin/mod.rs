//! What operators look at and change, over real sockets.

mod audited_values;
mod documented;
mod hostile;
mod key_detail;
mod keys;
mod let_in;
mod over_redis;
mod overrides;
mod page;
mod policies;
mod resets;
mod simulate;
mod under_load;

use serde_json::Value;
use tollgate_server::{Admin, AdminRole, AdminTokens, ServerBuilder};

use crate::support::{self, Answer, TestServer, Texts};

/// The bearer may read.
const READ: &str = "read-read-read-read";
/// The bearer may write.
const WRITE: &str = "write-write-write-write";

fn tokens() -> AdminTokens {
    let mut tokens = AdminTokens::new();
    tokens.add("rita", AdminRole::Read, READ).unwrap();
    tokens.add("walt", AdminRole::Write, WRITE).unwrap();
    tokens
}

fn admin() -> Admin {
    Admin::new().tokens(tokens())
}

fn operated() -> TestServer {
    TestServer::with(with_tokens)
}

fn with_tokens(server: ServerBuilder) -> ServerBuilder {
    server.admin(admin())
}

/// Asks with a token and maybe a body.
fn ask(server: &TestServer, token: &str, line: &str, body: &str) -> Answer {
    let length = body.len();
    server.send(format!(
        "{line} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}

/// Looks at something.
#[track_caller]
fn get(server: &TestServer, path: &str) -> Value {
    let answer = ask(server, READ, &format!("GET /admin/v1/{path}"), "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()
}

/// Changes something, or looks at it with a body.
#[track_caller]
fn post(server: &TestServer, path: &str, body: &str) -> Value {
    let answer = ask(server, WRITE, &format!("POST /admin/v1/{path}"), body);
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    answer.json()
}

#[track_caller]
fn put(server: &TestServer, path: &str, body: &str) -> Value {
    let answer = ask(server, WRITE, &format!("PUT /admin/v1/{path}"), body);
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    answer.json()
}

fn check(server: &TestServer, user: &str, cost: u64) -> Value {
    let body = format!(r#"{{"attributes": {{"user": "{user}"}}, "cost": {cost}}}"#);
    server.post("/v1/check", &body).json()
}
