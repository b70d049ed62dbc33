//! YAML as a tree with line numbers, built within bounds: of bytes, of nodes and of depth.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::bounds::{MAX_ENVOY_BYTES, MAX_YAML_DEPTH, MAX_YAML_NODES};

/// A value and where it begins. An alias is the very node that its anchor names, so that aliases
/// of aliases take no memory; who walks the tree must bound its steps.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
    /// How many levels of lists and mappings it holds, with itself.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    /// A scalar as it is written, whatever a schema would make of it.
    Text(String),
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Rc<Node>,
}

impl Entry {
    /// Whether there is nothing behind the key.
    pub(super) fn is_blank(&self) -> bool {
        match &self.value.value {
            Value::Null => true,
            Value::Text(text) => text.is_empty(),
            Value::List(_) | Value::Map(_) => false,
        }
    }
}

/// Why a text is not a tree.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) message: String,
}

fn fault<T>(line: usize, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { line, message: message.into() })
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Fault {
        Fault { line: error.marker().line(), message: format!("not YAML: {}", error.info()) }
    }
}

/// The one document of `text`.
pub(super) fn parse(text: &str) -> Result<Rc<Node>, Fault> {
    if text.len() > MAX_ENVOY_BYTES {
        let most = MAX_ENVOY_BYTES >> 20;
        return fault(0, format!("has {} bytes, must be at most {most} MiB", text.len()));
    }
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        tree.take(event, span.start.line())?;
    }
    let nothing = || Rc::new(Node { line: 1, value: Value::Null, height: 0 });
    Ok(tree.root.unwrap_or_else(nothing))
}

/// A tree that is being built.
#[derive(Default)]
struct Tree {
    root: Option<Rc<Node>>,
    /// The lists and mappings that are not closed yet.
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
    documents: usize,
}

struct Open {
    line: usize,
    anchor: usize,
    height: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>, Option<(usize, String)>),
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return fault(line, "a second document, write one file for each domain");
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain
                    && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Text(text.into_owned()) };
                self.add(Rc::new(Node { line, value, height: 0 }), anchor)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return fault(line, "an alias inside of what it stands for, it has no end");
                };
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(line, anchor, Content::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(line, anchor, Content::Map(Vec::new(), None))?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, line: usize, anchor: usize, content: Content) -> Result<(), Fault> {
        if self.open.len() == MAX_YAML_DEPTH {
            return too_deep(line);
        }
        self.open.push(Open { line, anchor, height: 1, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(Open { line, anchor, height, content }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map(entries, _) => Value::Map(self.merged(entries)?),
        };
        self.add(Rc::new(Node { line, value, height }), anchor)
    }

    /// Puts a node where the text has it.
    fn add(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), Fault> {
        self.count(node.line, 1)?;
        if self.open.len() + node.height > MAX_YAML_DEPTH {
            return too_deep(node.line);
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.height = parent.height.max(node.height + 1);
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Map(entries, key) => match key.take() {
                Some((line, key)) => entries.push(Entry { line, key, value: node }),
                None => *key = Some((node.line, key_text(&node)?)),
            },
        }
        Ok(())
    }

    /// The entries with what `<<` brings in where they do not say it themselves, each key once.
    fn merged(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Fault> {
        let (merges, mut own): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.key == "<<");
        let mut known = HashSet::new();
        for entry in &own {
            if !known.insert(entry.key.clone()) {
                return fault(entry.line, format!("`{}` is given twice", shown(&entry.key)));
            }
        }
        for merge in merges {
            let sources = match &merge.value.value {
                Value::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&merge.value),
            };
            for source in sources {
                let Value::Map(entries) = &source.value else {
                    return fault(merge.line, "`<<` takes a mapping or a list of mappings");
                };
                self.count(merge.line, entries.len())?;
                let new = entries.iter().filter(|entry| known.insert(entry.key.clone()));
                own.extend(new.cloned());
            }
        }
        Ok(own)
    }

    fn count(&mut self, line: usize, nodes: usize) -> Result<(), Fault> {
        self.nodes += nodes;
        if self.nodes > MAX_YAML_NODES {
            return fault(line, format!("more than {MAX_YAML_NODES} values, split the file"));
        }
        Ok(())
    }
}

fn too_deep<T>(line: usize) -> Result<T, Fault> {
    fault(line, format!("nested more than {MAX_YAML_DEPTH} levels deep"))
}

fn key_text(node: &Node) -> Result<String, Fault> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Null => fault(node.line, "a key is missing before `:`"),
        Value::List(_) | Value::Map(_) => {
            fault(node.line, "a key is a list or mapping, must be a name")
        }
    }
}

/// A text of the file, cut to what an error can show.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
