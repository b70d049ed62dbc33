//! `tollgate health`: whether a server should get requests, for probes where there is no shell and no
//! other program to ask with.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use http::Uri;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::paint::printable;
use crate::tls::TlsFiles;
use crate::{Failure, Found, duration, serve};

/// What is read of an answer: one of ours has a line.
const MAX_ANSWER: usize = 64 << 10;

/// Ask a server whether it should get requests
#[derive(Args)]
#[command(after_help = "\
Without a URL it asks the server of the settings of tollgate serve: those of the file that --config or
TOLLGATE_CONFIG names, and of the environment. It asks at health, or if that is off at http. If http speaks TLS, it
only sees whether it listens, since the name in the certificate is not known: give health an address, or name the
server, as in the last example.

Examples:
  tollgate health
  tollgate health http://10.0.0.7:8080
  tollgate health https://tollgate.internal:8080 --ca ca.pem

Exit codes: 0 it is ready, 1 it is not or does not answer, 2 wrong arguments or settings")]
pub(crate) struct Health {
    /// The server [default: the one of the settings, on this machine]
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// The file with the server's settings
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,

    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    tls: TlsFiles,
}

/// Whom to ask, and how.
struct Server {
    name: String,
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
}

impl Health {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Found, Failure> {
        let answer = match &self.url {
            Some(url) => self.ask(&self.server(url).map_err(|wrong| Failure::Usage(vec![wrong]))?),
            None => {
                let listener = serve::health_listener(self.config.as_deref())?;
                let address = serve::reached(listener.address);
                match listener.has_tls {
                    true => self.connect(&[address]).map(|_| {
                        (200, format!("{address} listens, and speaks TLS: name it to ask whether it is ready"))
                    }),
                    false => self.ask(&Server {
                        name: address.to_string(),
                        host: address.ip().to_string(),
                        port: address.port(),
                        tls: None,
                    }),
                }
            }
        };
        let (status, text) = answer.map_err(|error| Failure::Start(error.to_string()))?;
        writeln!(out, "{}", printable(text.trim_end()))?;
        Ok(if status == 200 { Found::Good } else { Found::Bad })
    }

    fn server(&self, url: &str) -> Result<Server, String> {
        let wrong =
            || format!("{url:?} must be the address of a server, such as http://127.0.0.1:8080");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") if self.tls.are_named() => {
                return Err("--ca and --cert are for https://".to_owned());
            }
            Some("http") => (None, 80),
            Some("https") => (Some(self.tls.config(Some("http/1.1"))?), 443),
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let name = uri.authority().map(ToString::to_string).unwrap_or_default();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || name.contains('@') {
            return Err(format!("{}, and nothing behind it", wrong()));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Server { name, host, port: uri.port_u16().unwrap_or(port), tls })
    }

    /// The status and the body of what it says of itself.
    fn ask(&self, server: &Server) -> io::Result<(u16, String)> {
        let found = (server.host.as_str(), server.port).to_socket_addrs().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be found: {error}", server.name))
        })?;
        let stream = self.connect(&Vec::from_iter(found))?;
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} does not answer: {error}", server.name))
        };
        let answer = match &server.tls {
            None => exchange(stream, &server.name, self.timeout),
            Some(config) => {
                let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
                let tls =
                    ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
                exchange(StreamOwned::new(tls, stream), &server.name, self.timeout)
            }
        };
        parsed(&answer.map_err(failed)?).ok_or_else(|| {
            io::Error::other(format!("{} does not answer as a tollgate server does", server.name))
        })
    }

    /// The first of the addresses that listens.
    fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut failed = io::Error::other("it has no address");
        for address in addresses {
            match TcpStream::connect_timeout(address, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    return Ok(stream);
                }
                Err(error) => {
                    let message = format!("cannot connect to {address}: {error}");
                    failed = io::Error::new(error.kind(), message);
                }
            }
        }
        Err(failed)
    }
}

/// Asks, and reads until the other side ends it, within this time: also where it says a byte at a time.
fn exchange(mut stream: impl Read + Write, host: &str, within: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + within;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while answer.len() < MAX_ANSWER {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            // Who ends TLS without a goodbye has said everything before it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
        }
    }
    Ok(answer)
}

fn parsed(answer: &[u8]) -> Option<(u16, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno";
        assert_eq!(parsed(answer), Some((503, "no".to_owned())));
        for other in ["", "HTTP/1.1 200 OK\r\n", "-ERR\r\n\r\n", "HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(parsed(other.as_bytes()), None, "{other}");
        }
    }
}
