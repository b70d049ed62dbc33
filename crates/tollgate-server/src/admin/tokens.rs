//! Who may ask as an operator.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::bounds::{MAX_TOKEN, MAX_TOKEN_FILE, MAX_TOKENS, MIN_TOKEN};

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdminRole {
    /// Look at everything.
    Read,
    /// Change it, too.
    Write,
}

/// The tokens of those who may ask as operators. Only their digests are kept.
///
/// ```
/// use tollgate_server::{AdminRole, AdminTokens};
///
/// let mut tokens = AdminTokens::new();
/// tokens.add("ana", AdminRole::Write, "2f9Qx0uGd7mJw5tZbR3c")?;
/// # Ok::<(), tollgate_server::AdminTokenError>(())
/// ```
#[derive(Clone, Default)]
pub struct AdminTokens(Vec<Known>);

#[derive(Clone)]
struct Known {
    name: Box<str>,
    role: AdminRole,
    digest: [u8; 32],
}

/// A token that cannot be used, or a file of them that cannot be read. Never shows a token.
#[derive(Debug)]
pub struct AdminTokenError {
    place: String,
    what: String,
    source: Option<io::Error>,
}

impl AdminTokens {
    /// None: nobody may ask.
    pub fn new() -> AdminTokens {
        AdminTokens::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets the bearer of `token` in, who is called `name` in the audit log.
    ///
    /// # Errors
    /// Where the name or the token is taken or too long, or the token can be guessed.
    pub fn add(&mut self, name: &str, role: AdminRole, token: &str) -> Result<(), AdminTokenError> {
        let place = format!("the token {name:?}");
        self.known(name, role, token).map_err(|what| AdminTokenError { place, what, source: None })
    }

    fn known(&mut self, name: &str, role: AdminRole, token: &str) -> Result<(), String> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > MAX_TOKEN || !printable(name) {
            return Err(format!("a name must have 1 to {MAX_TOKEN} printable ASCII characters"));
        }
        if !(MIN_TOKEN..=MAX_TOKEN).contains(&token.len()) || !printable(token) {
            return Err(format!(
                "the token must have {MIN_TOKEN} to {MAX_TOKEN} printable ASCII characters, as from: openssl rand -hex 24"
            ));
        }
        if self.0.len() >= MAX_TOKENS {
            return Err(format!("there are more than {MAX_TOKENS}"));
        }
        let digest = Sha256::digest(token).into();
        if self.0.iter().any(|known| *known.name == *name) {
            return Err(format!("the name {name:?} is taken, every token needs one of its own"));
        }
        if self.0.iter().any(|known| known.digest == digest) {
            return Err("the token is there twice, under two names".to_owned());
        }
        self.0.push(Known { name: name.into(), role, digest });
        Ok(())
    }

    /// Adds those of a file, whose lines are a name, `read` or `write`, and a token; what follows
    /// `#` at the beginning of a line is a comment.
    ///
    /// # Errors
    /// Where the file cannot be read, or a line is wrong.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> Result<(), AdminTokenError> {
        let Contents { text, open_to_others } = Contents::of(path.as_ref())?;
        let file = path.as_ref().display().to_string();
        if open_to_others {
            tracing::warn!("{file} can be read by every user of this machine: chmod o-rwx it");
        }
        self.add_lines(&file, &text)
    }

    fn add_lines(&mut self, file: &str, text: &str) -> Result<(), AdminTokenError> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        for (line, number) in lines {
            let added = match *line.split_ascii_whitespace().collect::<Vec<_>>() {
                [name, "read", token] => self.known(name, AdminRole::Read, token),
                [name, "write", token] => self.known(name, AdminRole::Write, token),
                [_, _, _] => Err("the second word must be read or write".to_owned()),
                _ => Err("must be three words: a name, read or write, a token".to_owned()),
            };
            let place = || format!("{file}:{number}");
            added.map_err(|what| AdminTokenError { place: place(), what, source: None })?;
        }
        Ok(())
    }

    /// Whose token it is. It takes as long whichever it is, and whether or not it is any.
    pub(super) fn find(&self, TokenDigest(digest): &TokenDigest) -> Option<(&str, AdminRole)> {
        let mut found = u32::MAX;
        for (known, place) in self.0.iter().zip(0_u32..) {
            found.conditional_assign(&place, known.digest.ct_eq(digest));
        }
        let known = self.0.get(usize::try_from(found).ok()?)?;
        Some((&known.name, known.role))
    }
}

/// What is kept of a token that was sent.
#[derive(Clone, Copy)]
pub(super) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(super) fn of(token: &[u8]) -> TokenDigest {
        TokenDigest(Sha256::digest(token).into())
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

/// What a file of tokens holds.
struct Contents {
    text: String,
    open_to_others: bool,
}

impl Contents {
    fn of(path: &Path) -> Result<Contents, AdminTokenError> {
        let wrong = |source| AdminTokenError {
            place: path.display().to_string(),
            what: "cannot be read".to_owned(),
            source: Some(source),
        };
        let opened = File::open(path).map_err(wrong)?;
        let open_to_others = is_open_to_others(&opened);
        let mut text = String::new();
        opened.take(MAX_TOKEN_FILE).read_to_string(&mut text).map_err(wrong)?;
        Ok(Contents { text, open_to_others })
    }
}

/// Whether every user of the machine can read it.
#[cfg(unix)]
fn is_open_to_others(file: &File) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &File) -> bool {
    false
}

impl AdminRole {
    pub(super) fn word(self) -> &'static str {
        match self {
            AdminRole::Read => "read",
            AdminRole::Write => "write",
        }
    }
}

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|known| (&known.name, known.role))).finish()
    }
}

impl fmt::Display for AdminTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for AdminTokenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANA: &str = "ana-ana-ana-ana-ana";
    const BEN: &str = "ben-ben-ben-ben-ben";

    fn both() -> AdminTokens {
        let mut tokens = AdminTokens::new();
        let text = format!("# operators\n\nana write {ANA}\n  ben\tread {BEN}  \n");
        tokens.add_lines("tokens", &text).unwrap();
        tokens
    }

    #[test]
    fn a_token_is_found_whole_or_not_at_all() {
        let tokens = both();
        assert_eq!(tokens.find(&TokenDigest::of(ANA.as_bytes())), Some(("ana", AdminRole::Write)));
        assert_eq!(tokens.find(&TokenDigest::of(BEN.as_bytes())), Some(("ben", AdminRole::Read)));
        let wrong: [&[u8]; 5] =
            [b"", &ANA.as_bytes()[1..], b"ana-ana-ana-ana-anA", b"ana-ana-ana-ana-ana ", b"\xff"];
        for token in wrong {
            assert_eq!(tokens.find(&TokenDigest::of(token)), None);
        }
        assert_eq!(AdminTokens::new().find(&TokenDigest::of(b"")), None);
    }

    #[test]
    fn a_wrong_line_is_told_where_and_never_shown() {
        let mut texts = String::new();
        for line in [
            "eve write".to_owned(),
            format!("eve admin {ANA}x"),
            format!("eve write {ANA} more"),
            "eve write hunter2".to_owned(),
            format!("eve write {}", "x".repeat(300)),
            format!("ana write {ANA}x"),
            format!("eve write {ANA}"),
            format!("eve write {ANA}ü"),
        ] {
            let error = both().add_lines("tokens", &format!("\n{line}\n")).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2") && !text.contains(ANA), "{text}");
            texts += &format!("{line}\n    {error}\n");
        }
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tokens.txt");
        tollgate_testkit::assert_golden(golden.as_ref(), &texts);
    }

    #[test]
    fn what_is_shown_of_tokens_is_not_the_tokens() {
        let shown = format!("{:?}", both());
        assert_eq!(shown, r#"{"ana": Write, "ben": Read}"#);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_everybody_can_read_is_noticed() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("tollgate-tokens-{}", std::process::id()));
        std::fs::write(&path, format!("ana read {ANA}\n")).unwrap();
        for (mode, open) in [(0o644, true), (0o640, false), (0o600, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(&File::open(&path).unwrap()), open, "{mode:o}");
        }
        let mut tokens = AdminTokens::new();
        tokens.add_file(&path).unwrap();
        assert!(!tokens.is_empty());
        std::fs::remove_file(&path).unwrap();
        assert!(tokens.add_file(&path).is_err());
    }
}
