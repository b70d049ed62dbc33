//! The normal form of paths, against a slow model.

use proptest::prelude::*;
use tollgate::{normalize_path, normalize_path_within, uri_path};

/// A character of a path, or an escape of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PathToken {
    Char(char),
    Decoded(char),
    Escape(u8),
}

fn tokens(path: &str) -> Vec<PathToken> {
    let chars: Vec<char> = path.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let digit = |at: usize| chars.get(at).and_then(|c| c.to_digit(16));
        match (chars[at], digit(at + 1), digit(at + 2)) {
            ('%', Some(high), Some(low)) => {
                tokens.push(PathToken::Escape(u8::try_from(16 * high + low).expect("two digits")));
                at += 3;
            }
            (c, ..) => {
                tokens.push(PathToken::Char(c));
                at += 1;
            }
        }
    }
    tokens
}

/// Decodes each escape of an unreserved character, but for a digit that could complete an escape
/// of an earlier `%`.
fn decoded(tokens: &[PathToken]) -> Vec<PathToken> {
    let is_hex = |token: &PathToken| match token {
        PathToken::Char(c) | PathToken::Decoded(c) => c.is_ascii_hexdigit(),
        PathToken::Escape(_) => false,
    };
    let mut out: Vec<PathToken> = Vec::new();
    for token in tokens {
        let decoded = match token {
            PathToken::Escape(byte) => PathToken::Decoded(char::from(*byte)),
            other => *other,
        };
        let follows_percent = match out.as_slice() {
            [.., PathToken::Char('%')] => true,
            [.., PathToken::Char('%'), digit] => is_hex(digit),
            _ => false,
        };
        let is_unreserved =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
        out.push(match decoded {
            PathToken::Decoded(c) if !is_unreserved(c) => *token,
            PathToken::Decoded(_) if follows_percent && is_hex(&decoded) => *token,
            other => other,
        });
    }
    out
}

fn text(tokens: &[PathToken]) -> String {
    let text = tokens.iter().map(|token| match token {
        PathToken::Char(c) | PathToken::Decoded(c) => c.to_string(),
        PathToken::Escape(byte) => format!("%{byte:02X}"),
    });
    text.collect()
}

/// The normal form, one step after the other.
fn model(uri: &str) -> String {
    let path = uri_path(uri);
    let path = text(&decoded(&tokens(path)));
    let is_rooted = path.starts_with('/');
    let mut segments: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.split('/').collect();
    for segment in &all {
        match *segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let ends_open = matches!(all.last(), Some(&("" | "." | ".."))) && !segments.is_empty();
    let root = if is_rooted || segments.is_empty() { "/" } else { "" };
    format!("{root}{}{}", segments.join("/"), if ends_open { "/" } else { "" })
}

fn uris() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "/", "/", "//", ".", "..", "/../", "/./", "%2e", "%2E", "%2f", "%5C", "%", "%%", "%3",
        "%32", "%65", "%25", "%00", "%41", "%7e", "%c3%bc", "%zz", "a", "e", "2", "B", "login",
        "ü", "?", "#", ";x=1", "\\", ":", "http://h", "*", "+",
    ]);
    (prop::bool::weighted(0.8), prop::collection::vec(parts, 0..12))
        .prop_map(|(rooted, parts)| if rooted { "/" } else { "" }.to_owned() + &parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn normal_form_of_a_path_equals_the_model(uri in uris()) {
        prop_assert_eq!(normalize_path(&uri), model(&uri));
    }

    #[test]
    fn normalizing_a_path_twice_changes_nothing(uri in uris(), max in 1_usize..40) {
        let once = normalize_path(&uri);
        prop_assert_eq!(&normalize_path(&once), &once);
        let cut = normalize_path_within(&uri, max);
        prop_assert!(cut.len() <= max && once.starts_with(&*cut), "{cut}");
        // Without a slash at its beginning, nothing may be left of it.
        if !cut.is_empty() {
            prop_assert_eq!(&normalize_path(&cut), &cut);
        }
    }

    #[test]
    fn normal_form_of_a_path_is_never_above_the_root(uri in uris()) {
        let path = normalize_path(&uri);
        prop_assert!(!path.contains("//") && !path.contains(['?', '#']), "{path}");
        prop_assert!(path.split('/').all(|segment| !matches!(segment, "." | "..")), "{path}");
        if uri.starts_with('/') {
            prop_assert!(path.starts_with('/'), "{path}");
        }
    }

    #[test]
    fn any_text_has_a_normal_form(uri in ".*") {
        prop_assert_eq!(normalize_path(&uri), model(&uri));
    }
}

#[test]
fn spellings_of_one_path_have_one_normal_form() {
    for spelling in [
        "/login",
        "/%6cogin",
        "/%6C%6f%67%69%6e",
        "//login",
        "///login",
        "/./login",
        "/%2e/login",
        "/x/../login",
        "/x/%2E%2e/login",
        "/x/y/../../login",
        "/../login",
        "/../../login?a=/x",
        "/login#top",
        "http://shop.example//login",
        "https://shop.example/a/../login?x",
    ] {
        assert_eq!(normalize_path(spelling), "/login", "{spelling}");
    }
}

#[test]
fn what_may_mean_another_path_stays_as_it_is() {
    for (uri, path) in [
        ("/a%2fb", "/a%2Fb"),
        ("/a%5cb", "/a%5Cb"),
        ("/a\\b", "/a\\b"),
        ("/a%00", "/a%00"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/%25%32%65", "/%252e"),
        ("/%%32e", "/%%32e"),
        ("/%2%65", "/%2%65"),
        ("/a/", "/a/"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/Login", "/Login"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/..;/a", "/..;/a"),
        ("/...", "/..."),
        ("/%", "/%"),
        ("/%g1", "/%g1"),
        ("/ü", "/ü"),
        ("/%c3%bc", "/%C3%BC"),
        ("*", "*"),
        ("search", "search"),
        ("", "/"),
        ("?q", "/"),
        ("/to?next=http://other/path", "/to"),
        ("/a://b", "/a:/b"),
        ("http:/x", "http:/x"),
    ] {
        assert_eq!(normalize_path(uri), path, "{uri}");
    }
}

#[test]
fn path_that_is_normal_is_not_copied() {
    for path in ["/", "/login", "/a/b.c/d-e_f~g?q", "/ü"] {
        assert!(matches!(normalize_path(path), std::borrow::Cow::Borrowed(_)), "{path}");
    }
}
