//! What the server says while it runs: on stderr, so that what it prints can be read by itself.
//!
//! Whoever logs something that tells who a client is does so in a field of one of the names in
//! [`NAMES_CLIENTS`]: those are left out unless the operator asks for them.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use super::config::{Log, LogFormat};
use crate::Failure;

/// Fields that may tell who a client is.
const NAMES_CLIENTS: [&str; 4] = ["attributes", "client", "key", "peer"];

/// Starts the log. Where somebody else has started one, that is used.
pub(super) fn start(log: &Log) {
    let keys = log.keys;
    let lines = Lines { format: log.format, keys };
    let lines = layer().with_writer(std::io::stderr).with_ansi(false).event_format(lines);
    // It would be told on the same stderr, and panic where that is gone, as with a terminal.
    let lines = lines.log_internal_errors(false);
    let is_told = filter_fn(move |about| keys || is_ours(about) || *about.level() <= Level::INFO);
    let _ = Registry::default().with(log.level.clone()).with(lines.with_filter(is_told)).try_init();
}

/// Tells in the log why it cannot go on, where that is for programs: every line of it is JSON then.
pub(super) fn tell(log: &Log, failure: Failure) -> Failure {
    if log.format != LogFormat::Json || !tracing::enabled!(Level::ERROR) {
        return failure;
    }
    let (lines, code) = match failure {
        Failure::Usage(lines) | Failure::Files(lines) => (lines, 2),
        Failure::Start(line) => (vec![line], 1),
        other => return other,
    };
    lines.iter().for_each(|line| tracing::error!("{line}"));
    Failure::Told(code)
}

/// Whether it is known what is in its fields: the details of a library's doings may hold anything.
fn is_ours(about: &Metadata<'_>) -> bool {
    about.target().starts_with("tollgate")
}

/// Writes each event in a line.
struct Lines {
    format: LogFormat,
    keys: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields { keys: self.keys, message: String::new(), rest: Map::new() };
        event.record(&mut fields);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let time = in_millis(&time);
        match self.format {
            LogFormat::Text => fields.text(&mut writer, &time, *event.metadata().level()),
            LogFormat::Json => fields.json(&mut writer, &time, event.metadata()),
        }
    }
}

/// A time in RFC 3339 with at most three digits after its second.
fn in_millis(time: &str) -> String {
    let end = time.find('.').map_or(time.len(), |point| time.len().min(point + 4));
    let zone = if end < time.len() { "Z" } else { "" };
    format!("{}{zone}", &time[..end])
}

/// What an event holds, without what must not be told.
struct Fields {
    keys: bool,
    message: String,
    rest: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if name == "message" {
            self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        } else if self.keys || !NAMES_CLIENTS.contains(&name) {
            self.rest.insert(name.to_owned(), value);
        }
    }

    /// `2026-01-31T12:00:00Z  INFO the policy was changed rules=3`, on one line whatever is in it.
    fn text(self, writer: &mut Writer<'_>, time: &str, level: Level) -> fmt::Result {
        write!(writer, "{time} {level:>5} ")?;
        self.message.chars().try_for_each(|c| match c.is_control() {
            true => write!(writer, "{}", c.escape_debug()),
            false => writer.write_char(c),
        })?;
        self.rest.iter().try_for_each(|(name, value)| write!(writer, " {name}={value}"))?;
        writeln!(writer)
    }

    /// An object; the four names that every line has are never taken by a field.
    fn json(self, writer: &mut Writer<'_>, time: &str, about: &Metadata<'_>) -> fmt::Result {
        let mut line = self.rest;
        line.insert("timestamp".to_owned(), time.into());
        line.insert("level".to_owned(), about.level().as_str().into());
        line.insert("target".to_owned(), about.target().into());
        line.insert("message".to_owned(), self.message.into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Kept {
        type Writer = Kept;

        fn make_writer(&self) -> Kept {
            self.clone()
        }
    }

    /// What is written of an event that names a client.
    fn written(format: LogFormat, keys: bool) -> String {
        let kept = Kept::default();
        let lines = layer().with_writer(kept.clone()).event_format(Lines { format, keys });
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            let (peer, error) = ("192.0.2.7:99", "it\nbroke");
            tracing::warn!(peer, key = %"user=ana", %error, rules = 3, "one\nline");
        });
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn clients_are_named_only_where_that_is_wanted() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let without = written(format, false);
            assert!(!without.contains("192.0.2.7") && !without.contains("ana"), "{without}");
            let with = written(format, true);
            assert!(with.contains("192.0.2.7:99") && with.contains("user=ana"), "{with}");
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let text = written(LogFormat::Text, false);
        assert!(text.ends_with("  WARN one\\nline error=\"it\\nbroke\" rules=3\n"), "{text}");
        assert_eq!(text.lines().count(), 1);
        let json: Value = serde_json::from_str(&written(LogFormat::Json, false)).unwrap();
        assert_eq!(json["level"], "WARN");
        assert_eq!(json["message"], "one\nline");
        assert_eq!(json["rules"], 3);
        let time = json["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() == "2026-01-31T12:00:00.123Z".len(), "{json}");
    }
}
