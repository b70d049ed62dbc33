//! The tokens in force: those that do not change, and those of a file that does.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use super::tokens::{AdminTokenError, AdminTokens};
use crate::bounds::{MAX_TOKEN_FILE, TOKENS_LOOK};
use crate::operate::blocking;

/// The tokens of the moment. Held only to copy or to replace them.
#[derive(Debug, Default)]
pub(super) struct KnownTokens {
    in_force: RwLock<Arc<AdminTokens>>,
    file: Option<TokenFile>,
}

/// A file of tokens, and what was seen of it.
#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    /// Those that are not in it.
    beside: AdminTokens,
    seen: Mutex<Seen>,
}

/// Digests of what the file held: the tokens themselves are kept nowhere.
#[derive(Debug)]
struct Seen {
    /// What is in force, or was refused.
    known: Digested,
    /// What it held at the last look: whoever writes it is done when it holds the same twice.
    last: Digested,
}

/// `None` where the file could not be read.
type Digested = Option<[u8; 32]>;

/// What a look at the file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Same,
    Changed,
}

impl KnownTokens {
    /// Those that never change.
    pub(super) fn fixed(tokens: AdminTokens) -> KnownTokens {
        KnownTokens { in_force: RwLock::new(Arc::new(tokens)), file: None }
    }

    /// `beside`, and those of a file.
    pub(super) fn with_file(
        beside: AdminTokens,
        path: PathBuf,
    ) -> Result<KnownTokens, AdminTokenError> {
        // Before it is read, so that no change goes unseen.
        let known = digest(&path);
        let mut all = beside.clone();
        all.add_file(&path)?;
        let seen = Mutex::new(Seen { known, last: known });
        let file = Some(TokenFile { path, beside, seen });
        Ok(KnownTokens { in_force: RwLock::new(Arc::new(all)), file })
    }

    pub(super) fn get(&self) -> Arc<AdminTokens> {
        Arc::clone(&self.in_force.read())
    }

    /// Looks every now and then whether the file holds something else; for ever.
    pub(super) async fn follow(self: Arc<Self>) {
        if self.file.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(TOKENS_LOOK).await;
            self.look_and_tell().await;
        }
    }

    /// Looks now. Who asks for it has written the whole file.
    pub(super) async fn read_again(self: &Arc<Self>) {
        if self.file.is_some() {
            // The second look sees that it rests.
            self.look_and_tell().await;
            self.look_and_tell().await;
        }
    }

    async fn look_and_tell(self: &Arc<Self>) {
        let tokens = Arc::clone(self);
        match blocking(move || tokens.look()).await {
            Ok(Ok(Look::Changed)) => tracing::info!("the tokens of operators were changed"),
            Ok(Err(error)) => {
                tracing::error!("{}; the tokens of operators stay as they were", told(&error));
            }
            _ => {}
        }
    }

    /// Puts in force what the file holds, if that is something else and whole. What is wrong is
    /// told once.
    pub(super) fn look(&self) -> Result<Look, AdminTokenError> {
        let Some(TokenFile { path, beside, seen }) = &self.file else { return Ok(Look::Same) };
        let now = digest(path);
        let mut seen = seen.lock();
        let rests = std::mem::replace(&mut seen.last, now) == now;
        if now == seen.known || !rests {
            return Ok(Look::Same);
        }
        seen.known = now;
        let mut all = beside.clone();
        all.add_file(path)?;
        *self.in_force.write() = Arc::new(all);
        Ok(Look::Changed)
    }
}

fn digest(path: &Path) -> Digested {
    let mut bytes = Vec::new();
    // One more than is ever read, so that a file that is too long is not another's like.
    File::open(path).ok()?.take(MAX_TOKEN_FILE + 1).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(bytes).into())
}

/// An error with what caused it.
fn told(error: &AdminTokenError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AdminRole;
    use super::*;
    use crate::admin::tokens::TokenDigest;

    const ANA: &str = "ana-ana-ana-ana-ana";
    const BEN: &str = "ben-ben-ben-ben-ben";
    const EVE: &str = "eve-eve-eve-eve-eve";

    fn names(tokens: &KnownTokens) -> Vec<&'static str> {
        let known = tokens.get();
        let all = [(ANA, "ana"), (BEN, "ben"), (EVE, "eve")];
        let is_known = |token: &str| known.find(&TokenDigest::of(token.as_bytes())).is_some();
        all.into_iter().filter(|(token, _)| is_known(token)).map(|(_, name)| name).collect()
    }

    #[test]
    fn a_changed_file_is_in_force_once_it_rests_and_a_wrong_one_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write(&format!("ana read {ANA}\n"));
        let mut beside = AdminTokens::new();
        beside.add("eve", AdminRole::Write, EVE).unwrap();
        let tokens = KnownTokens::with_file(beside, path.clone()).unwrap();
        assert_eq!(names(&tokens), ["ana", "eve"]);
        assert_eq!(tokens.look().unwrap(), Look::Same);

        write(&format!("ben write {BEN}\n"));
        assert_eq!(tokens.look().unwrap(), Look::Same, "it may not be whole yet");
        assert_eq!(names(&tokens), ["ana", "eve"]);
        assert_eq!(tokens.look().unwrap(), Look::Changed);
        assert_eq!(names(&tokens), ["ben", "eve"], "and Ana is let in no more");
        assert_eq!(tokens.look().unwrap(), Look::Same);

        write("ben write");
        assert_eq!(tokens.look().unwrap(), Look::Same);
        let error = tokens.look().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:1: ", path.display())), "{error}");
        assert_eq!(tokens.look().unwrap(), Look::Same, "it is told once");
        std::fs::remove_file(&path).unwrap();
        assert!([tokens.look(), tokens.look()].into_iter().any(|look| look.is_err()));
        assert_eq!(names(&tokens), ["ben", "eve"], "as before it was wrong");

        write("# nobody\n");
        assert_eq!([tokens.look().unwrap(), tokens.look().unwrap()], [Look::Same, Look::Changed]);
        assert_eq!(names(&tokens), ["eve"]);
    }
}
