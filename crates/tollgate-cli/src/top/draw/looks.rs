//! What this terminal can show: the last thing that is done to every picture.

use ratatui::buffer::Buffer;
use ratatui::style::Color;

use crate::paint::Paint;
use crate::top::text::is_plain;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) struct Looks {
    pub(in crate::top) colours: bool,
    /// Whether it knows more than ASCII.
    pub(in crate::top) unicode: bool,
}

impl Looks {
    pub(in crate::top) fn of_terminal(paint: Paint) -> Looks {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        Looks { colours: matches!(paint, Paint::Coloured), unicode: is_unicode(locale.as_deref()) }
    }

    /// Leaves nothing in a picture that the terminal cannot show, or that would do something to it.
    pub(super) fn apply(self, picture: &mut Buffer) {
        for cell in &mut picture.content {
            let is_shown = |c: char| is_plain(c) && (self.unicode || c.is_ascii());
            if !cell.symbol().chars().all(is_shown) {
                let instead = cell.symbol().chars().next().map_or(' ', in_ascii);
                cell.set_char(instead);
            }
            if !self.colours {
                cell.set_fg(Color::Reset).set_bg(Color::Reset);
            }
        }
    }
}

/// Where no locale is named, as in many containers, terminals know UTF-8 all the same.
fn is_unicode(locale: Option<&str>) -> bool {
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// What comes next to it.
fn in_ascii(c: char) -> char {
    match c {
        '─' => '-',
        '│' => '|',
        '┌' | '┐' | '└' | '┘' => '+',
        '▁' | '▂' => '.',
        '▃' | '▄' => ':',
        '▅' | '▆' => '|',
        '▇' | '█' => '#',
        '░' | '·' => '.',
        '…' | '≈' => '~',
        'µ' => 'u',
        '▸' => '>',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_locale_that_says_otherwise_is_not_unicode() {
        assert!(is_unicode(None) && is_unicode(Some("en_US.UTF-8")) && is_unicode(Some("C.utf8")));
        assert!(!is_unicode(Some("C")) && !is_unicode(Some("de_DE.ISO-8859-1")));
    }

    #[test]
    fn nothing_that_does_something_is_left_in_a_picture() {
        let mut picture = Buffer::with_lines(["a ─鍵█ é"]);
        picture[(1, 0)].set_symbol("\u{1b}[2J");
        let mut plain = picture.clone();
        Looks { colours: true, unicode: true }.apply(&mut picture);
        assert_eq!(picture[(1, 0)].symbol(), "?");
        assert_eq!(picture[(2, 0)].symbol(), "─");
        Looks { colours: false, unicode: false }.apply(&mut plain);
        let text: String = plain.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(text, "a?-? # ?");
    }
}
