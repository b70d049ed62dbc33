//! A test file as text: TOML, or JSON written over as TOML line by line, so that there is one
//! reader and every error knows its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::IgnoredAny;
use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// The longest test file.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The most parts of a dotted key. A tree as deep as a file is long would overflow the stack of
/// whoever drops it.
const MOST_PARTS: usize = 16;

/// The key under which a JSON file's content stands once it is TOML.
const WRAPPED: &str = "document";

/// A test file's text.
pub(crate) struct Document {
    /// What errors call it.
    pub(crate) name: String,
    /// TOML.
    pub(super) text: String,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The keys that lead to its content.
    root: &'static [&'static str],
}

impl Document {
    /// Reads a file; the error says what is wrong with it.
    pub(super) fn read(path: &Path) -> Result<Document, String> {
        let name = path.display().to_string();
        let text = read_text(path).map_err(|wrong| format!("{name}: {wrong}"))?;
        let kind = path.extension().and_then(|extension| extension.to_str());
        let is_json = match kind {
            Some(kind) if kind.eq_ignore_ascii_case("json") => true,
            Some(kind) if kind.eq_ignore_ascii_case("toml") => false,
            _ => text.trim_start().starts_with('{'),
        };
        if is_json { Document::from_json(name, &text) } else { Ok(Document::from_toml(name, text)) }
    }

    pub(crate) fn from_toml(name: String, text: String) -> Document {
        let lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(newline, _)| newline + 1))
            .collect();
        Document { name, text, lines, root: &[] }
    }

    pub(super) fn from_json(name: String, json: &str) -> Result<Document, String> {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
            let line = error.line();
            return Err(format!("{name}:{line}: {error}"));
        }
        if !json.trim_start().starts_with('{') {
            return Err(format!("{name}:1: a test file is an object, as in {{ \"test\": [ … ] }}"));
        }
        let toml = as_toml(json).map_err(|line| {
            format!("{name}:{line}: null is not a value here, leave the key out instead")
        })?;
        let document = Document::from_toml(name, format!("{WRAPPED} = {toml}"));
        Ok(Document { root: &[WRAPPED], ..document })
    }

    /// The line, from 1, on which the byte at `offset` is.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).max(1)
    }

    /// The content as a table; the errors say where it is not TOML.
    pub(crate) fn parse(&self) -> Result<DeTable<'_>, Vec<String>> {
        if let Some(offset) = too_deep(&self.text) {
            let place = format!("{}:{}", self.name, self.line(offset));
            return Err(vec![format!("{place}: a key of more than {MOST_PARTS} parts")]);
        }
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        if !errors.is_empty() {
            return Err(errors.iter().map(|error| self.not_toml(error)).collect());
        }
        let mut table = table.into_inner();
        for key in self.root {
            let wrapped = table.remove(*key).map(toml::Spanned::into_inner);
            let Some(toml::de::DeValue::Table(inner)) = wrapped else {
                return Err(vec![format!("{}:1: a test file is an object", self.name)]);
            };
            table = inner;
        }
        Ok(table)
    }

    /// The keys that lead to a place in the content.
    pub(super) fn path<'a>(&self, keys: &[&'a str]) -> Vec<&'a str> {
        self.root.iter().copied().chain(keys.iter().copied()).collect()
    }

    fn not_toml(&self, error: &toml::de::Error) -> String {
        let line = error.span().map_or(1, |span| self.line(span.start));
        let message: Vec<_> = error.message().lines().map(str::trim).collect();
        format!("{}:{line}: {}", self.name, message.join(", "))
    }
}

/// Where a key has too many parts, if one has.
fn too_deep(text: &str) -> Option<usize> {
    let mut dots = 0;
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Atom
            | TokenKind::Whitespace
            | TokenKind::BasicString
            | TokenKind::LiteralString => {}
            _ => dots = 0,
        }
        if dots >= MOST_PARTS {
            return Some(token.span().start());
        }
    }
    None
}

fn read_text(path: &Path) -> Result<String, String> {
    if path.is_dir() {
        return Err("is a directory, name the test files in it".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err("is larger than 16 MiB, split it into several files".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })?;
    // A byte order mark, as some editors leave one.
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

/// Valid JSON as the value of a TOML key, each token on its line. The error is a line with `null`.
fn as_toml(json: &str) -> Result<String, usize> {
    let mut toml = String::with_capacity(json.len() + json.len() / 8);
    let mut line = 1;
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                toml.push('"');
                string(&mut chars, &mut toml);
            }
            ':' => toml.push_str(" = "),
            'n' => return Err(line),
            '\r' if chars.peek() != Some(&'\n') => toml.push(' '),
            _ => {
                line += usize::from(c == '\n');
                toml.push(c);
            }
        }
    }
    Ok(toml)
}

/// The rest of a JSON string, with its closing quote.
fn string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, toml: &mut String) {
    while let Some(c) = chars.next() {
        match c {
            '"' => return toml.push('"'),
            '\u{7f}' => toml.push_str("\\u007f"),
            '\\' => match chars.next() {
                Some('/') => toml.push('/'),
                Some('u') => unicode(chars, toml),
                escaped => toml.extend(std::iter::once('\\').chain(escaped)),
            },
            _ => toml.push(c),
        }
    }
}

/// An escape by number; TOML has one where JSON may have two halves.
fn unicode(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, toml: &mut String) {
    let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let digits: String = chars.by_ref().take(4).collect();
        u32::from_str_radix(&digits, 16).unwrap_or(0xd800)
    };
    let mut code = number(chars);
    if (0xd800..0xdc00).contains(&code) {
        let mut ahead = chars.clone();
        let low = match (ahead.next(), ahead.next()) {
            (Some('\\'), Some('u')) => number(&mut ahead),
            _ => 0,
        };
        if (0xdc00..0xe000).contains(&low) {
            *chars = ahead;
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    // A half that is alone is refused by the reader, with its line.
    toml.push_str(&format!("\\U{code:08x}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_toml_on_the_same_lines() {
        let json =
            "{\n \"a\\/b\": \"\\ud83d\\ude00\\n\\u00e9\",\n \"n\": [1, {\"x\": true}]\n}\r\n";
        let document = Document::from_json("t.json".to_owned(), json).unwrap();
        let table = document.parse().unwrap();
        assert_eq!(table["a/b"].get_ref().as_str(), Some("😀\né"));
        assert_eq!(document.line(table["n"].span().start), 3);
    }

    #[test]
    fn what_json_has_and_toml_has_not_is_refused_with_its_line() {
        let refused = |json: &str| {
            let document = Document::from_json("t.json".to_owned(), json);
            document.and_then(|document| document.parse().map(drop).map_err(|e| e.join("\n")))
        };
        let null = refused("{\n\"a\":\nnull}").unwrap_err();
        assert!(null.starts_with("t.json:3: null"), "{null}");
        assert!(refused("{\n\"a\": \"\\ud800\"}").unwrap_err().starts_with("t.json:2: "));
        assert!(refused("{\"a\": 1, \"a\": 2}").is_err());
        assert!(refused("[1]").is_err());
        assert!(refused("{\"a\": ").is_err());
        assert!(refused(&("{\"a\":".repeat(5000) + "1" + &"}".repeat(5000))).is_err());
    }
}
