//! The `tollgate` command line.
//!
//! A library beside the binary, so that the examples in `README.md` and `docs/` are compiled and
//! run with its tests.

mod check;
mod duration;
mod paint;

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
enum Command {
    Check(check::Check),
}

/// Why a command did not do what it was asked to.
enum Failure {
    /// The arguments are wrong: what to say of each.
    Usage(Vec<String>),
    Output(io::Error),
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
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &cli.command {
        Command::Check(check) => check.run(&mut out, Paint::for_stdout()),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // Who closes the pipe, as `head` does, has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            say(format_args!("cannot write the answer: {error}"));
            ExitCode::FAILURE
        }
        Err(Failure::Usage(messages)) => {
            messages.iter().for_each(|message| say(format_args!("{message}")));
            exit_code(2)
        }
    }
}

fn say(message: fmt::Arguments<'_>) {
    // A closed stderr leaves the exit code to speak.
    let _ = writeln!(io::stderr(), "tollgate: {message}");
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
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
