//! What goes wrong between asking and being answered.

use std::borrow::Cow;

/// The longest part of an answer that is told.
const LONGEST: usize = 300;

pub(super) const CONNECTION_LOST: &str = "connection lost";
pub(super) const NOT_UNDERSTOOD: &str = "answer not understood";

/// A request that got no decision.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// By what errors are counted: few words, of few kinds.
    pub(super) kind: Cow<'static, str>,
    /// What there is to say of this one.
    pub(super) said: String,
    /// Whether the connection is of no more use.
    pub(super) ends: bool,
}

impl Trouble {
    /// The connection ended before the answer.
    pub(super) fn lost(said: impl Into<String>) -> Trouble {
        Trouble { kind: CONNECTION_LOST.into(), said: cut(said.into()), ends: true }
    }

    pub(super) fn timed_out() -> Trouble {
        Trouble { kind: "no answer in time".into(), said: String::new(), ends: true }
    }

    /// What was answered is nothing that the protocol knows.
    pub(super) fn not_understood(said: impl Into<String>) -> Trouble {
        Trouble { kind: NOT_UNDERSTOOD.into(), said: cut(said.into()), ends: true }
    }

    /// The server says that it cannot decide.
    pub(super) fn answered(kind: impl Into<Cow<'static, str>>, said: &[u8]) -> Trouble {
        let said = cut(String::from_utf8_lossy(said).into_owned());
        Trouble { kind: kind.into(), said, ends: false }
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
