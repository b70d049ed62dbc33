//! JSON that is written straight to its bytes. Nearly every answer is a decision, and to write one
//! field by field through serde takes as long as to decide it a few times over.

/// An object to be, field by field in their order.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    /// What stands before the next name.
    before: u8,
}

impl<'o> Object<'o> {
    /// Begins one at the end of `out`.
    #[inline]
    pub(super) fn begin(out: &'o mut Vec<u8>) -> Object<'o> {
        Object { out, before: b'{' }
    }

    /// Ends it.
    #[inline]
    pub(super) fn end(self) {
        // One without a field has not begun.
        self.out.extend_from_slice(if self.before == b'{' { b"{}" } else { b"}" });
    }

    /// A field's name, which needs no escapes.
    #[inline]
    fn name(&mut self, name: &'static str) {
        self.out.extend_from_slice(&[self.before, b'"']);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.before = b',';
    }

    #[inline]
    pub(super) fn truth(&mut self, name: &'static str, value: bool) {
        self.name(name);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    #[inline]
    pub(super) fn number(&mut self, name: &'static str, value: impl Into<Option<u64>>) {
        self.name(name);
        match value.into() {
            Some(value) => self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    #[inline]
    pub(super) fn text<'t>(&mut self, name: &'static str, value: impl Into<Option<&'t str>>) {
        self.name(name);
        match value.into() {
            Some(value) => quoted(self.out, value),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    /// An array of what `write` writes of each.
    #[inline]
    pub(super) fn array<T>(
        &mut self,
        name: &'static str,
        each: impl Iterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>),
    ) {
        self.name(name);
        self.out.push(b'[');
        for (place, one) in each.enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            write(one, self.out);
        }
        self.out.push(b']');
    }
}

/// A text of whatever characters.
fn quoted(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // A text always becomes JSON, and a vector takes it.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(write: impl FnOnce(&mut Object<'_>)) -> Value {
        let mut out = Vec::new();
        let mut object = Object::begin(&mut out);
        write(&mut object);
        object.end();
        serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {out:?}"))
    }

    #[test]
    fn whatever_is_written_reads_back() {
        let texts = ["", "per-user", "a\"b\\c\n\u{1}\u{7f}é\u{2028}", "\\", "\t"];
        let numbers = [0, 1, 9, 10, 99, 100, 1_000_000, u64::MAX - 1, u64::MAX];
        for text in texts {
            let read = written(|object| object.text("text", text));
            assert_eq!(read, json!({"text": text}));
        }
        for number in numbers {
            let read = written(|object| object.number("number", number));
            assert_eq!(read, json!({"number": number}));
        }
    }

    #[test]
    fn fields_follow_each_other_and_nothing_is_null() {
        let read = written(|object| {
            object.truth("yes", true);
            object.truth("no", false);
            object.number("none", None);
            object.text("nobody", None);
            object.array("empty", std::iter::empty::<u64>(), |_, _| ());
            object.array("each", ["a", "b"].iter(), |text, out| quoted(out, text));
        });
        let right = json!({
            "yes": true, "no": false, "none": null, "nobody": null, "empty": [], "each": ["a", "b"]
        });
        assert_eq!(read, right);
        assert_eq!(written(|_| ()), json!({}));
    }
}
