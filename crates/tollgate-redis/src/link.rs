//! A link: one connection to the server, shared by all callers, who pipeline their commands on it.
//! Once broken it stays so; whoever keeps it makes another.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisError, Value, cmd};
use tokio::time::timeout;

use crate::bounds::WAITING_COMMANDS;
use crate::error::{StoreError, Teller};

/// The oldest server that can be used: PXAT came with it.
const OLDEST: (u64, u64) = (6, 2);

/// What the server is asked before it is trusted again: whether a script may write. PING is
/// answered by a replica, too, and by a server that is out of memory.
const MAY_WRITE: &str = "return redis.call('SET', KEYS[1], '', 'PX', 1)";
const MAY_WRITE_KEY: &str = "tg:{}:probe";

/// How to get a link.
pub(crate) struct Dialer {
    client: Client,
    address: String,
    teller: Teller,
    connect_timeout: Duration,
}

/// A connection to one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Link(MultiplexedConnection);

impl Dialer {
    pub(crate) fn new(url: &str, connect_timeout: Duration) -> Result<Dialer, StoreError> {
        let client = Client::open(url).map_err(|error| {
            // The library's message may repeat a part of the URL, which may be the password.
            let _ = error;
            StoreError::Url("must be like redis://user:password@host:6379/0, rediss://… for tls or redis+unix:///path".to_owned())
        })?;
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        let mut teller = Teller { secrets: Vec::new(), timeout: connect_timeout };
        teller.secrets.extend(settings.username().map(str::to_owned));
        teller.secrets.extend(settings.password().map(str::to_owned));
        // The default user is no secret, and its name is a common word.
        teller.secrets.retain(|secret| secret != "default");
        let address = shown(info.addr());
        Ok(Dialer { client, address, teller, connect_timeout })
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A link to a server that can be used.
    pub(crate) async fn dial(&self) -> Result<Link, StoreError> {
        let late = StoreError::TimedOut(self.connect_timeout);
        timeout(self.connect_timeout, self.dial_unbounded()).await.unwrap_or(Err(late))
    }

    async fn dial_unbounded(&self) -> Result<Link, StoreError> {
        let config = AsyncConnectionConfig::new()
            // Whoever calls bounds the time: a second timer would cost as much.
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING_COMMANDS);
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let link = Link(made.map_err(|error| self.tell(&error))?);
        let info = link.ask(cmd("INFO").arg("server")).await.map_err(|error| self.tell(&error))?;
        let info = match info {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
            _ => String::new(),
        };
        see_that_it_fits(&info)?;
        Ok(link)
    }

    /// Sees that a script may write, and is answered no later than calls must be.
    pub(crate) async fn probe(&self, link: &Link, within: Duration) -> Result<(), StoreError> {
        let mut probe = cmd("EVAL");
        probe.arg(MAY_WRITE).arg(1).arg(MAY_WRITE_KEY);
        match timeout(within, link.ask(&probe)).await {
            Ok(answer) => answer.map(drop).map_err(|error| self.tell(&error)),
            Err(_) => Err(StoreError::TimedOut(within)),
        }
    }

    /// An error of the client library, in our words, with where it happened.
    pub(crate) fn tell(&self, error: &RedisError) -> StoreError {
        match self.teller.tell(error) {
            StoreError::Unreachable(what) => {
                StoreError::Unreachable(format!("{}: {what}", self.address))
            }
            StoreError::Refused(what) => StoreError::Refused(format!("{}: {what}", self.address)),
            other => other,
        }
    }
}

impl Link {
    /// Sends a command and waits for the answer. The caller bounds the time; a command that has
    /// not been sent when its caller gives up is never sent.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.0.clone().send_packed_command(command).await.and_then(Value::extract_error)
    }
}

fn see_that_it_fits(info: &str) -> Result<(), StoreError> {
    let fact = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let version = fact("redis_version").unwrap_or("unknown");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(StoreError::Unsuitable(format!(
            "the server's version is {version}, must be at least 6.2"
        )));
    }
    if fact("redis_mode") == Some("cluster") {
        return Err(StoreError::Unsuitable(
            "the server is part of a cluster, this store is for a single server".to_owned(),
        ));
    }
    Ok(())
}

fn shown(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}")
        }
        ConnectionAddr::Unix(path) => path.display().to_string(),
        _ => "the server".to_owned(),
    }
}
