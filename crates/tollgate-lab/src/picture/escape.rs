//! Texts of strangers in XML and HTML.

/// `text` as it may stand between tags and in quoted attributes of HTML and of XML. What XML
/// cannot hold at all is shown as U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            _ if c.is_control() || turns(c) || c == '\u{fffe}' || c == '\u{ffff}' => {
                safe.push('\u{fffd}');
            }
            _ => safe.push(c),
        }
    }
    safe
}

/// Whether a character changes the direction of what follows: a name could make its line read
/// backwards.
pub(super) fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// `text` cut to at most `most` characters, the last of them `…` if it was longer.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_hostile_name_is_markup() {
        let safe = escape("<img src=x onerror=\"alert(1)\">&'\u{0}\u{202e}\n");
        assert_eq!(
            safe,
            "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#39;\u{fffd}\u{fffd} "
        );
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("ärger", 5), "ärger");
        assert_eq!(cut("ärger", 3), "är…");
        assert_eq!(cut("ab", 0), "…");
    }
}
