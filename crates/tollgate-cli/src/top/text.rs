//! Words and numbers as people read them, and strangers' text made harmless.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthChar;

/// The attributes that a rule counts by, and their values.
pub(super) type Key = BTreeMap<String, String>;

/// A number in groups of three; from a hundred thousand on in short.
pub(super) fn count(number: u64) -> String {
    let short = |unit: u64, name: &str| {
        let tenths = number / (unit / 10);
        match tenths {
            ..1000 => format!("{}.{}{name}", tenths / 10, tenths % 10),
            _ => format!("{}{name}", grouped(tenths / 10)),
        }
    };
    match number {
        0..100_000 => grouped(number),
        100_000..1_000_000 => format!("{}k", number / 1000),
        1_000_000..1_000_000_000 => short(1_000_000, "M"),
        1_000_000_000..1_000_000_000_000 => short(1_000_000_000, "G"),
        _ => short(1_000_000_000_000, "T"),
    }
}

/// So many of something: `1 rule`, `2 rules`.
pub(super) fn counted(number: u64, name: &str) -> String {
    format!("{} {name}{}", count(number), if number == 1 { "" } else { "s" })
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many thousandths a second: `0.4`, `12`.
pub(super) fn rate(thousandths: u64) -> String {
    match thousandths {
        0 => "0".to_owned(),
        1..100 => "<0.1".to_owned(),
        100..10_000 => format!("{}.{}", thousandths / 1000, thousandths % 1000 / 100),
        _ => count(thousandths / 1000),
    }
}

/// A part of all, which is never told as nothing or all where it is not.
pub(super) fn percent(part: u64, all: u64) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    let permille = u128::from(part) * 1000 / u128::from(all);
    match permille {
        0 if part > 0 => "<0.1%".to_owned(),
        ..100 if part > 0 => format!("{}.{}%", permille / 10, permille % 10),
        1000.. if part < all => ">99%".to_owned(),
        _ => format!("{}%", permille / 10),
    }
}

/// A time of microseconds, as latency has it.
pub(super) fn micros(time: u64) -> String {
    match time {
        0..1000 => format!("{time}µs"),
        1000..100_000 => format!("{}.{}ms", time / 1000, time % 1000 / 100),
        100_000..1_000_000 => format!("{}ms", time / 1000),
        _ => format!("{}.{}s", time / 1_000_000, time % 1_000_000 / 100_000),
    }
}

/// A wait of milliseconds: rounded up, as no wait is over before its time.
pub(super) fn wait(millis: u64) -> String {
    if millis == 0 { "now".to_owned() } else { seconds(millis.div_ceil(1000)) }
}

/// How long something has lasted.
pub(super) fn lasted(millis: u64) -> String {
    seconds(millis / 1000)
}

fn seconds(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..172_800 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{}d{}h", hours / 24, hours % 24),
    }
}

/// A key as people write it: `tenant=acme user="a b"`.
pub(super) fn key(key: &Key) -> String {
    if key.is_empty() {
        return "all requests".to_owned();
    }
    let pairs = key.iter().map(|(name, value)| format!("{}={}", harmless(name), written(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

/// A value as it is typed in a search: in quotes where it needs them, so that what is escaped
/// cannot be taken for what somebody has called themselves.
fn written(value: &str) -> String {
    let needs_none = |c: char| is_plain(c) && !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(needs_none) {
        return value.to_owned();
    }
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            _ => push_harmless(&mut text, c),
        }
    }
    text.push('"');
    text
}

/// The attributes of one name, as in "all users".
pub(super) fn plural(name: &str) -> String {
    let name = harmless(name);
    let is_after_consonant = |stem: &str| !stem.ends_with(['a', 'e', 'i', 'o', 'u']);
    match name.strip_suffix('y').filter(|stem| !stem.is_empty() && is_after_consonant(stem)) {
        _ if name == "ip" => "IPs".to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "ch", "sh"].iter().any(|end| name.ends_with(end)) => format!("{name}es"),
        None => format!("{name}s"),
    }
}

/// A text from outside that can do nothing but be read.
pub(super) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| push_harmless(&mut shown, c));
    shown
}

fn push_harmless(text: &mut String, c: char) {
    if is_plain(c) {
        text.push(c);
    } else {
        text.extend(c.escape_unicode());
    }
}

/// Whether a character stands in a place of its own and moves nothing else: no control character,
/// nothing invisible, nothing that is put upon its neighbour or turns the direction of a line.
pub(super) fn is_plain(c: char) -> bool {
    // Hebrew, Arabic and others from right to left: a terminal that knows of it would put the
    // numbers beside them on the other side.
    let is_rtl = matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}');
    let is_format = matches!(c, '\u{ad}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !is_rtl && !is_format && c.width().is_some_and(|width| width > 0)
}

/// Attributes as they are typed, `user=42 route="/a b"`; `None` where it is none of that.
pub(super) fn attributes(text: &str) -> Option<Key> {
    let mut found = Key::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '"') {
            return None;
        }
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = after.find(|c: char| c.is_whitespace() || c == '"');
                let (value, after) = after.split_at(end.unwrap_or(after.len()));
                (value.to_owned(), after)
            }
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return None;
        }
        found.insert(name.to_owned(), value);
        rest = after.trim_start();
    }
    Some(found).filter(|found| !found.is_empty())
}

/// What stands up to the next quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((value, rest.as_str())),
            '\\' => match rest.next()? {
                'u' => {
                    let (digits, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                    value.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    rest = after.chars();
                }
                c => value.push(c),
            },
            c => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Key {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn numbers_are_short_and_never_told_smaller_than_a_wait_is() {
        let counts = [0, 999, 1000, 99_999, 123_456, 1_250_000, 250_000_000_000].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "99,999", "123k", "1.2M", "250G"]);
        assert_eq!([0, 1, 450, 9_999, 10_000].map(rate), ["0", "<0.1", "0.4", "9.9", "10"]);
        let waits = [0, 1, 1000, 59_001, 3_600_000, 172_800_000].map(wait);
        assert_eq!(waits, ["now", "1s", "1s", "1m00s", "1h00m", "2d0h"]);
        let shares = [(0, 5), (1, 5000), (1, 50), (4, 5), (4999, 5000), (5, 5), (0, 0)];
        let shares = shares.map(|(part, all)| percent(part, all));
        assert_eq!(shares, ["0%", "<0.1%", "2.0%", "80%", "99%", "100%", "-"]);
        assert_eq!([7, 1250, 123_456, 2_500_000].map(micros), ["7µs", "1.2ms", "123ms", "2.5s"]);
    }

    #[test]
    fn a_hostile_value_is_shown_and_does_nothing() {
        let shown = [
            ("acme", "k=acme"),
            ("", "k=\"\""),
            ("a b=c", "k=\"a b=c\""),
            ("\u{1b}[2J\r\n\u{7}", r#"k="\u{1b}[2J\u{d}\u{a}\u{7}""#),
            ("\u{202e}gpj.exe", r#"k="\u{202e}gpj.exe""#),
            ("שלום", r#"k="\u{5e9}\u{5dc}\u{5d5}\u{5dd}""#),
            ("e\u{301}\u{200b}x", r#"k="e\u{301}\u{200b}x""#),
            (r"\u{1b}", r#"k="\\u{1b}""#),
            ("鍵", "k=鍵"),
        ];
        for (value, text) in shown {
            assert_eq!(key(&of(&[("k", value)])), text);
            assert_eq!(
                attributes(text),
                Some(of(&[("k", value)])),
                "{text} is read as it is shown"
            );
        }
        assert_eq!(harmless("\u{9b}31m\u{2066}"), r"\u{9b}31m\u{2066}");
        assert_eq!(key(&Key::new()), "all requests");
    }

    #[test]
    fn every_character_there_is_is_shown_harmless_and_read_back() {
        let all: Vec<char> = ('\0'..=char::MAX).collect();
        for some in all.chunks(256) {
            let of = of(&[("k", &some.iter().collect::<String>())]);
            let shown = key(&of);
            assert!(shown.chars().all(is_plain), "{shown:?}");
            assert_eq!(attributes(&shown), Some(of));
        }
    }

    #[test]
    fn several_attributes_of_one_name_have_a_plural() {
        let all = ["user", "ip", "country", "api_key", "address", "\u{202e}x"].map(plural);
        assert_eq!(all, ["users", "IPs", "countries", "api_keys", "addresses", r"\u{202e}xes"]);
    }

    #[test]
    fn attributes_are_read_as_they_are_typed() {
        let two = of(&[("route", "/a b"), ("user", "42")]);
        assert_eq!(attributes("  user=42   route=\"/a b\" "), Some(two));
        assert_eq!(attributes("ip=a=b"), Some(of(&[("ip", "a=b")])));
        for text in
            ["", "acme", "=x", "a b=c", "user=\"4", "user=\"4\"2", "user=4\"2", "x=\"\\u{zz}\""]
        {
            assert_eq!(attributes(text), None, "{text}");
        }
    }
}
