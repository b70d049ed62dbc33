//! The Redis protocol on a port: `cargo run -p tollgate-server --example resp -- 127.0.0.1:6380`,
//! then `redis-cli -p 6380 CL.THROTTLE ana 15 30 60`. Without an address it asks itself once.

use std::error::Error;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Gate, Limit, Policy, Rule};
use tollgate_server::{Resp, serve_resp};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(100));
    let resp = Resp::new(Gate::new(Policy::new().rule(rule))?);
    let Some(address) = std::env::args().nth(1) else {
        return ask_once(resp).await;
    };
    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    serve_resp(listener, resp, std::future::pending()).await;
    Ok(())
}

async fn ask_once(resp: Resp) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve_resp(listener, resp, std::future::pending()));
    let mut client = TcpStream::connect(address).await?;
    client.write_all(b"CL.THROTTLE ana 15 30 60\r\nQUIT\r\n").await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    assert_eq!(answer, "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+OK\r\n");
    println!("{}", answer.replace("\r\n", " "));
    Ok(())
}
