//! `tollgate top`: what goes on at a running server, live in the terminal.

mod address;
mod client;
mod draw;
#[cfg(test)]
mod fixtures;
mod history;
mod json;
mod live;
mod once;
mod screen;
mod state;
mod table;
mod tables;
mod text;
mod told;
mod watch;
mod work;

use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use jiff::tz::TimeZone;

use crate::paint::Paint;
use crate::tls::TlsFiles;
use crate::{Failure, duration};
use address::{Server, Token};
use client::{Client, Problem};
use draw::Looks;
use state::{Settings, State};
use told::Who;

/// A server sends an event every second.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The variable that a token is in, where no option names one.
const TOKEN_VARIABLE: &str = "TOLLGATE_TOKEN";

/// Watch a running server: rates, who is refused and why, latency; lift it there and then
///
/// Asks a server where it answers operators, see docs/admin.md. A token that may read sees everything;
/// one that may write also resets, blocks and overrides keys. Without a terminal it prints once.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate top
  tollgate top --server https://limits.example:8443 --token-file ~/.tollgate-token
  TOLLGATE_TOKEN=… tollgate top --server http://10.0.0.7:8080
  tollgate top --once
  tollgate top --json --interval 10s | jq .rates

Press ? for the keys, q to leave.

Exit codes: 0 left or printed, 1 the server does not answer or lets nobody in, or the answer could not be written, 2 an option is wrong")]
pub(crate) struct Top {
    /// Where the server answers operators; it prints that as admin when it starts
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = Server::read)]
    server: Server,

    /// The token; other users of this machine may see it, a file or TOLLGATE_TOKEN is better
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,

    /// A file that holds the token and nothing else; read again for every connection
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsFiles,

    /// How long each picture is of, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = read_interval)]
    interval: Duration,

    /// Print once and end, as where there is no terminal
    #[arg(long)]
    once: bool,

    /// Print JSON, a line for each interval; with --once, one
    #[arg(long)]
    json: bool,
}

impl Top {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<(), Failure> {
        let client = self.client()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Start(format!("cannot start: {error}")))?;
        let done = runtime.block_on(self.show(client, out, paint));
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        done
    }

    async fn show(
        &self,
        client: Client,
        out: &mut impl Write,
        paint: Paint,
    ) -> Result<(), Failure> {
        let who: Who = client.get("info").await.map_err(|problem| self.failure(&problem))?;
        let millis = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        let settings = Settings {
            server: self.server.to_string(),
            interval_ms: millis,
            zone: TimeZone::system(),
        };
        let clock = Clock::new();
        let mut state = State::new(settings, who, clock.now_ms());
        if self.server.is_overheard() && !self.token()?.is_none() {
            state.complain("the token is sent unencrypted, others can read it: use https");
        }
        if self.json || self.once || !is_drawn_on() {
            let form = if self.json { once::Form::Json } else { once::Form::Tables(paint) };
            if self.once || !self.json {
                let printing = once::Printing { form, repeats: false };
                return once::print(client, state, &clock, (printing, out)).await;
            }
            let printing = once::Printing { form, repeats: true };
            // Not through `out`, which goes on where nobody reads any more.
            let printed = once::print(client, state, &clock, (printing, &mut stdout())).await;
            return match printed {
                Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                printed => printed,
            };
        }
        live::run(client, state, &clock, Looks::of_terminal(paint)).await
    }

    fn client(&self) -> Result<Client, Failure> {
        let wrong = |message| Failure::Usage(vec![message]);
        let tls = match self.server.tls {
            true => Some(self.tls.config(Some("http/1.1")).map_err(wrong)?),
            false if self.tls.are_named() => {
                return Err(wrong("--ca, --cert and --key are for https://".to_owned()));
            }
            false => None,
        };
        let token = self.token()?;
        // What is wrong with it is told before anybody is asked.
        token.get().map_err(wrong)?;
        Ok(Client::new(self.server.clone(), token, tls))
    }

    fn token(&self) -> Result<Token, Failure> {
        Ok(match (&self.token, &self.token_file, std::env::var_os(TOKEN_VARIABLE)) {
            (Some(token), ..) => Token::Given(token.clone()),
            (None, Some(file), _) => Token::File(file.clone()),
            (None, None, None) => Token::None,
            (None, None, Some(token)) => match token.into_string() {
                Ok(token) if token.is_empty() => Token::None,
                Ok(token) => Token::Given(token),
                Err(_) => {
                    return Err(Failure::Usage(vec![format!("{TOKEN_VARIABLE} is not UTF-8")]));
                }
            },
        })
    }

    /// Why nothing can be shown.
    fn failure(&self, problem: &Problem) -> Failure {
        let detail = text::harmless(&problem.detail);
        let said = match problem.status {
            Some(401) => {
                format!("{detail}; give one with --token-file FILE or in {TOKEN_VARIABLE}")
            }
            Some(404) => {
                "nothing for operators here, see where tollgate serve says \"admin\"".into()
            }
            Some(_) => detail,
            None => format!("{detail}; is it where tollgate serve says \"admin\"?"),
        };
        Failure::Start(format!("{}: {said}", self.server))
    }
}

/// Whether somebody looks at what is drawn.
fn is_drawn_on() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    match (SHORTEST..=LONGEST).contains(&interval) {
        true => Ok(interval),
        false => Err(format!("{text:?} must be from 1s to 1h")),
    }
}

/// Moments that never go back: this machine's time at the start, and what has passed since.
struct Clock {
    start_ms: u64,
    since: Instant,
}

impl Clock {
    fn new() -> Clock {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start_ms = u64::try_from(now.as_millis()).unwrap_or_default();
        Clock { start_ms, since: Instant::now() }
    }

    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(passed)
    }
}
