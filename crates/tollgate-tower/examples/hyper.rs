//! A plain hyper service under one limit for each address. The server puts the peer's address into
//! the request's extensions itself.
//!
//! `cargo run -p tollgate-tower --example hyper` shows what it does, and with `-- 127.0.0.1:3000`
//! it serves there.

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Limit, Limiter};
use tollgate_tower::{ClientIp, GateLayer, PeerAddr};
use tower::{Layer, ServiceExt};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

/// Serves every connection; all of them share the limit, since the layer holds it.
pub(crate) async fn serve(listener: TcpListener, limit: Limit) -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder(limit).name("per-address").build()?;
    let layer = GateLayer::builder(limiter).client_ip(ClientIp::peer()).build()?;
    let service = layer.layer(tower::service_fn(hello));
    loop {
        let (connection, peer) = listener.accept().await?;
        let service = service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddr(peer));
            request
        });
        tokio::spawn(async move {
            let service = TowerToHyperService::new(service);
            // A connection that breaks is its client's affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limit = Limit::per_minute(60).burst(3);
    if let Some(address) = std::env::args().nth(1) {
        return serve(TcpListener::bind(address).await?, limit).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(listener, limit).await {
            eprintln!("{error}");
        }
    });
    for number in 1..=4 {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        println!("request {number}, on a connection of its own\n{answer}\n");
    }
    Ok(())
}
