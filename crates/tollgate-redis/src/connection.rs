//! The connection: one, shared by all callers, made again when it breaks.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ConnectionAddr, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::timeout;

use crate::error::{StoreError, Teller};
use crate::script;

/// A connection to one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    manager: ConnectionManager,
    teller: Teller,
    address: String,
}

impl Connection {
    pub(crate) async fn new(
        url: &str,
        call_timeout: Duration,
        connect_timeout: Duration,
    ) -> Result<Connection, StoreError> {
        let mut teller = Teller { secrets: Vec::new(), timeout: connect_timeout };
        let client = Client::open(url).map_err(|error| {
            // The library's message may repeat a part of the URL, which may be the password.
            let _ = error;
            StoreError::Url("must be like redis://user:password@host:6379/0, rediss://… for tls or redis+unix:///path".to_owned())
        })?;
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        teller.secrets.extend(settings.username().map(str::to_owned));
        teller.secrets.extend(settings.password().map(str::to_owned));
        // The default user is no secret, and its name is a common word.
        teller.secrets.retain(|secret| secret != "default");
        let address = shown(info.addr());
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(connect_timeout))
            // `within` bounds a call, new connections and all: a second timer would cost as much.
            .set_response_timeout(None)
            // The next call tries again: a call that waits for tries is a queue in disguise.
            .set_number_of_retries(0);
        let manager = timeout(connect_timeout, ConnectionManager::new_with_config(client, config));
        let manager = match manager.await {
            Err(_) => return Err(StoreError::TimedOut(connect_timeout)),
            Ok(made) => made.map_err(|error| at(&address, teller.tell(&error)))?,
        };
        teller.timeout = call_timeout;
        Ok(Connection(Arc::new(Shared { manager, teller, address })))
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    /// Does work of several round trips, all of them together no longer than a call may take. Each
    /// leaves whole what it has done, so that it may be left off between any two.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let done = timeout(self.0.teller.timeout, work).await;
        done.unwrap_or(Err(StoreError::TimedOut(self.0.teller.timeout)))
    }

    /// Sends a command and waits for the answer, no longer than a call may take.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.within(async { self.ask(command).await.map_err(|error| self.tell(&error)) }).await
    }

    /// Runs the script, by its hash if the server knows it. The caller bounds the time.
    pub(crate) async fn run(&self, keys: &[&[u8]], args: &[&[u8]]) -> Result<Value, StoreError> {
        let answer = self.ask(&command("EVALSHA", script::hash(), keys, args)).await;
        let unknown = matches!(&answer, Err(error)
            if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript));
        if !unknown {
            return answer.map_err(|error| self.tell(&error));
        }
        // Sent whole, the server keeps it from then on.
        self.send(&command("EVAL", script::source(), keys, args)).await
    }

    async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.0.manager.clone().send_packed_command(command).await.and_then(Value::extract_error)
    }

    fn tell(&self, error: &RedisError) -> StoreError {
        at(&self.0.address, self.0.teller.tell(error))
    }
}

fn command(name: &str, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len());
    for bytes in keys.iter().chain(args) {
        command.arg(*bytes);
    }
    command
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

/// The error with where it happened.
fn at(address: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable(what) => StoreError::Unreachable(format!("{address}: {what}")),
        StoreError::Refused(what) => StoreError::Refused(format!("{address}: {what}")),
        other => other,
    }
}
