//! The load: connections that take turns at a schedule.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::dial::Dialler;
use super::exchange::{Connected, Heads, Sender};
use super::question::{Intent, Questions};
use super::records::{Outcome, Records};
use super::resp;
use super::schedule::{Schedule, Turn};
use super::target::{Protocol, Target};
use super::trouble::{CONNECTION_LOST, NOT_UNDERSTOOD, Trouble};

/// Between two tries to connect again.
const PAUSE: Duration = Duration::from_millis(100);

/// How to ask one server.
pub(super) struct Asker {
    pub(super) target: Target,
    pub(super) dialler: Dialler,
    pub(super) questions: Questions,
    pub(super) heads: Heads,
    /// Requests at once on each connection.
    pub(super) pipeline: usize,
    /// How long an answer, and a connection, may take.
    pub(super) patience: Duration,
}

/// What all connections of a run share.
pub(super) struct Load {
    pub(super) asker: Arc<Asker>,
    pub(super) schedule: Schedule,
    pub(super) records: Records,
}

/// A connection that is ready to ask.
pub(super) enum Connection {
    Exchange(Connected),
    Resp(resp::Connected),
}

/// Why a connection is of no more use.
pub(super) enum Ended {
    /// All requests were sent and answered.
    Over,
    /// It was lost, and with it nothing but perhaps a turn that was not sent.
    Lost(Option<Turn>),
}

impl Asker {
    pub(super) async fn connect(&self) -> Result<Connection, String> {
        Ok(match self.target.protocol {
            Protocol::Resp => Connection::Resp(resp::Connected::new(self).await?),
            _ => Connection::Exchange(Connected::new(self).await?),
        })
    }

    /// Asks once, without taking anything, whether the server understands.
    pub(super) async fn probe(&self) -> Result<(), String> {
        let connection = self.connect().await?;
        let asked = async {
            match connection {
                Connection::Resp(mut connected) => connected.probe(self).await,
                Connection::Exchange(connected) => self.look(connected).await,
            }
        };
        let authority = self.target.authority();
        match timeout(self.patience, asked).await {
            Ok(Outcome::Failed(trouble)) => Err(self.explain(&trouble)),
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{authority} takes connections and does not answer in time")),
        }
    }

    async fn look(&self, mut connected: Connected) -> Outcome {
        let Some(sender) = connected.senders.first_mut() else {
            return Outcome::Failed(Trouble::lost("it has no connection"));
        };
        match sender.ask(self, 0, Intent::Peek).await {
            Outcome::Failed(trouble) if trouble.kind == CONNECTION_LOST => {
                // The connection knows better why it has ended than who waited on it.
                let why = connected.ended.wait_for(Option::is_some);
                let why = timeout(PAUSE, why).await.ok().and_then(Result::ok);
                Outcome::Failed(why.and_then(|why| why.clone()).unwrap_or(trouble))
            }
            outcome => outcome,
        }
    }

    /// What a first answer that is no decision means.
    fn explain(&self, trouble: &Trouble) -> String {
        let (authority, name) = (self.target.authority(), self.target.protocol.name());
        let Trouble { kind, said, .. } = trouble;
        let ports = "a server that was told nothing else has HTTP on 8080, gRPC on 8081 and the Redis protocol on 6380";
        let hint = match self.target.tls {
            true => "does it want a certificate (--cert and --key)?".to_owned(),
            false => format!("if it speaks TLS, say {}", self.target.with_tls(true)),
        };
        match kind.as_ref() {
            CONNECTION_LOST => {
                format!(
                    "{authority} ended the connection without an answer: {said}; {ports}; {hint}"
                )
            }
            NOT_UNDERSTOOD => {
                format!("{authority} does not speak {name}: {said}; {ports}; {hint}")
            }
            kind => format!("{authority} cannot decide what is asked, it says {kind}: {said}"),
        }
    }
}

impl Load {
    /// Asks over one connection until it is over, and makes it again where it is lost.
    pub(super) async fn run(&self, number: usize, first: Connection) {
        let mut connection = first;
        let mut owed = Vec::new();
        loop {
            let ended = match connection {
                Connection::Resp(connected) => vec![resp::run(self, number, connected).await],
                Connection::Exchange(connected) => {
                    self.exchange(number, connected, std::mem::take(&mut owed)).await
                }
            };
            let lost = ended.into_iter().filter_map(|ended| match ended {
                Ended::Over => None,
                Ended::Lost(turn) => Some(turn),
            });
            let lost: Vec<Option<Turn>> = lost.collect();
            if lost.is_empty() {
                return;
            }
            owed.extend(lost.into_iter().flatten());
            match self.connect_again().await {
                Some(again) => connection = again,
                None => return,
            }
        }
    }

    async fn exchange(&self, number: usize, connected: Connected, owed: Vec<Turn>) -> Vec<Ended> {
        let Connected { senders, ended } = connected;
        let mut owed = owed.into_iter();
        join_all(senders.into_iter().map(|sender| {
            let slot = Slot { load: self, number, sender, owed: owed.next() };
            slot.run(ended.clone())
        }))
        .await
    }

    async fn connect_again(&self) -> Option<Connection> {
        if self.schedule.is_over() {
            return None;
        }
        self.records.lose();
        let began = Instant::now();
        while began.elapsed() < self.asker.patience {
            if let Ok(connection) = self.asker.connect().await {
                return Some(connection);
            }
            sleep(PAUSE).await;
            if self.schedule.is_over() {
                return None;
            }
        }
        self.records.give_up();
        None
    }
}

/// One request at a time of a connection.
struct Slot<'a> {
    load: &'a Load,
    number: usize,
    sender: Sender,
    owed: Option<Turn>,
}

impl Slot<'_> {
    async fn run(mut self, mut ended: watch::Receiver<Option<Trouble>>) -> Ended {
        let Load { asker, schedule, records } = self.load;
        loop {
            let turn = match self.owed.take() {
                Some(turn) => turn,
                None => tokio::select! {
                    biased;
                    turn = schedule.turn() => match turn {
                        Some(turn) => turn,
                        None => return Ended::Over,
                    },
                    _ = ended.changed() => return Ended::Lost(None),
                },
            };
            if self.sender.is_closed() {
                return Ended::Lost(Some(turn));
            }
            let sent = Instant::now();
            let asked = self.sender.ask(asker, turn.number, Intent::Check);
            let outcome = timeout(asker.patience, asked).await;
            let outcome = outcome.unwrap_or_else(|_| Outcome::Failed(Trouble::timed_out()));
            let ends = match &outcome {
                // The connection's other requests may well be answered.
                Outcome::Failed(trouble) => trouble.ends && !self.sender.is_shared(),
                _ => false,
            };
            records.add(self.number, turn, sent, outcome);
            if ends {
                return Ended::Lost(None);
            }
        }
    }
}
