//! A link: one connection to a server, shared by all callers, who pipeline their commands on it.
//! Once broken it stays so; whoever keeps it makes another.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError,
    ServerErrorKind, Value, cmd, pipe,
};
use tokio::time::timeout;

use crate::bounds::WAITING_COMMANDS;
use crate::error::{ErrorMapper, StoreError};
use crate::protocol;
use crate::routed::{NodeAddress, probe_key, ranges};
use crate::script;
use crate::sentinel::Sentinels;
use crate::target::shown;

/// The oldest server that can be used: PXAT came with it.
const OLDEST: (u64, u64) = (6, 2);

/// The key of a probe, but in a Cluster.
const PROBE_KEY: &str = "tg:{}:probe";

/// How to get a link.
pub(crate) struct Connector {
    end: Endpoint,
    address: String,
    teller: ErrorMapper,
    connect_timeout: Duration,
}

/// What stands at the other end.
enum Endpoint {
    Server(Box<ConnectionInfo>),
    /// A node of a Cluster.
    Node(Box<ConnectionInfo>, NodeAddress),
    /// Whom they name, asked at every dial.
    Sentinels(Sentinels),
}

/// A connection to one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Link(MultiplexedConnection);

impl Connector {
    pub(crate) fn to_server(info: ConnectionInfo, connect_timeout: Duration) -> Connector {
        let (address, teller) = (shown(info.addr()), teller(&info, connect_timeout));
        Connector { end: Endpoint::Server(Box::new(info)), address, teller, connect_timeout }
    }

    pub(crate) fn to_node(
        info: ConnectionInfo,
        at: NodeAddress,
        connect_timeout: Duration,
    ) -> Connector {
        let (address, teller) = (at.to_string(), teller(&info, connect_timeout));
        Connector { end: Endpoint::Node(Box::new(info), at), address, teller, connect_timeout }
    }

    pub(crate) fn by_sentinels(sentinels: Sentinels, connect_timeout: Duration) -> Connector {
        let mut teller = teller(&sentinels.server, connect_timeout);
        teller.secrets.extend(sentinels.seeds.iter().flat_map(secrets));
        let address = sentinels.address();
        Connector { end: Endpoint::Sentinels(sentinels), address, teller, connect_timeout }
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether a redirection to another node is an answer like any other.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self.end, Endpoint::Node(..))
    }

    /// A link to a server that can be used.
    pub(crate) async fn dial(&self) -> Result<Link, StoreError> {
        let late = StoreError::Timeout(self.connect_timeout);
        let dialed = async {
            match &self.end {
                Endpoint::Server(info) | Endpoint::Node(info, _) => {
                    let link = self.connect(info).await?;
                    let facts = link.info("server").await.map_err(|error| self.tell(&error))?;
                    self.see_that_it_fits(&facts, &self.address)?;
                    Ok(link)
                }
                Endpoint::Sentinels(sentinels) => sentinels.dial(self).await,
            }
        };
        let dialed = timeout(self.connect_timeout, dialed).await.unwrap_or(Err(late));
        let Err(error) = dialed else { return dialed };
        Err(self.protocol_mismatch(&error).await.unwrap_or(error))
    }

    /// What is wrong with the URL if the server speaks TLS and the URL does not, or the reverse. A
    /// handshake with a server that speaks no TLS may never end.
    async fn protocol_mismatch(&self, error: &StoreError) -> Option<StoreError> {
        let (Endpoint::Server(info) | Endpoint::Node(info, _)) = &self.end else { return None };
        let by_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        match error {
            StoreError::Connection(_) => {}
            StoreError::Timeout(_) if by_tls => {}
            _ => return None,
        }
        protocol::mismatch(info, self.is_node(), &self.address).await
    }

    /// A link to whoever is there.
    pub(crate) async fn connect(&self, info: &ConnectionInfo) -> Result<Link, StoreError> {
        let config = AsyncConnectionConfig::new()
            // Whoever calls bounds the time: a second timer would cost as much.
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING_COMMANDS);
        let tell = |error| self.teller.tell_at(&shown(info.addr()), &error);
        let client = Client::open(info.clone()).map_err(tell)?;
        let made = client.get_multiplexed_async_connection_with_config(&config).await;
        made.map(Link).map_err(tell)
    }

    /// [`ask_probe`](Self::ask_probe), answered no later than calls must be.
    pub(crate) async fn probe(&self, link: &Link, within: Duration) -> Result<(), StoreError> {
        match timeout(within, self.ask_probe(link)).await {
            Ok(answer) => answer.map_err(|error| self.tell(&error)),
            Err(_) => Err(StoreError::Timeout(within)),
        }
    }

    /// Runs the commands that decisions use, as decisions do: by the script's hash. PING is answered by
    /// a replica, too, by a server that is out of memory, and to a user who may run no script.
    pub(crate) async fn ask_probe(&self, link: &Link) -> Result<(), RedisError> {
        let key = match &self.end {
            Endpoint::Server(_) | Endpoint::Sentinels(_) => PROBE_KEY.to_owned(),
            Endpoint::Node(_, at) => {
                let slots = link.ask(cmd("CLUSTER").arg("SLOTS")).await?;
                // One that serves nothing has nothing to write: that it answers is enough.
                let Some(key) = probe_key(&ranges(slots, at), at) else { return Ok(()) };
                key
            }
        };
        let question = |name: &str, script: &str| {
            let mut question = cmd(name);
            question.arg(script).arg(1).arg(&key).arg("").arg("probe").arg("");
            question
        };
        match link.ask(&question("EVALSHA", script::SINGLE.hash())).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                link.ask(&question("EVAL", script::SINGLE.source())).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// An error of the client library, in our words, with where it happened.
    pub(crate) fn tell(&self, error: &RedisError) -> StoreError {
        self.teller.tell_at(&self.address, error)
    }

    /// The same for another place.
    pub(crate) fn tell_at(&self, address: &str, error: &RedisError) -> StoreError {
        self.teller.tell_at(address, error)
    }

    pub(crate) fn see_that_it_fits(&self, facts: &ServerInfo, at: &str) -> Result<(), StoreError> {
        let version = facts.get("redis_version").unwrap_or("unknown");
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
            return Err(StoreError::Incompatible(format!(
                "the server's version is {version}, must be at least 6.2"
            )));
        }
        // Valkey has a word of its own.
        let kind = facts.get("redis_mode").or(facts.get("server_mode"));
        let wrong = match (kind, self.is_node()) {
            (Some("cluster"), false) => {
                format!("{at} is part of a cluster, write redis+cluster://{at} instead of redis://")
            }
            (Some("standalone"), true) => format!(
                "{at} is not part of a cluster, write redis://{at} instead of redis+cluster://"
            ),
            (Some("sentinel"), _) => format!(
                "{at} is a sentinel, write redis+sentinel://{at}/ and the name of what it watches"
            ),
            _ => return Ok(()),
        };
        Err(StoreError::Incompatible(wrong))
    }
}

impl Link {
    /// Sends a command and waits for the answer. The caller bounds the time; a command that has
    /// not been sent when its caller gives up is never sent.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.0.clone().send_packed_command(command).await.and_then(Value::extract_error)
    }

    /// The same behind ASKING, in one piece: another's command could come between the two.
    pub(crate) async fn ask_asking(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut both = pipe();
        both.cmd("ASKING").add_command(command.clone());
        let answers = self.0.clone().send_packed_commands(&both, 0, 2).await?;
        answers.into_iter().nth(1).unwrap_or(Value::Nil).extract_error()
    }

    /// What the server says of itself in one section of INFO.
    pub(crate) async fn info(&self, section: &str) -> Result<ServerInfo, RedisError> {
        Ok(ServerInfo::read(self.ask(cmd("INFO").arg(section)).await?))
    }
}

/// An answer to INFO.
pub(crate) struct ServerInfo(String);

impl ServerInfo {
    pub(crate) fn read(answer: Value) -> ServerInfo {
        ServerInfo(match answer {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
            _ => String::new(),
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }
}

fn teller(info: &ConnectionInfo, timeout: Duration) -> ErrorMapper {
    ErrorMapper { secrets: secrets(info).collect(), timeout }
}

fn secrets(info: &ConnectionInfo) -> impl Iterator<Item = String> + '_ {
    let settings = info.redis_settings();
    let names = [settings.username(), settings.password()];
    // The default user is no secret, and its name is a common word.
    names.into_iter().flatten().filter(|name| *name != "default").map(str::to_owned)
}
