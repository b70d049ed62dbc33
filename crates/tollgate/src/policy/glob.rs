//! Patterns with `*` and `?`.

use std::fmt;

/// A pattern in which `*` stands for any text, also none and also with slashes, and `?` for one
/// character. Everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// The pattern `text`.
    pub fn new(text: impl Into<Box<str>>) -> Glob {
        Glob(text.into())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What every match begins with.
    pub(crate) fn literal_prefix(&self) -> &str {
        &self.0[..self.0.find(['*', '?']).unwrap_or(self.0.len())]
    }

    /// Returns the literal texts of the pattern, between its wildcards, with the place of each.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut at = 0;
        self.0.split(['*', '?']).filter_map(move |literal| {
            let place = at;
            at += literal.len() + 1;
            (!literal.is_empty()).then_some((place, literal))
        })
    }

    /// Whether `text` matches the pattern. Linear in both lengths, except that a part with `?` is
    /// compared at every place of the text.
    pub fn matches(&self, text: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else {
            return strip_start(text, &self.0).is_some_and(str::is_empty);
        };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let text = strip_start(text, head).and_then(|text| strip_end(text, tail));
        let Some(mut text) = text else { return false };
        // The first place that fits leaves the most text to the parts after it.
        for part in middle.split('*').filter(|part| !part.is_empty()) {
            match after_first(text, part) {
                Some(rest) => text = rest,
                None => return false,
            }
        }
        true
    }
}

/// Returns `text` without its start, which must match `part`: a text without `*`.
fn strip_start<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    if !part.contains('?') {
        return text.strip_prefix(part);
    }
    let mut rest = text.chars();
    let is_match = part.chars().all(|wanted| rest.next().is_some_and(|found| fits(wanted, found)));
    is_match.then_some(rest.as_str())
}

/// Returns `text` without its end, which must match `part`: a text without `*`.
fn strip_end<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    if !part.contains('?') {
        return text.strip_suffix(part);
    }
    let mut rest = text.chars();
    let mut wanted = part.chars().rev();
    let is_match = wanted.all(|wanted| rest.next_back().is_some_and(|found| fits(wanted, found)));
    is_match.then_some(rest.as_str())
}

/// Returns the rest of `text` after the first place that matches `part`: a text without `*`.
fn after_first<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    if !part.contains('?') {
        return text.split_once(part).map(|(_, rest)| rest);
    }
    let mut starts = text.char_indices().map(|(at, _)| at);
    starts.find_map(|at| strip_start(&text[at..], part))
}

fn fits(wanted: char, found: char) -> bool {
    wanted == '?' || wanted == found
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The literal texts of a pattern, found one character after the other.
    fn literals(pattern: &str) -> Vec<(usize, String)> {
        let mut literals: Vec<(usize, String)> = Vec::new();
        let mut follows = false;
        for (at, character) in pattern.char_indices() {
            let is_literal = !matches!(character, '*' | '?');
            match literals.last_mut().filter(|_| follows && is_literal) {
                Some((_, literal)) => literal.push(character),
                None if is_literal => literals.push((at, character.to_string())),
                None => {}
            }
            follows = is_literal;
        }
        literals
    }

    /// The same question, asked by recursion.
    fn obvious(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => {
                (0..=text.len()).any(|skipped| obvious(rest, &text[skipped..]))
            }
            (Some((wanted, pattern)), Some((found, text))) => {
                (*wanted == '?' || wanted == found) && obvious(pattern, text)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_matches_what_the_obvious_recursion_says(pattern in "[ab*?é]{0,8}", text in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(
                Glob::new(pattern.clone()).matches(&text),
                obvious(&chars(&pattern), &chars(&text))
            );
        }

        #[test]
        fn literals_of_a_glob_are_the_texts_between_its_wildcards(pattern in "[ab*?é]{0,12}") {
            let glob = Glob::new(pattern.clone());
            let found: Vec<_> = glob.literals().map(|(at, text)| (at, text.to_owned())).collect();
            prop_assert_eq!(found, literals(&pattern));
        }
    }

    #[test]
    fn a_star_crosses_slashes_and_everything_else_is_literal() {
        assert!(Glob::new("/users/*/posts").matches("/users/1/2/posts"));
        assert!(!Glob::new("/users/*/posts").matches("/users/1/post"));
        assert!(Glob::new("*.example.com").matches("a.b.example.com"));
        assert!(Glob::new("[a]").matches("[a]") && !Glob::new("[a]").matches("a"));
    }
}
