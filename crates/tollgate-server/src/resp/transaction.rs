//! `MULTI`, `EXEC` and `DISCARD`: commands that are queued, and run one after the other. Nothing is
//! isolated: other clients are answered in between, and each command decides by itself.
//!
//! `EXEC` stays at the front of the input until all its commands are answered, so that an answer of
//! any length goes out in pieces: the caller gives it again, with what follows it.

use super::Wrong;
use super::commands::{CommandForm, InTransaction};
use super::parse::{Arguments, Parsed, parse};
use super::session::RespSession;
use super::throttle::Batch;
use super::write::Writer;
use crate::bounds::Bound;
use crate::resp::bounds::{EXEC_STEP, MAX_QUEUED, MAX_QUEUED_BYTES, WRITE_BUFFER};

/// The commands since MULTI.
#[derive(Debug, Default)]
pub(super) struct QueuedCommands {
    /// The queued commands as they were received, one after the other.
    bytes: Vec<u8>,
    commands: usize,
    /// `true` if a command was rejected, so that EXEC runs none.
    is_failed: bool,
    /// The number of bytes that EXEC has run, once it has begun.
    executed: Option<usize>,
}

/// The state of a command after it was answered as far as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandProgress {
    Done,
    /// It is to be given again.
    Unfinished,
}

impl QueuedCommands {
    /// Queues a command, or says which bound it goes over.
    fn queue(&mut self, command: &[u8]) -> Result<(), Wrong> {
        let text = if self.commands >= MAX_QUEUED {
            format!("ERR more than {MAX_QUEUED} commands in a transaction, split it")
        } else if self.bytes.len() + command.len() > MAX_QUEUED_BYTES {
            format!("ERR more than {MAX_QUEUED_BYTES} bytes in a transaction, split it")
        } else {
            // Those that follow a rejected command are never run.
            if !self.is_failed {
                self.bytes.extend_from_slice(command);
                self.commands += 1;
            }
            return Ok(());
        };
        Err(Wrong { text, over: Some(Bound::Transaction) })
    }

    /// Returns `true` if EXEC has begun to answer.
    pub(super) fn is_begun(&self) -> bool {
        self.executed.is_some()
    }

    fn fail(&mut self) {
        self.is_failed = true;
        (self.bytes, self.commands) = (Vec::new(), 0);
    }
}

impl RespSession {
    /// Answers `MULTI`, and the other two outside of a transaction; `None` if it is none of those.
    pub(super) fn begin_transaction(
        &mut self,
        arguments: &[&[u8]],
        writer: &mut Writer<'_>,
    ) -> Option<Result<(), Wrong>> {
        let is = |command: &str| {
            arguments.first().is_some_and(|name| name.eq_ignore_ascii_case(command.as_bytes()))
        };
        if !is("MULTI") && !is("EXEC") && !is("DISCARD") {
            return None;
        }
        Some(CommandForm::of(arguments).map_err(Wrong::from).and_then(|form| match form.name() {
            "MULTI" => {
                self.transaction = Some(Box::default());
                writer.simple("OK");
                Ok(())
            }
            name => Err(format!("ERR {name} without MULTI").into()),
        }))
    }

    /// Answers a command after MULTI, which takes `bytes` of the input.
    pub(super) fn answer_in_transaction(
        &mut self,
        arguments: &[&[u8]],
        bytes: &[u8],
        writer: &mut Writer<'_>,
    ) -> CommandProgress {
        let Some(mut transaction) = self.transaction.take() else { return CommandProgress::Done };
        if transaction.executed.is_some() {
            return self.execute(transaction, writer);
        }
        let answered = CommandForm::of(arguments).map_err(Wrong::from);
        let answered = answered.and_then(|form| match (form.in_transaction, form.name()) {
            (InTransaction::Queued, _) => transaction.queue(bytes).map(|()| form),
            (InTransaction::Answered, _) => Ok(form),
            (InTransaction::Rejected, name) => {
                Err(format!("ERR {name} is not allowed in a transaction, send it before MULTI")
                    .into())
            }
        });
        match answered.map(CommandForm::name) {
            Ok("EXEC") => return self.execute(transaction, writer),
            Ok("DISCARD") => {
                writer.simple("OK");
                return CommandProgress::Done;
            }
            Ok("QUIT") => {
                self.over = true;
                writer.simple("OK");
                return CommandProgress::Done;
            }
            // As Redis does, this fails no transaction.
            Ok("MULTI") => {
                self.reject(&"ERR MULTI calls can not be nested".to_owned().into(), writer)
            }
            Ok(_) => writer.simple("QUEUED"),
            Err(wrong) => {
                transaction.fail();
                self.reject(&wrong, writer);
            }
        }
        self.transaction = Some(transaction);
        CommandProgress::Done
    }

    fn reject(&self, wrong: &Wrong, writer: &mut Writer<'_>) {
        self.shared.count(wrong);
        writer.error(&wrong.text);
    }

    /// Runs the queued commands, or the rest of them, until all are answered, the output is full, or
    /// the store must be waited for.
    fn execute(
        &mut self,
        mut transaction: Box<QueuedCommands>,
        writer: &mut Writer<'_>,
    ) -> CommandProgress {
        if transaction.is_failed {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            self.reject(&text.to_owned().into(), writer);
            return CommandProgress::Done;
        }
        let mut at = transaction.executed.unwrap_or_else(|| {
            writer.array(transaction.commands);
            0
        });
        let (mut batch, mut arguments) = (Batch::default(), Arguments::new());
        let mut is_whole = true;
        for _ in 0..EXEC_STEP {
            is_whole = at >= transaction.bytes.len();
            if is_whole || writer.out.len() >= WRITE_BUFFER {
                break;
            }
            // It was parsed before it was queued.
            let Ok(Parsed::Command(length)) = parse(&transaction.bytes[at..], &mut arguments)
            else {
                break;
            };
            if self.answer_or_put_off(&arguments, &mut batch, writer) == CommandProgress::Unfinished
            {
                break;
            }
            at += length;
            is_whole = at >= transaction.bytes.len();
        }
        self.decide(&mut batch, writer);
        if is_whole {
            return CommandProgress::Done;
        }
        drop((batch, arguments));
        transaction.executed = Some(at);
        self.transaction = Some(transaction);
        CommandProgress::Unfinished
    }
}
