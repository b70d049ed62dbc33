//! Events that the code under test logs with `tracing`, on the thread of one test.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// The other fields by their names.
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Line {
    /// The number in a field.
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().expect("the field is a number")
    }

    /// The level, the message and the names of the fields.
    pub(crate) fn outline(&self) -> String {
        let mut text = format!("{} {}", self.level, self.message);
        for name in self.fields.keys() {
            write!(text, " {name}=").expect("a text takes more text");
        }
        text
    }
}

/// The events of this thread from `INFO` up. A test runs the code under test on its own thread, with
/// [`alone`](super::clock::alone).
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    /// Collects the events of this thread until it is dropped.
    pub(crate) fn of_this_thread() -> Log {
        // With a single subscriber, tracing asks the subscriber of the thread that reaches an event
        // first whether anybody wants the event. With a second one it asks all of them.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(NoSubscriber::default()));
        let lines = Arc::default();
        let _guard = set_default(Collector(Arc::clone(&lines)));
        Log { lines, _guard }
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }
}

struct Collector(Arc<Mutex<Vec<Line>>>);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, fields } = fields;
        let level = *event.metadata().level();
        self.0.lock().unwrap().push(Line { level, message, fields });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields {
    message: String,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }
}
