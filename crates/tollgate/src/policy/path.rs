//! The path of a request, in the one form that rules match and count.

use std::borrow::Cow;

/// The attribute that every policy normalizes.
pub(crate) const PATH: &str = "path";

/// The path of a URI, without its scheme and host, its query and its fragment; `/` if it has none.
///
/// ```
/// use tollgate::uri_path;
///
/// assert_eq!(uri_path("/search?q=1"), "/search");
/// assert_eq!(uri_path("https://shop.example/cart"), "/cart");
/// ```
pub fn uri_path(uri: &str) -> &str {
    let is_end = |c: char| matches!(c, '/' | '?' | '#');
    let first = uri.find(is_end).unwrap_or(uri.len());
    let after_scheme = uri[..first].strip_suffix(':').and(uri[first..].strip_prefix("//"));
    let from_path = match after_scheme {
        Some(rest) => &rest[rest.find(is_end).unwrap_or(rest.len())..],
        None => uri,
    };
    match &from_path[..from_path.find(['?', '#']).unwrap_or(from_path.len())] {
        "" => "/",
        path => path,
    }
}

/// The path of a URI in the one form that rules match and count, so that a client cannot escape a
/// rule by another spelling. A policy normalizes the attribute `path` of every request with this
/// function.
///
/// Escapes of unreserved characters (`A-Z a-z 0-9 - . _ ~`) are decoded once, other escapes are in
/// upper case, several slashes become one, and dot segments are resolved, never above the root.
/// `%2F`, `%5C`, `%00`, `%25`, a trailing slash, `;parameters` and the case of letters stay, and so
/// does a `%` without two hexadecimal digits.
///
/// ```
/// use tollgate::normalize_path;
///
/// for spelling in ["/login", "/%6cogin", "//login", "/./login", "/x/../login", "/x/%2e%2e/login?a=1"] {
///     assert_eq!(normalize_path(spelling), "/login");
/// }
/// assert_eq!(normalize_path("/a%2fb/%252e"), "/a%2Fb/%252e");
/// ```
pub fn normalize_path(uri: &str) -> Cow<'_, str> {
    let path = uri_path(uri);
    if is_normal(path) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(resolve_dots(&decode_unreserved(path)))
}

/// [`normalize_path`] of at most `max` bytes: cut after it is normalized, and so that the result is
/// normalized, too.
///
/// ```
/// use tollgate::normalize_path_within;
///
/// assert_eq!(normalize_path_within("/x/../login/a", 8), "/login/a");
/// assert_eq!(normalize_path_within("/login/..a", 9), "/login/");
/// ```
pub fn normalize_path_within(uri: &str, max: usize) -> Cow<'_, str> {
    match normalize_path(uri) {
        path if path.len() <= max => path,
        Cow::Borrowed(path) => Cow::Borrowed(cut(path, max)),
        Cow::Owned(path) => Cow::Owned(cut(&path, max).to_owned()),
    }
}

/// At most `max` bytes of a normalized path, without a part of a character. The last segment is
/// left out if only dots are left of it.
fn cut(path: &str, max: usize) -> &str {
    let mut end = path.len().min(max);
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &path[..end];
    let last = cut.rfind('/').map_or(0, |slash| slash + 1);
    if matches!(&cut[last..], "." | "..") { &cut[..last] } else { cut }
}

/// Whether the path has nothing to normalize: most paths, which are not copied.
fn is_normal(path: &str) -> bool {
    let mut previous = b'a';
    path.bytes().all(|byte| {
        let slash_then = previous == b'/' && matches!(byte, b'/' | b'.');
        previous = byte;
        byte != b'%' && !slash_then
    }) && !path.starts_with('.')
}

/// Decodes the escapes of unreserved characters, and puts the others in upper case.
fn decode_unreserved(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    // The position in `out` after the last `%` that begins no escape.
    let mut after_percent = None;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let Some(byte) = bytes.get(at + 1..at + 3).and_then(decode) else {
            out.push(b'%');
            at += 1;
            after_percent = Some(out.len());
            continue;
        };
        if is_unreserved(byte) && !completes_escape(&out, after_percent, byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.extend(bytes[at + 1..at + 3].iter().map(u8::to_ascii_uppercase));
        }
        at += 3;
    }
    // Only ASCII was put in the place of ASCII.
    String::from_utf8(out).unwrap_or_else(|_| path.to_owned())
}

/// Whether `byte` after `out` would be a digit of an escape that the path does not have: `%%32e`
/// would become `%2e`, which means something else.
fn completes_escape(out: &[u8], after_percent: Option<usize>, byte: u8) -> bool {
    let Some(after_percent) = after_percent else { return false };
    let digits = &out[after_percent..];
    byte.is_ascii_hexdigit() && digits.len() < 2 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// The byte of two hexadecimal digits.
fn decode(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = 16 * digit(digits[0])? + digit(digits[1])?;
    u8::try_from(value).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The path without empty segments and dot segments.
fn resolve_dots(path: &str) -> String {
    let root = usize::from(path.starts_with('/'));
    let mut out = String::with_capacity(path.len());
    out.push_str(&path[..root]);
    let mut segments = path[root..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "" | "." => {}
            ".." => {
                // `out` is the root, or ends with the slash of a segment.
                let parent = out.strip_suffix('/').and_then(|out| out.rfind('/'));
                out.truncate(parent.map_or(root, |slash| slash + 1).min(out.len()));
            }
            _ => {
                out.push_str(segment);
                if !is_last {
                    out.push('/');
                }
            }
        }
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}
