//! `--sync`: the ways in which nodes can share a limit, side by side.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate_lab::picture::{panels, printable};
use tollgate_lab::simulate::{Shared, Sharing, SharingOptions, Simulation};

use super::{Simulate, write};
use crate::paint::Paint;
use crate::{Failure, duration};

/// Ways to share a limit.
#[derive(Args)]
pub(super) struct SharingArgs {
    /// Put ways to share the limit side by side, such as strict,leased; without --traffic in four scenes
    #[arg(long, value_name = "WAYS", value_enum, value_delimiter = ',', requires = "nodes",
        conflicts_with_all = ["policy", "picture", "window", "store_outage", "on_store_error"])]
    sync: Vec<Way>,

    /// How long a lease lasts
    #[arg(long, value_name = "TIME", requires = "sync", default_value = "1s", value_parser = duration::parse)]
    lease_ttl: Duration,

    /// The largest lease, of a hundred parts of the limit
    #[arg(long, value_name = "PERCENT", requires = "sync", default_value = "100%", value_parser = read_percent)]
    lease_share: u64,

    /// How often nodes tell the store what they admitted, where they do so now and then
    #[arg(long, value_name = "TIME", requires = "sync", default_value = "100ms", value_parser = duration::parse)]
    sync_every: Duration,

    /// How many requests of a hundred come to the first node
    #[arg(long, value_name = "PERCENT", requires = "sync", value_parser = read_percent)]
    hot_node: Option<u64>,

    /// When nodes crash, one after the other, such as 5s,10s
    #[arg(long, value_name = "TIMES", requires = "sync", value_delimiter = ',', value_parser = duration::parse)]
    crash: Vec<Duration>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Way {
    /// All of them
    All,
    /// Every decision asks the store
    Strict,
    /// Nodes borrow units, and spend them by themselves
    Leased,
    /// Nodes decide by themselves, and tell the store now and then
    Periodic,
    /// Each node has its part
    Divided,
}

impl SharingArgs {
    /// What was asked for, if anything was.
    pub(super) fn options(&self) -> Option<SharingOptions> {
        let of = |way: &Way| match way {
            Way::All => Sharing::ALL.to_vec(),
            Way::Strict => vec![Sharing::Strict],
            Way::Leased => vec![Sharing::Leased],
            Way::Periodic => vec![Sharing::Periodic],
            Way::Divided => vec![Sharing::Divided],
        };
        let mut ways: Vec<Sharing> = Vec::new();
        for way in self.sync.iter().flat_map(of) {
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        (!ways.is_empty()).then(|| SharingOptions {
            ways,
            lease_ttl: self.lease_ttl,
            lease_share_percent: self.lease_share,
            every: self.sync_every,
            hot_percent: self.hot_node,
            crashes: self.crash.clone(),
        })
    }
}

impl Simulate {
    pub(super) fn share(
        &self,
        simulation: &Simulation,
        options: &SharingOptions,
        (out, paint): (&mut impl Write, Paint),
    ) -> Result<(), Failure> {
        let shared =
            simulation.share(options).map_err(|error| Failure::Usage(vec![error.to_string()]))?;
        if let Some(path) = &self.svg {
            write::write_file(path, &panels(&shared.lead(), &shared.charts(), 2))?;
        }
        if let Some(path) = &self.html {
            write::write_file(path, &shared.report(&write::command()).html())?;
        }
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &shared).map_err(io::Error::from)?;
            return Ok(writeln!(out)?);
        }
        Ok(text(out, paint, &shared)?)
    }
}

fn text(out: &mut impl Write, paint: Paint, shared: &Shared) -> io::Result<()> {
    writeln!(out, "{}\n", printable(&shared.lead()))?;
    write::write_table(out, paint, &shared.table())?;
    for chart in shared.charts() {
        write!(out, "\n{}", chart.terminal(write::screen(paint).rows(write::ROWS_OF_MANY)))?;
    }
    Ok(())
}

/// Reads `90%` or `90`.
fn read_percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| format!("{text:?} is not a part such as 90%, from 1% to 100%"))
}
