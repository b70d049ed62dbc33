//! Connections to the server, in the clear or over TLS.

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::target::{Protocol, Target};
use crate::tls::TlsFiles;

/// A connection: which of two kinds it is makes no difference to who uses it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes connections to one server.
pub(super) struct Dialler {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    patience: Duration,
}

impl Dialler {
    /// What is wrong with the files is told as text.
    pub(super) fn new(
        target: &Target,
        files: &TlsFiles,
        patience: Duration,
    ) -> Result<Dialler, String> {
        let tls = match target.tls {
            true => Some((connector(target.protocol, files)?, server_name(target)?)),
            false if files.are_named() => {
                let with = target.with_tls(true);
                return Err(format!("--ca, --cert and --key are for TLS, such as {with}"));
            }
            false => None,
        };
        Ok(Dialler { target: target.clone(), tls, patience })
    }

    /// Connects; what went wrong is told with what to do.
    pub(super) async fn dial(&self) -> Result<Box<dyn Stream>, String> {
        let authority = self.target.authority();
        match timeout(self.patience, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("{authority} does not take a connection in time")),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        let place = (self.target.host.as_str(), self.target.port);
        let stream = TcpStream::connect(place).await.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::ConnectionRefused => ", is `tollgate serve` running there?",
                _ => "",
            };
            format!("cannot connect to {}: {error}{hint}", self.target.authority())
        })?;
        // Small questions are not held back to be sent together.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => {
                let shaken = connector.connect(name.clone(), stream).await;
                Ok(Box::new(shaken.map_err(|error| self.explain_tls(&error))?))
            }
        }
    }

    /// What a failed handshake means.
    fn explain_tls(&self, error: &io::Error) -> String {
        let said = error.to_string();
        let authority = self.target.authority();
        if said.contains("InvalidContentType") || error.kind() == io::ErrorKind::UnexpectedEof {
            let plain = self.target.with_tls(false);
            return format!("{authority} does not speak TLS ({said}), try {plain}");
        }
        if said.contains("UnknownIssuer") || said.contains("BadSignature") {
            return format!(
                "the certificate of {authority} is of an authority that is not trusted, name the right one: --ca FILE"
            );
        }
        format!("cannot agree on TLS with {authority}: {said}")
    }
}

fn server_name(target: &Target) -> Result<ServerName<'static>, String> {
    ServerName::try_from(target.host.clone())
        .map_err(|_| format!("{:?} is no name of a server", target.host))
}

fn connector(protocol: Protocol, files: &TlsFiles) -> Result<TlsConnector, String> {
    let name = match protocol {
        Protocol::Http => Some("http/1.1"),
        Protocol::Rls => Some("h2"),
        Protocol::Resp => None,
    };
    Ok(TlsConnector::from(files.config(name)?))
}
