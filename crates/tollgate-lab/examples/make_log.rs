//! Writes a log in common log format, the same for the same number of lines:
//! `cargo run --release -p tollgate-lab --example make_log -- 3000000 > access.log`.
//!
//! A day of requests by a hundred thousand addresses, a few of which ask for much and most for
//! little, to a site with some pages.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

const CLIENTS: u64 = 100_000;
const DAY: u64 = 86_400;

fn main() -> ExitCode {
    let Some(lines) = std::env::args().nth(1).and_then(|lines| lines.parse().ok()) else {
        eprintln!("say how many lines: make_log 3000000 > access.log");
        return ExitCode::from(2);
    };
    match write(lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn write(lines: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    for line in 0..lines {
        let chance = mix(line);
        // The product of two numbers below one is small more often than not: few clients, and few
        // pages, are most of the traffic.
        let client = (chance % 1000) * (chance / 1000 % 1000) * (CLIENTS / 1000) / 1000;
        let address = mix(client + lines);
        let second = line * DAY / lines.max(1);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let page = (chance >> 32) % 40 * ((chance >> 40) % 40) / 40;
        writeln!(
            out,
            "{}.{}.{}.{} - - [15/Nov/2026:{hour:02}:{minute:02}:{:02} +0000] \"GET /items/{page} HTTP/1.1\" {} {}",
            1 + address % 222,
            address >> 16 & 255,
            address >> 24 & 255,
            address >> 32 & 255,
            second % 60,
            if chance.is_multiple_of(50) { 404 } else { 200 },
            (chance >> 20) % 20_000,
        )?;
    }
    out.flush()
}

/// splitmix64: small, and the same on every machine.
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
