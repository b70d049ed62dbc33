//! Bytes per key: each limiter is filled in a process of its own, where nothing was freed before.

use std::io;
use std::process::Command;

use clap::ValueEnum;

use crate::counting::bytes_of;
use crate::measure::Pace;
use crate::peers::{Traffic, Who};
use crate::report::{Bytes, Report, keys_name};

const MEASURED: [Who; 8] = [
    Who::Ours,
    Who::OursNameless,
    Who::OursU64,
    Who::Governor,
    Who::GovernorU64,
    Who::Throttlecrab,
    Who::Limitador,
    Who::Naive,
];

/// The measurements that are asked for.
pub(crate) fn chosen(
    sizes: &[usize],
    most_for_limitador: usize,
    filter: &str,
) -> Vec<(Who, usize)> {
    let enough = sizes.iter().filter(|&&keys| keys >= 100_000);
    let all = enough.flat_map(|&keys| MEASURED.map(|who| (who, keys)));
    all.filter(|&(who, keys)| who != Who::Limitador || keys <= most_for_limitador)
        .filter(|&(who, keys)| name(who, keys).contains(filter))
        .collect()
}

fn name(who: Who, keys: usize) -> String {
    format!("bytes/{}/{}", keys_name(keys), who.name())
}

pub(crate) fn run(chosen: &[(Who, usize)], pace: &Pace, report: &mut Report) {
    for &(who, keys) in chosen {
        pace.progress.set_message(name(who, keys));
        match in_a_process(who, keys) {
            Ok(bytes) => report.bytes.push(bytes),
            Err(error) => report.notes.push(format!("{}: {error}", name(who, keys))),
        }
        pace.progress.inc(1);
    }
}

fn in_a_process(who: Who, keys: usize) -> io::Result<Bytes> {
    let program = std::env::current_exe()?;
    let choice = who.to_possible_value().expect("no choice is skipped");
    let output =
        Command::new(program).args(["bytes-of", choice.get_name(), &keys.to_string()]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
    let per_key = |bytes: f64| bytes / keys as f64;
    let heap = numbers.next().flatten().ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("no number from the process: {}", errors.trim()))
    })?;
    let resident = numbers.next().flatten().map(per_key);
    Ok(Bytes { who: who.name(), keys, heap: per_key(heap), resident })
}

/// What the process of its own does: prints the bytes allocated and, where known, resident.
pub(crate) fn print(who: Who, keys: usize) {
    let before = resident();
    let (loaded, heap) = bytes_of(|| who.load(keys, Traffic::Allowed));
    let resident = before.zip(resident()).map(|(before, after)| after - before);
    drop(loaded);
    println!("{heap} {}", resident.map_or(String::new(), |bytes| bytes.to_string()));
}

/// How much of this process is in memory, where the system says so.
fn resident() -> Option<i64> {
    resident_of("self")
}

/// How much of a process is in memory, where the system says so.
pub(crate) fn resident_of(process: &str) -> Option<i64> {
    const PAGE: i64 = 4096;
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}
