//! Reading tables: unknown keys are found, wrong values said, and nothing stops at the first.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::Document;
use crate::paint::printable;

/// Everything that is wrong with a file, as it is found.
pub(super) struct Reader<'a> {
    pub(super) document: &'a Document,
    wrong: RefCell<Vec<String>>,
}

/// How many errors are told; who has made more will run it again.
const MOST_ERRORS: usize = 100;

impl<'a> Reader<'a> {
    pub(super) fn new(document: &'a Document) -> Reader<'a> {
        Reader { document, wrong: RefCell::default() }
    }

    pub(super) fn into_wrong(self) -> Vec<String> {
        self.wrong.into_inner()
    }

    /// Takes note of what is wrong on a line, at a place that is said in words.
    fn wrong(&self, line: usize, place: &str, message: &str) {
        self.note(self.place(line, place, message));
    }

    fn place(&self, line: usize, place: &str, message: &str) -> String {
        let file = &self.document.name;
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        printable(&format!("{file}:{line}: {place}{message}"))
    }

    /// Takes note of a message that says where it belongs.
    pub(super) fn note(&self, message: String) {
        let mut wrong = self.wrong.borrow_mut();
        if wrong.len() < MOST_ERRORS {
            wrong.push(message);
        }
    }
}

/// A table that is being read.
pub(super) struct Fields<'a> {
    pub(super) reader: &'a Reader<'a>,
    table: &'a DeTable<'a>,
    /// Where it is, in words: `test "a burst": step 2`.
    pub(super) place: String,
    /// The line on which it begins.
    pub(super) line: usize,
}

impl<'a> Fields<'a> {
    /// Opens a table in which only `known` keys make sense.
    pub(super) fn of(
        reader: &'a Reader<'a>,
        table: &'a DeTable<'a>,
        place: String,
        known: &[&str],
    ) -> Fields<'a> {
        let first = table.keys().map(|key| key.span().start).min().unwrap_or(0);
        let fields = Fields { reader, table, place, line: reader.document.line(first) };
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            fields.wrong_at(key.span().start, &unknown("key", key.get_ref(), known));
        }
        fields
    }

    /// Opens the table in `value`, if it is one.
    pub(super) fn open(
        reader: &'a Reader<'a>,
        value: &'a Spanned<DeValue<'a>>,
        place: String,
        known: &[&str],
    ) -> Option<Fields<'a>> {
        let start = reader.document.line(value.span().start);
        if let DeValue::Table(table) = value.get_ref() {
            let fields = Fields::of(reader, table, place, known);
            return Some(Fields { line: start, ..fields });
        }
        reader.wrong(start, &place, &expected("a table", value.get_ref()));
        None
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The value of a key as `read` reads it; `None` also where it is wrong, which is noted.
    pub(super) fn get<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let wrong =
            |message: String| self.wrong_at(value.span().start, &format!("{key} {message}"));
        read(value.get_ref()).map_err(wrong).ok()
    }

    /// All keys and values.
    pub(super) fn entries(
        &self,
    ) -> impl Iterator<Item = (&'a str, &'a Spanned<DeValue<'a>>)> + use<'a> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), value))
    }

    /// The values of a key that is a list, and nothing where it is not there.
    pub(super) fn list(&self, key: &str) -> &'a [Spanned<DeValue<'a>>] {
        match self.value(key).map(|value| (value, value.get_ref())) {
            None => &[],
            Some((_, DeValue::Array(values))) => values,
            Some((at, other)) => {
                let message = format!("{key} {}", expected("a list", other));
                self.wrong_at(at.span().start, &message);
                &[]
            }
        }
    }

    /// Notes what is wrong with the table as a whole.
    pub(super) fn wrong(&self, message: &str) {
        self.wrong_on(self.line, message);
    }

    /// Notes what is wrong with the value of a key.
    pub(super) fn wrong_in(&self, key: &str, message: &str) {
        self.reader.note(self.place_of(key, message));
    }

    /// A message about the value of a key, with its place.
    pub(super) fn place_of(&self, key: &str, message: &str) -> String {
        let line = self.value(key).map(|value| self.reader.document.line(value.span().start));
        self.reader.place(line.unwrap_or(self.line), &self.place, message)
    }

    fn wrong_at(&self, offset: usize, message: &str) {
        self.wrong_on(self.reader.document.line(offset), message);
    }

    fn wrong_on(&self, line: usize, message: &str) {
        self.reader.wrong(line, &self.place, message);
    }
}

/// What to say of a value of the wrong kind.
pub(crate) fn expected(wanted: &str, got: &DeValue<'_>) -> String {
    let kind = match got {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with decimals",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("must be {wanted}, not {kind}")
}

/// The known name that another was probably meant to be.
pub(crate) fn closest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // A name as long as a file is not a slip of the finger, and not worth the comparison.
    let name: String = name.chars().take(100).collect();
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(&name, known), *known));
    let is_near =
        |distance: usize| distance < name.chars().count() && distance <= 2.max(name.len() / 3);
    near.min().filter(|(distance, _)| is_near(*distance)).map(|(_, close)| close)
}

/// What to say of a name nobody knows.
pub(crate) fn unknown<'k>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'k (impl AsRef<str> + ?Sized + 'k)>,
) -> String {
    let name: String = name.chars().take(100).collect();
    let known: Vec<&str> = known.into_iter().map(AsRef::as_ref).collect();
    match closest(&name, &known) {
        Some(close) => format!("unknown {what} `{name}`, did you mean `{close}`?"),
        _ if known.len() <= 16 && !known.is_empty() => {
            format!("unknown {what} `{name}`, known are {}", known.join(", "))
        }
        _ => format!("unknown {what} `{name}`"),
    }
}
