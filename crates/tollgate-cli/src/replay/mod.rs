//! `tollgate replay`: what a policy would have done to the requests of a log.

mod progress;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tollgate_lab::picture::Screen;
use tollgate_lab::replay::{self, FieldMap, Format, Log, Order, Report, Settings, Template};

use crate::paint::{Paint, Tone, printable};
use crate::policy_file::read_or_fail;
use crate::{Failure, Found, duration};
use progress::Bar;

/// Say what a policy would have done to the requests of a log
///
/// Reads common and combined log format, JSON lines, CSV and TSV, also compressed with gzip or zstd.
/// Fields become attributes: ip, method, path, route, status, host, user, agent, bytes, referer,
/// protocol, query, and every field whose name the policy asks about. Several logs are read as one,
/// in order of time.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate replay access.log --policy tollgate.toml
  tollgate replay access.log.1 access.log.2.gz --policy tollgate.toml --html report.html
  zcat app.jsonl.gz | tollgate replay - --policy tollgate.toml --field user=.auth.sub
  tollgate replay access.log --policy new.toml --against tollgate.toml --json

Exit codes: 0 replayed, 1 the answer could not be written, 2 the policy, a log or an option is wrong, or a line with --strict")]
pub(crate) struct Replay {
    /// Logs; - is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,

    /// The policy
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,

    /// Another policy, to say what is newly refused and newly allowed
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,

    /// How the logs are written: common, combined, json, csv or tsv [default: found out]
    #[arg(long, value_name = "FORMAT", value_parser = read_format)]
    format: Option<Format>,

    /// The field that an attribute is read from, also for time and cost: user=.auth.sub, time=ts
    #[arg(long = "field", value_name = "NAME=FIELD", value_parser = read_field)]
    fields: Vec<FieldMap>,

    /// What route is, by the path: /users/{id}, /static/{*rest}; the first that fits
    #[arg(long = "route", value_name = "TEMPLATE", value_parser = read_route)]
    routes: Vec<Template>,

    /// How long a line waits for earlier ones that come after it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse, conflicts_with = "sort")]
    reorder: Duration,

    /// Put all lines in order first; holds the whole log in memory
    #[arg(long)]
    sort: bool,

    /// End at the first malformed line
    #[arg(long)]
    strict: bool,

    /// The most keys whose state is kept, as of a server
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_keys: usize,

    /// How many of the keys that are refused most are told
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Do not find out what other numbers would have refused, which takes a fifth of the time
    #[arg(long)]
    no_suggestions: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write a page with pictures to this file too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Replay {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        let policy = read_or_fail(&self.policy)?;
        let against = self.against.as_deref().map(read_or_fail).transpose()?;
        let logs: Vec<Log> = self.logs.iter().map(|path| Log::named(path)).collect();
        if logs.iter().filter(|log| **log == Log::Stdin).count() > 1 {
            return Err(Failure::Usage(vec![
                "standard input can be read once, \"-\" is given twice".into(),
            ]));
        }
        let settings = self.settings();
        let mut bar = Bar::new(&logs, settings.order);
        let report = replay::replay(&logs, &policy, against.as_ref(), &settings, &mut |progress| {
            bar.show(progress);
        });
        bar.end();
        let report = report.map_err(failure)?;
        if let Some(path) = &self.html {
            std::fs::write(path, report.html()).map_err(|error| {
                Failure::Start(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            write(out, paint, &report)?;
        }
        Ok(Found::Good)
    }

    fn settings(&self) -> Settings {
        Settings {
            format: self.format,
            fields: self.fields.clone(),
            routes: self.routes.clone(),
            order: if self.sort { Order::Sorted } else { Order::Within(self.reorder) },
            strict: self.strict,
            max_keys: self.max_keys,
            clients: self.top,
            suggest: !self.no_suggestions,
        }
    }
}

fn failure(failure: replay::Failure) -> Failure {
    match failure {
        // It may name columns of a log.
        replay::Failure::Mistake(message) => Failure::Usage(vec![printable(&message)]),
        // These begin with a file's name.
        other => Failure::Files(vec![printable(&other.to_string())]),
    }
}

fn write(out: &mut impl Write, paint: Paint, report: &Report) -> std::io::Result<()> {
    let columns = progress::columns();
    let screen = match paint {
        Paint::Plain => Screen::plain(columns),
        Paint::Coloured => Screen::coloured(columns),
    };
    for (at, section) in report.sections(screen).iter().enumerate() {
        if at > 0 {
            writeln!(out, "\n{}", paint.text(Tone::Heading, &section.title))?;
        }
        write!(out, "{}", section.text)?;
    }
    Ok(())
}

fn read_format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|mistake: replay::Mistake| mistake.to_string())
}

fn read_route(text: &str) -> Result<Template, String> {
    Template::new(text).map_err(|mistake| mistake.to_string())
}

fn read_field(text: &str) -> Result<FieldMap, String> {
    match text.split_once('=') {
        Some((name, field)) if !name.is_empty() && !field.is_empty() => {
            Ok(FieldMap { attribute: name.to_owned(), field: field.to_owned() })
        }
        _ => Err(format!("{text:?} is not NAME=FIELD, such as user=.auth.sub")),
    }
}
