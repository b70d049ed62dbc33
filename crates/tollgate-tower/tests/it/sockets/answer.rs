//! Responses read from a socket.

/// An HTTP/1.1 response, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
    head: String,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.unwrap_or_else(|| panic!("{text:?}"));
        Answer { code, body: body.to_owned(), head: head.to_owned() }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    /// The seconds of its `Retry-After`.
    pub(crate) fn retry_after(&self) -> u64 {
        let seconds = self.header("retry-after").and_then(|seconds| seconds.parse().ok());
        seconds.unwrap_or_else(|| panic!("{self:?}"))
    }
}
