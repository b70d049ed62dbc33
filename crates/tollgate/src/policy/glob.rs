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

    /// Whether `text` looks like it. Takes at most as many steps as the product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (mut pattern, mut rest) = (self.0.chars(), text.chars());
        // Where to go on if what follows the last star does not fit: one character further.
        let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let (mut next_pattern, mut next_rest) = (pattern.clone(), rest.clone());
            match (next_pattern.next(), next_rest.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    pattern = next_pattern;
                    retry = Some((pattern.clone(), rest.clone()));
                    continue;
                }
                (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                    (pattern, rest) = (next_pattern, next_rest);
                    continue;
                }
                _ => {}
            }
            let Some((after_star, from)) = &mut retry else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (pattern, rest) = (after_star.clone(), from.clone());
        }
    }
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
    }

    #[test]
    fn a_star_crosses_slashes_and_everything_else_is_literal() {
        assert!(Glob::new("/users/*/posts").matches("/users/1/2/posts"));
        assert!(!Glob::new("/users/*/posts").matches("/users/1/post"));
        assert!(Glob::new("*.example.com").matches("a.b.example.com"));
        assert!(Glob::new("[a]").matches("[a]") && !Glob::new("[a]").matches("a"));
    }
}
