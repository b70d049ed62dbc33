//! JSON lines: an object a line, whose fields may be anywhere in it.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::block::{Block, Span};
use super::fields::{Slot, Wanted};
use super::line::{Line, Wrong};
use super::time::Times;

/// Reads JSON lines.
#[derive(Debug)]
pub(super) struct Json {
    fields: Node,
    /// Which slots are paths, cut at a question mark.
    paths: Vec<bool>,
    times: Times,
    /// What was found in a line, and how good its name was: the time, then the slots.
    found: Vec<(Span, usize)>,
}

/// The names that are looked for in an object.
#[derive(Debug, Default)]
struct Node {
    children: Vec<(String, Node)>,
    /// What this field is: a place in `found`, and which of its names it is.
    takes: Vec<(usize, usize)>,
}

const NOT_FOUND: (Span, usize) = (Span::ABSENT, usize::MAX);

impl Json {
    pub(super) fn new(wanted: &Wanted) -> Json {
        let mut fields = Node::default();
        let slots: Vec<&Slot> = std::iter::once(&wanted.time).chain(&wanted.slots).collect();
        for (place, slot) in slots.iter().enumerate() {
            for (rank, name) in slot.candidates().enumerate() {
                fields.at(name).takes.push((place, rank));
            }
        }
        let paths = slots.iter().map(|slot| slot.is_path()).collect();
        Json { fields, paths, times: Times::default(), found: vec![NOT_FOUND; slots.len()] }
    }

    /// Reads a line: its time, and its values into `out`.
    pub(super) fn read(&mut self, line: &Line<'_>, out: &mut Block) -> Result<u64, Wrong> {
        self.found.fill(NOT_FOUND);
        let mut reading = Reading { line, out, found: &mut self.found, paths: &self.paths };
        reading
            .object(line.text(), &self.fields)
            .map_err(|error| Wrong::Json(error.to_string()))?;
        let time = line.get(self.found[0].0).or_else(|| out.get(self.found[0].0));
        let time = self.times.any(time.ok_or(Wrong::NoTime)?.as_bytes()).ok_or(Wrong::Time)?;
        out.spans.push(line.span());
        out.spans.extend(self.found[1..].iter().map(|(span, _)| *span));
        Ok(time)
    }
}

impl Node {
    /// The field called `name`: with a dot in front, a path into objects.
    fn at(&mut self, name: &str) -> &mut Node {
        match name.strip_prefix('.') {
            None => self.child(name),
            Some(path) => path.split('.').fold(self, |node, name| node.child(name)),
        }
    }

    fn child(&mut self, name: &str) -> &mut Node {
        let known = self.children.iter().position(|(of, _)| of == name);
        let at = known.unwrap_or_else(|| {
            self.children.push((name.to_owned(), Node::default()));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }
}

struct Reading<'r, 't> {
    line: &'r Line<'t>,
    out: &'r mut Block,
    found: &'r mut [(Span, usize)],
    paths: &'r [bool],
}

impl<'t> Reading<'_, 't> {
    fn object(&mut self, text: &'t str, node: &Node) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_str(text);
        json.deserialize_map(Fields { reading: self, node })?;
        json.end()
    }

    fn value(&mut self, raw: &'t str, node: &Node) -> serde_json::Result<()> {
        if raw.starts_with('{') && !node.children.is_empty() {
            return self.object(raw, node);
        }
        for (place, rank) in &node.takes {
            // Of fields of one name the last counts; what is absent hides no other.
            if *rank <= self.found[*place].1 {
                let span = self.scalar(raw, self.paths[*place])?;
                if !span.is_absent() {
                    self.found[*place] = (span, *rank);
                }
            }
        }
        Ok(())
    }

    fn scalar(&mut self, raw: &'t str, is_path: bool) -> serde_json::Result<Span> {
        let (span, text) = match raw.as_bytes().first() {
            Some(b'"') if raw.contains('\\') => {
                let text: String = serde_json::from_str(raw)?;
                (self.out.put_aside(|to| to.push_str(&text)), std::borrow::Cow::Owned(text))
            }
            Some(b'"') => {
                let text = &raw[1..raw.len() - 1];
                (self.line.part_of(text), text.into())
            }
            Some(b'{' | b'[' | b'n') | None => return Ok(Span::ABSENT),
            Some(_) => (self.line.part_of(raw), raw.into()),
        };
        if text.is_empty() || text == "-" {
            return Ok(Span::ABSENT);
        }
        Ok(match text.find('?') {
            Some(query) if is_path => span.cut(query),
            _ => span,
        })
    }
}

/// The fields of an object.
struct Fields<'v, 'r, 't> {
    reading: &'v mut Reading<'r, 't>,
    node: &'v Node,
}

impl<'t> Visitor<'t> for Fields<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(Name(self.node))? {
            match child {
                None => drop(map.next_value::<serde::de::IgnoredAny>()?),
                Some(child) => {
                    let raw: &'t RawValue = map.next_value()?;
                    let read = self.reading.value(raw.get(), child);
                    read.map_err(serde::de::Error::custom)?;
                }
            }
        }
        Ok(())
    }
}

/// A field's name, as what is looked for under it.
struct Name<'v>(&'v Node);

impl<'t, 'v> DeserializeSeed<'t> for Name<'v> {
    type Value = Option<&'v Node>;

    fn deserialize<D: serde::Deserializer<'t>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'v> Visitor<'_> for Name<'v> {
    type Value = Option<&'v Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().find(|(of, _)| of == name).map(|(_, node)| node))
    }
}
