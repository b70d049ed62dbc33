//! YAML as a tree with line numbers, built within bounds: of bytes, of nodes and of depth.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::bounds::{MAX_ENVOY_BYTES, MAX_YAML_DEPTH, MAX_YAML_NODES};

/// A value and where it begins. An alias is the very node that its anchor names, so that aliases
/// of aliases take no memory; who walks the tree must bound its steps.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) value: YamlValue,
    /// How many levels of lists and mappings it holds, with itself.
    height: usize,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Null,
    /// A scalar as it is written, whatever a schema would make of it.
    Text(String),
    List(Vec<Rc<YamlNode>>),
    Map(Vec<YamlEntry>),
}

#[derive(Clone, Debug)]
pub(super) struct YamlEntry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Rc<YamlNode>,
}

impl YamlEntry {
    /// Whether there is nothing behind the key.
    pub(super) fn is_blank(&self) -> bool {
        match &self.value.value {
            YamlValue::Null => true,
            YamlValue::Text(text) => text.is_empty(),
            YamlValue::List(_) | YamlValue::Map(_) => false,
        }
    }
}

/// Why a text is not a tree.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) message: String,
}

fn fault<T>(line: usize, message: impl Into<String>) -> Result<T, YamlError> {
    Err(YamlError { line, message: message.into() })
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> YamlError {
        YamlError { line: error.marker().line(), message: format!("not YAML: {}", error.info()) }
    }
}

/// The one document of `text`.
pub(super) fn parse(text: &str) -> Result<Rc<YamlNode>, YamlError> {
    if text.len() > MAX_ENVOY_BYTES {
        let most = MAX_ENVOY_BYTES >> 20;
        return fault(0, format!("has {} bytes, must be at most {most} MiB", text.len()));
    }
    let mut tree = YamlTree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        tree.take(event, span.start.line())?;
    }
    let nothing = || Rc::new(YamlNode { line: 1, value: YamlValue::Null, height: 0 });
    Ok(tree.root.unwrap_or_else(nothing))
}

/// A tree that is being built.
#[derive(Default)]
struct YamlTree {
    root: Option<Rc<YamlNode>>,
    /// The lists and mappings that are not closed yet.
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Rc<YamlNode>>,
    nodes: usize,
    documents: usize,
}

struct OpenCollection {
    line: usize,
    anchor: usize,
    height: usize,
    content: NodeContent,
}

enum NodeContent {
    List(Vec<Rc<YamlNode>>),
    Map(Vec<YamlEntry>, Option<(usize, String)>),
}

impl YamlTree {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
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
                let value =
                    if is_null { YamlValue::Null } else { YamlValue::Text(text.into_owned()) };
                self.add(Rc::new(YamlNode { line, value, height: 0 }), anchor)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return fault(line, "an alias inside of what it stands for, it has no end");
                };
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(line, anchor, NodeContent::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(line, anchor, NodeContent::Map(Vec::new(), None))?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, line: usize, anchor: usize, content: NodeContent) -> Result<(), YamlError> {
        if self.open.len() == MAX_YAML_DEPTH {
            return too_deep(line);
        }
        self.open.push(OpenCollection { line, anchor, height: 1, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), YamlError> {
        let Some(OpenCollection { line, anchor, height, content }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            NodeContent::List(items) => YamlValue::List(items),
            NodeContent::Map(entries, _) => YamlValue::Map(self.merged(entries)?),
        };
        self.add(Rc::new(YamlNode { line, value, height }), anchor)
    }

    /// Puts a node where the text has it.
    fn add(&mut self, node: Rc<YamlNode>, anchor: usize) -> Result<(), YamlError> {
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
            NodeContent::List(items) => items.push(node),
            NodeContent::Map(entries, key) => match key.take() {
                Some((line, key)) => entries.push(YamlEntry { line, key, value: node }),
                None => *key = Some((node.line, key_text(&node)?)),
            },
        }
        Ok(())
    }

    /// The entries with what `<<` brings in where they do not say it themselves, each key once.
    fn merged(&mut self, entries: Vec<YamlEntry>) -> Result<Vec<YamlEntry>, YamlError> {
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
                YamlValue::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&merge.value),
            };
            for source in sources {
                let YamlValue::Map(entries) = &source.value else {
                    return fault(merge.line, "`<<` takes a mapping or a list of mappings");
                };
                self.count(merge.line, entries.len())?;
                let new = entries.iter().filter(|entry| known.insert(entry.key.clone()));
                own.extend(new.cloned());
            }
        }
        Ok(own)
    }

    fn count(&mut self, line: usize, nodes: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MAX_YAML_NODES {
            return fault(line, format!("more than {MAX_YAML_NODES} values, split the file"));
        }
        Ok(())
    }
}

fn too_deep<T>(line: usize) -> Result<T, YamlError> {
    fault(line, format!("nested more than {MAX_YAML_DEPTH} levels deep"))
}

fn key_text(node: &YamlNode) -> Result<String, YamlError> {
    match &node.value {
        YamlValue::Text(text) => Ok(text.clone()),
        YamlValue::Null => fault(node.line, "a key is missing before `:`"),
        YamlValue::List(_) | YamlValue::Map(_) => {
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
