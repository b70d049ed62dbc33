//! Sentinels: they know where the server is, and are asked anew whenever a link is made.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt, select_ok};
use redis::{ConnectionAddr, ConnectionInfo, Value, cmd};

use crate::bounds::ASKED_AT_ONCE;
use crate::error::StoreError;
use crate::link::{Connector, Link};
use crate::routed::NodeAddress;
use crate::target::shown;

/// Sentinels, the name of what they watch, and how to connect to it.
pub(crate) struct Sentinels {
    pub(crate) seeds: Vec<ConnectionInfo>,
    pub(crate) name: String,
    /// The server's address is put into it.
    pub(crate) server: Box<ConnectionInfo>,
    /// Who is asked first next time: those that hang must not be asked for ever.
    pub(crate) turn: AtomicUsize,
}

impl Sentinels {
    pub(crate) fn address(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(|seed| shown(seed.addr())).collect();
        format!("{} of {}", self.name, seeds.join(","))
    }

    /// A link to the server they name. Some are asked at once, and each is believed only if a
    /// primary is where it says: one that has not heard of a failover holds nobody up.
    pub(crate) async fn dial(&self, dialer: &Connector) -> Result<Link, StoreError> {
        let mut all: Vec<&ConnectionInfo> = self.seeds.iter().collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        all.rotate_left(turn);
        let mut last = StoreError::Connection("there are no sentinels".to_owned());
        for some in all.chunks(ASKED_AT_ONCE) {
            match select_ok(some.iter().map(|seed| self.dial_by(seed, dialer))).await {
                Ok((link, _)) => return Ok(link),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn dial_by<'a>(
        &'a self,
        seed: &'a ConnectionInfo,
        dialer: &'a Connector,
    ) -> BoxFuture<'a, Result<Link, StoreError>> {
        async move {
            let address = self.ask(seed, dialer).await?;
            let at = address.to_string();
            let link = dialer.connect(&address.put_into(&self.server)).await?;
            let tell = |error| dialer.tell_at(&at, &error);
            let facts = link.info("server").await.map_err(tell)?;
            dialer.see_that_it_fits(&facts, &at)?;
            if link.info("replication").await.map_err(tell)?.get("role") == Some("slave") {
                return Err(StoreError::Refused(format!("{at}: it is a replica")));
            }
            Ok(link)
        }
        .boxed()
    }

    async fn ask(
        &self,
        seed: &ConnectionInfo,
        dialer: &Connector,
    ) -> Result<NodeAddress, StoreError> {
        let at = shown(seed.addr());
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer = dialer.connect(seed).await?.ask(&question).await.map_err(|error| {
            if error.detail().unwrap_or_default().contains("unknown command") {
                return StoreError::Incompatible(format!(
                    "{at} is not a sentinel, write redis://{at} instead of redis+sentinel://"
                ));
            }
            if error.code() == Some("NOAUTH") {
                return StoreError::Refused(format!(
                    "{at}: the sentinel wants a password of its own, write ?sentinel_user=…&sentinel_pass=…"
                ));
            }
            dialer.tell_at(&at, &error)
        })?;
        let name = &self.name;
        read(answer).ok_or_else(|| {
            StoreError::Incompatible(format!(
                "the sentinels watch nothing that is called \"{name}\""
            ))
        })
    }
}

/// An answer to SENTINEL GET-MASTER-ADDR-BY-NAME.
fn read(answer: Value) -> Option<NodeAddress> {
    let Value::Array(parts) = answer else { return None };
    let mut parts = parts.into_iter().map(|part| match part {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    });
    let (host, port) = (parts.next()??, parts.next()??.parse().ok()?);
    Some(NodeAddress { host: host.into(), port })
}

impl NodeAddress {
    /// How to connect to it, where `like` is how to connect to another.
    pub(crate) fn put_into(&self, like: &ConnectionInfo) -> ConnectionInfo {
        let host = self.host.to_string();
        let at = match like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port: self.port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, self.port),
        };
        like.clone().set_addr(at)
    }
}
