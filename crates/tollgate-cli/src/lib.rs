//! The `tollgate` command line.
//!
//! A library beside the binary, so that the examples in `README.md` and `docs/` are compiled and
//! run with its tests.

mod bench;
mod check;
mod diff;
mod duration;
mod explain;
mod health;
mod import;
mod moment;
mod paint;
mod policy_file;
mod replay;
mod schema;
mod serve;
mod signals;
mod simulate;
mod test;
mod tls;
mod top;
mod validate;
mod words;

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use paint::Paint;

/// Exact rate limits, on the command line.
#[derive(Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is not moved about")]
enum Command {
    Serve(Box<serve::Serve>),
    Bench(Box<bench::Bench>),
    Check(check::Check),
    Simulate(Box<simulate::Simulate>),
    Validate(validate::Validate),
    Test(test::Test),
    Explain(explain::Explain),
    Diff(diff::Diff),
    Replay(replay::Replay),
    Top(Box<top::Top>),
    Health(health::Health),
    Import(import::Import),
    Schema(schema::Schema),
}

/// Why a command did not do what it was asked to.
enum Failure {
    /// The arguments are wrong: what to say of each.
    Usage(Vec<String>),
    /// Files cannot be understood: what is wrong with them, each beginning with where.
    Files(Vec<String>),
    Output(io::Error),
    /// A server cannot start: why.
    Start(String),
    /// It was told already, in a log: the exit code.
    Told(i32),
}

/// What a command that looks for something has found.
enum Found {
    Good,
    /// Tests that fail, files that differ.
    Bad,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help_or_error) => {
            // Nobody is there to be told that nobody is there.
            let _ = help_or_error.print();
            return exit_code(help_or_error.exit_code());
        }
    };
    let mut out = BufWriter::new(Heard(io::stdout().lock()));
    let paint = Paint::for_stdout();
    let done = match &cli.command {
        Command::Serve(serve) => serve.run(&mut out, paint).map(|()| Found::Good),
        Command::Bench(bench) => bench.run(&mut out, paint),
        Command::Check(check) => check.run(&mut out, paint).map(|()| Found::Good),
        Command::Simulate(simulate) => simulate.run(&mut out, paint).map(|()| Found::Good),
        Command::Validate(validate) => validate.run(&mut out, paint),
        Command::Test(test) => test.run(&mut out, paint),
        Command::Explain(explain) => explain.run(&mut out, paint),
        Command::Diff(diff) => diff.run(&mut out, paint),
        Command::Replay(replay) => replay.run(&mut out, paint),
        Command::Top(top) => top.run(&mut out, paint).map(|()| Found::Good),
        Command::Health(health) => health.run(&mut out),
        Command::Import(import) => import.run(&mut out),
        Command::Schema(schema) => schema.run(&mut out),
    };
    // What was found is told also where something else was wrong.
    let flushed = out.flush().map_err(Failure::Output);
    match done.and_then(|found| flushed.map(|()| found)) {
        Ok(Found::Good) => ExitCode::SUCCESS,
        Ok(Found::Bad) => exit_code(1),
        Err(Failure::Output(error)) => {
            say(format_args!("cannot write the answer: {error}"));
            ExitCode::FAILURE
        }
        Err(Failure::Start(message)) => {
            say(format_args!("{message}"));
            ExitCode::FAILURE
        }
        Err(Failure::Told(code)) => exit_code(code),
        Err(Failure::Usage(messages)) => {
            messages.iter().for_each(|message| say(format_args!("{message}")));
            exit_code(2)
        }
        Err(Failure::Files(messages)) => {
            messages.iter().for_each(|message| tell(format_args!("{message}")));
            exit_code(2)
        }
    }
}

/// Writes as long as somebody reads. Who closes the pipe, as `head` does, has seen enough: what is
/// found is found all the same, and the exit code says it.
struct Heard<W>(W);

impl<W: Write> Write for Heard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, as_if: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(as_if),
        written => written,
    }
}

fn say(message: fmt::Arguments<'_>) {
    // A closed stderr leaves the exit code to speak.
    let _ = writeln!(io::stderr(), "tollgate: {message}");
}

/// Says something that begins with a file's name, as editors and CI systems look for it.
fn tell(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Reads bytes as a test file and runs its tests, for fuzzing.
#[doc(hidden)]
pub fn try_test_file(data: &[u8]) {
    test::try_bytes(data);
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryGuide;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms.md")]
struct Algorithms;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/envoy.md")]
struct Envoy;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/hot-reload.md")]
struct HotReload;
