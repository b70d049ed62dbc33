//! Tollgate beside other rate limiters: `cargo run --release`. README.md says how to read it.

mod acquire;
mod bytes;
mod counting;
mod crab;
mod gate;
mod globs;
mod goals;
mod grpc;
mod http;
mod idle;
mod lease;
mod measure;
mod middleware;
mod parts;
mod peers;
mod redis;
mod report;
mod resp;
mod rows;
mod serving;
mod snapshot;
mod stream;
mod table;
mod tails;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use measure::Pace;
use report::Report;
use stream::Streams;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SIZES: [usize; 5] = [1, 1000, 100_000, 1_000_000, 10_000_000];

/// Tollgate beside other rate limiters, in turn in one run.
#[derive(Parser)]
struct Arguments {
    /// A minute instead of a quarter of an hour: fewer and shorter rounds, no 10 M keys.
    #[arg(long, global = true)]
    quick: bool,
    /// Only rows whose name contains this, such as `decisions/1M`, `zipf`, `tails` or `bytes`.
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
    /// Writes every round of every row to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fails if a goal that was measured is missed.
    #[arg(long)]
    strict: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Only the clocks a limiter could read.
    Clock,
    /// Only the hashes a limiter could use.
    Hash,
    /// Only waiting: 1000 tasks for one key, beside governor's until_key_ready.
    Acquire,
    /// Only the gate: a policy beside the same charges by hand, and replacing a large one.
    Gate,
    /// Only snapshots: how long one of a million keys takes, and the tail of checks meanwhile.
    Snapshot,
    /// Only lists of globs: a check of one long value, and loading a large list.
    Globs,
    /// Only Redis: our script beside a plain one on a server of its own, and a flood.
    Redis,
    /// Only leases: one policy strict and leased, on hot and cold keys, and a fleet with skewed traffic.
    Lease,
    /// Only gRPC: the rate limit service beside a bare tonic handler.
    Grpc,
    /// Only the server's Redis protocol: beside INCR of a redis-server and a throttlecrab-server.
    Resp {
        /// How many threads answer.
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Only the server's HTTP: beside a bare axum handler and a throttlecrab-server.
    Http,
    /// Only what idle connections take up.
    Idle,
    /// Prints what idle connections of one transport take up.
    #[command(hide = true)]
    IdleOf { transport: idle::Transport },
    /// Only the layer for tower services: beside the same by hand and beside tower_governor.
    Middleware,
    /// Runs one row of `middleware` so often, for an instruction count.
    #[command(hide = true)]
    MiddlewareOf { row: usize, requests: usize },
    /// Prints what a limiter's keys occupy in this process.
    #[command(hide = true)]
    BytesOf { who: peers::Who, keys: usize },
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::parse();
    match arguments.part {
        Some(Part::Clock) => parts::clocks(&arguments.pace(ProgressBar::hidden())),
        Some(Part::Hash) => parts::hashes(&arguments.pace(ProgressBar::hidden())),
        Some(Part::Acquire) => acquire::run(if arguments.quick { 5 } else { 15 }),
        Some(Part::Gate) => gate::run(&arguments.pace(ProgressBar::hidden())),
        Some(Part::Snapshot) => snapshot::run(if arguments.quick { 5 } else { 15 }),
        Some(Part::Globs) => globs::run(if arguments.quick { 11 } else { 60 }),
        Some(Part::Redis) => redis::run(if arguments.quick { 20 } else { 60 }),
        Some(Part::Lease) => lease::run(if arguments.quick { 10 } else { 40 }),
        Some(Part::Grpc) => grpc::run(if arguments.quick { 6 } else { 20 }),
        Some(Part::Resp { threads }) => resp::run(if arguments.quick { 9 } else { 27 }, threads),
        Some(Part::Idle) => idle::run(),
        Some(Part::IdleOf { transport }) => idle::one(transport),
        Some(Part::Http) => http::run(if arguments.quick { 15 } else { 45 }),
        Some(Part::Middleware) => middleware::run(&arguments.pace(ProgressBar::hidden())),
        Some(Part::MiddlewareOf { row, requests }) => middleware::one(row, requests),
        Some(Part::BytesOf { who, keys }) => bytes::print(who, keys),
        None => return compare(&arguments),
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn pace(&self, progress: ProgressBar) -> Pace {
        let (rounds, millis) = if self.quick { (11, 2) } else { (60, 4) };
        Pace { rounds, slice: Duration::from_millis(millis), progress }
    }

    /// It needs microseconds and a kilobyte for each key.
    fn most_for_limitador(&self) -> usize {
        if self.quick { 100_000 } else { 1_000_000 }
    }

    fn sizes(&self) -> &'static [usize] {
        if self.quick { &SIZES[..SIZES.len() - 1] } else { &SIZES }
    }
}

fn compare(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let (filter, sizes) = (arguments.filter.as_str(), arguments.sizes());
    let pace = arguments.pace(ProgressBar::new(0).with_style(ProgressStyle::with_template(
        "{elapsed_precise} {wide_bar} {percent:>3} %, {eta} left  {msg:<36}",
    )?));
    let blocks: Vec<_> = rows::blocks(sizes, arguments.most_for_limitador())
        .into_iter()
        .map(|block| (block.chosen(filter), block))
        .collect();
    let tails = tails::chosen(filter);
    let bytes = bytes::chosen(sizes, arguments.most_for_limitador(), filter);
    let steps = blocks.iter().map(|(chosen, block)| block.steps(chosen, pace.rounds));
    let steps = steps.sum::<usize>() + tails.len() * pace.rounds + bytes.len();
    if steps == 0 {
        return Err(
            format!("no row's name contains {filter:?}; see README.md for the names").into()
        );
    }
    pace.progress.set_length(steps as u64);

    let mut report = Report::default();
    let cores_before = measure::cores();
    bytes::run(&bytes, &pace, &mut report);
    tails::run(&tails, &pace, &mut report);
    let mut streams = Streams::default();
    for (chosen, block) in &blocks {
        block.run(chosen, (&mut streams, &pace), &mut report);
    }
    pace.progress.finish_and_clear();
    let cores_after = measure::cores();
    report.notes.push(format!(
        "two threads had {cores_before:.1} cores before and {cores_after:.1} after; 2.0 is an idle machine"
    ));

    table::print(&report);
    let missed = goals::print(&report);
    if let Some(path) = &arguments.json {
        write(&report, path)?;
    }
    Ok(if missed && arguments.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(report: &Report, path: &Path) -> Result<(), Box<dyn Error>> {
    let text = serde_json::to_string(report)?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}
