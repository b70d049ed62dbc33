//! The Redis protocol: commands in a pipeline, answers in their order.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::sleep_until;

use super::dial::Stream;
use super::load::{Asker, Ended, Load};
use super::question::{Intent, command};
use super::records::Outcome;
use super::reply::{Reply, read_reply};
use super::schedule::Turn;
use super::trouble::Trouble;

/// A connection, and what it has brought that is not yet read.
pub(super) struct Connected {
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
}

impl Connected {
    pub(super) async fn new(asker: &Asker) -> Result<Connected, String> {
        let (read, write) = tokio::io::split(asker.dialler.dial().await?);
        let mut connected = Connected { read, write, input: BytesMut::new() };
        if let Some(password) = &asker.target.password {
            let said = connected.ask(&command(&["AUTH".to_owned(), password.clone()])).await;
            match said {
                Ok(Reply::Other) => {}
                Ok(reply) => return Err(format!("the password is not taken: {}", reply.said())),
                Err(trouble) => return Err(format!("{}: {}", trouble.kind, trouble.said)),
            }
        }
        Ok(connected)
    }

    pub(super) async fn probe(&mut self, asker: &Asker) -> Outcome {
        let question = asker.questions.write(asker.target.protocol, 0, Intent::Peek);
        match self.ask(&question).await {
            Ok(reply) => reply.outcome(),
            Err(trouble) => Outcome::Failed(trouble),
        }
    }

    async fn ask(&mut self, command: &[u8]) -> Result<Reply, Trouble> {
        let lost = |error: std::io::Error| Trouble::lost(error.to_string());
        self.write.write_all(command).await.map_err(lost)?;
        self.write.flush().await.map_err(lost)?;
        loop {
            if let Some(reply) = read_reply(&mut self.input)? {
                return Ok(reply);
            }
            if self.read.read_buf(&mut self.input).await.map_err(lost)? == 0 {
                return Err(Trouble::lost("closed"));
            }
        }
    }
}

/// Asks until it is over or the connection is lost.
pub(super) async fn run(load: &Load, number: usize, connected: Connected) -> Ended {
    let Connected { read, write, input } = connected;
    let mut lane = Lane {
        load,
        number,
        read,
        write,
        input,
        output: Vec::new(),
        written: 0,
        waiting: VecDeque::new(),
        over: false,
    };
    match lane.run().await {
        Ok(()) => Ended::Over,
        Err(trouble) => {
            for (turn, sent) in lane.waiting.drain(..) {
                load.records.add(number, turn, sent, Outcome::Failed(trouble.clone()));
            }
            Ended::Lost(None)
        }
    }
}

struct Lane<'a> {
    load: &'a Load,
    number: usize,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
    output: Vec<u8>,
    /// How much of the output is.
    written: usize,
    /// Commands without an answer, the oldest first.
    waiting: VecDeque<(Turn, Instant)>,
    /// There is nothing more to send.
    over: bool,
}

/// What a connection may be waiting for.
enum Event {
    Written(std::io::Result<usize>),
    Read(std::io::Result<usize>),
    Turn(Option<Turn>),
    /// The oldest command may have waited too long.
    Time,
}

impl Lane<'_> {
    async fn run(&mut self) -> Result<(), Trouble> {
        let patience = self.load.asker.patience;
        let alarm = sleep_until((Instant::now() + patience).into());
        tokio::pin!(alarm);
        loop {
            self.fill();
            if self.over && self.waiting.is_empty() {
                return Ok(());
            }
            let may_write = self.written < self.output.len();
            let may_ask = !self.over && self.waiting.len() < self.load.asker.pipeline;
            let Lane { load, read, write, input, output, written, .. } = self;
            // What is here first is looked at first: answers are not read while questions wait.
            let event = tokio::select! {
                biased;
                done = write.write(&output[*written..]), if may_write => Event::Written(done),
                done = read.read_buf(input) => Event::Read(done),
                turn = load.schedule.turn(), if may_ask => Event::Turn(turn),
                () = &mut alarm => Event::Time,
            };
            match event {
                Event::Written(done) => self.wrote(done).await?,
                Event::Read(done) => self.answers(done)?,
                Event::Turn(Some(turn)) => self.send(turn),
                Event::Turn(None) => self.over = true,
                Event::Time => {
                    let oldest = self.waiting.front().map_or_else(Instant::now, |(_, sent)| *sent);
                    if oldest.elapsed() >= patience {
                        return Err(Trouble::timed_out());
                    }
                    // A busy connection never moves its timer: it is looked at when it goes off.
                    alarm.as_mut().reset((oldest + patience).into());
                }
            }
        }
    }

    /// Sends all that is due and has room.
    fn fill(&mut self) {
        while !self.over && self.waiting.len() < self.load.asker.pipeline {
            match self.load.schedule.turn_now() {
                Some(turn) => self.send(turn),
                None => {
                    self.over = self.load.schedule.is_over();
                    return;
                }
            }
        }
    }

    fn send(&mut self, turn: Turn) {
        let asker = &self.load.asker;
        let question = asker.questions.write(asker.target.protocol, turn.number, Intent::Check);
        self.output.extend_from_slice(&question);
        self.waiting.push_back((turn, Instant::now()));
    }

    async fn wrote(&mut self, done: std::io::Result<usize>) -> Result<(), Trouble> {
        match done {
            Ok(length) if length > 0 => self.written += length,
            Ok(_) => return Err(Trouble::lost("closed")),
            Err(error) => return Err(Trouble::lost(error.to_string())),
        }
        if self.written == self.output.len() {
            (self.written, _) = (0, self.output.clear());
            // Over TLS, what is written may still be in a buffer.
            self.write.flush().await.map_err(|error| Trouble::lost(error.to_string()))?;
        }
        Ok(())
    }

    fn answers(&mut self, done: std::io::Result<usize>) -> Result<(), Trouble> {
        match done {
            Ok(0) => return Err(Trouble::lost("closed")),
            Ok(_) => {}
            Err(error) => return Err(Trouble::lost(error.to_string())),
        }
        while let Some(reply) = read_reply(&mut self.input)? {
            let Some((turn, sent)) = self.waiting.pop_front() else {
                return Err(Trouble::not_understood("an answer that nobody asked for"));
            };
            self.load.records.add(self.number, turn, sent, reply.outcome());
        }
        Ok(())
    }
}
