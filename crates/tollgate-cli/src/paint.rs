//! Colours, where somebody is there to see them.

use std::io::IsTerminal;

/// Whether to colour.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

/// What a text is, which says how it looks.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Heading,
    Good,
    Bad,
    Quiet,
}

impl Paint {
    /// Coloured if standard output is a terminal and `NO_COLOR` is unset or empty.
    pub(crate) fn for_stdout() -> Paint {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if !refused && std::io::stdout().is_terminal() { Paint::Coloured } else { Paint::Plain }
    }

    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Heading => 1,
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Quiet => 2,
        };
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// A text from outside as it may be printed: control characters are shown, not sent.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' { shown.extend(c.escape_debug()) } else { shown.push(c) }
    }
    shown
}
