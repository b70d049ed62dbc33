//! An axum service under a policy: searches counted by user, logins by address, and of logins only
//! those that fail.
//!
//! `cargo run -p tollgate-tower --features axum --example axum` shows what it does, and with
//! `-- 127.0.0.1:3000` it serves there.

use std::error::Error;
use std::net::SocketAddr;

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Gate, Limit, Limiter, Policy, Rule};
use tollgate_tower::{Answer, ClientIp, GateLayer, IfMissing, Settle, Source};

/// Each user may search a few times, and each address may send a hundred requests at once.
pub(crate) fn policy() -> Policy {
    Policy::new()
        .rule(
            Rule::new("search-per-user")
                .matches("route", "/search/{words}")
                .key(["user"])
                .limit(Limit::per_minute(60).burst(5)),
        )
        .rule(Rule::new("per-address").key(["ip"]).limit(Limit::per_second(10).burst(100)))
}

/// The service under the policy of `gate`. Each address may also fail to log in a few times.
pub(crate) fn app(gate: Gate) -> Result<Router, Box<dyn Error>> {
    // Behind a load balancer: ClientIp::x_forwarded_for(["10.0.0.0/8"])?
    let client_ip = ClientIp::peer();
    let limits = GateLayer::builder(gate)
        .client_ip(client_ip.clone())
        .route()
        .attribute("user", Source::header("x-user")?, IfMissing::text("anonymous"))
        .skip_path("/healthz")
        .stacked()
        .build()?;

    let failures = Limiter::builder(Limit::per_hour(3)).name("failed-logins").build()?;
    let failed_logins = GateLayer::builder(failures)
        .client_ip(client_ip)
        .settle(Settle::only_failures())
        .build()?;

    Ok(Router::new()
        .route("/login", post(login).layer(failed_logins))
        .route("/search/{words}", get(search))
        .route("/healthz", get(|| async { "well" }))
        .layer(limits))
}

async fn search(Extension(answer): Extension<Answer>) -> String {
    format!("found nothing, and {} searches are left\n", answer.remaining())
}

async fn login(password: String) -> StatusCode {
    if password == "secret" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

/// Serves the app: `with_connect_info` is what makes the peer's address known.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let app = app(Gate::new(policy())?)?.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(address) = std::env::args().nth(1) {
        return serve(TcpListener::bind(address).await?).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(listener).await {
            eprintln!("{error}");
        }
    });
    for word in ["cats", "dogs", "birds", "fish", "bees", "ants"] {
        let answer = ask(address, &format!("GET /search/{word}"), "x-user: ana", "").await?;
        println!("GET /search/{word} as ana\n{answer}\n");
    }
    for password in ["secret", "a", "b", "c", "secret"] {
        let answer = ask(address, "POST /login", "x-user: ana", password).await?;
        println!("POST /login {password}: {}", answer.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// Sends a request by hand, and says what comes back.
pub(crate) async fn ask(
    address: SocketAddr,
    request: &str,
    header: &str,
    body: &str,
) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{request} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\
         content-length: {length}\r\n{header}\r\n\r\n{body}"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer)
}
