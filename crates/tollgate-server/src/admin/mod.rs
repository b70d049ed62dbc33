//! What operators look at and change, under `/admin/v1`.

mod audit;
mod blocks;
mod by_clients;
mod call;
mod change;
mod events;
mod explained;
mod followed_policy;
mod guard;
mod keys;
mod known;
mod overrides;
mod policy;
mod policy_changes;
mod policy_source;
mod routes;
mod seen;
mod simulate;
mod target;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::{EnvoyFolder, Limit, Limiter};

use audit::{Audit, AuditFile};
pub(crate) use followed_policy::activate_followed;
pub(crate) use guard::network;
use known::KnownTokens;
pub(crate) use policy::reload_as;
use policy_source::PolicySource;
pub(crate) use routes::{ROUTES, asked, router};
pub use tokens::{AdminRole, AdminTokenError, AdminTokens};

use crate::bounds::MAX_WRONG_TOKENS;
use crate::seldom::Seldom;

/// Who may operate the server, and where.
///
/// ```
/// use tollgate_server::{Admin, AdminRole, AdminTokens};
///
/// let mut tokens = AdminTokens::new();
/// tokens.add("ana", AdminRole::Write, "2f9Qx0uGd7mJw5tZbR3c")?;
/// let admin = Admin::new().tokens(tokens);
/// # Ok::<(), tollgate_server::AdminTokenError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Admin {
    pub(crate) listen: AdminListen,
    tokens: Arc<KnownTokens>,
    insecure: bool,
    audit: Option<AuditFile>,
    policy_source: Option<PolicySource>,
}

/// Where operators are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminListen {
    /// Where everybody is, over HTTP.
    #[default]
    Same,
    /// Only there.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

impl Admin {
    /// Answers nobody, until there are tokens.
    pub fn new() -> Admin {
        Admin::default()
    }

    /// Answers those who have one of these tokens.
    #[must_use]
    pub fn tokens(mut self, tokens: AdminTokens) -> Admin {
        self.tokens = Arc::new(KnownTokens::fixed(tokens));
        self
    }

    /// Answers also those whose tokens are in this file, which looks as
    /// [`AdminTokens::add_file`] says. The server reads it again within seconds of a change; what is
    /// wrong then leaves all tokens as they were.
    ///
    /// # Errors
    /// Where the file cannot be read, a line is wrong, or a token is one of those given before.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Result<Admin, AdminTokenError> {
        let beside = AdminTokens::clone(&self.tokens.get());
        self.tokens = Arc::new(KnownTokens::with_file(beside, path.into())?);
        Ok(self)
    }

    /// Where operators are answered: where everybody is, if not said.
    #[must_use]
    pub fn listen(mut self, listen: AdminListen) -> Admin {
        self.listen = listen;
        self
    }

    /// Lets everybody on this machine in without a token.
    #[must_use]
    pub fn insecure(mut self) -> Admin {
        self.insecure = true;
        self
    }

    /// Appends every change to this file, as a line of JSON.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn audit_file(mut self, path: impl AsRef<Path>) -> io::Result<Admin> {
        self.audit = Some(AuditFile::open(path.as_ref())?);
        Ok(self)
    }

    /// The policy is from this file, which operators may have read again.
    #[must_use]
    pub fn policy_file(mut self, path: impl Into<PathBuf>) -> Admin {
        self.policy_source = Some(PolicySource::File(path.into()));
        self
    }

    /// The policy is from the files of this folder, which are Envoy's; operators may have them read
    /// again. Readiness and metrics name the files that are rejected: pass the folder from which
    /// the policy was loaded, or a clone of it.
    #[must_use]
    pub fn envoy_folder(mut self, folder: EnvoyFolder) -> Admin {
        self.policy_source = Some(PolicySource::EnvoyFolder(folder));
        self
    }
}

/// What operators' questions share.
#[derive(Debug)]
pub(crate) struct Operators {
    listen: AdminListen,
    tokens: Arc<KnownTokens>,
    insecure: bool,
    audit: Audit,
    policy_source: Option<PolicySource>,
    /// Wrong tokens by address; `None` only if its own limit were impossible.
    wrong_tokens: Option<Limiter>,
    /// Who was not let in is logged, and cannot fill the log.
    kept_out: Seldom,
    /// Keys that clients have made new are written down, and cannot fill the audit log.
    resets: Seldom,
    /// Held while something is simulated.
    simulating: tokio::sync::Mutex<()>,
}

impl Operators {
    pub(crate) fn new(admin: Admin) -> Operators {
        let limit = Limit::per_minute(MAX_WRONG_TOKENS);
        // As many addresses as an attacker may have at hand; beyond, the oldest are forgotten.
        let wrong_tokens = Limiter::builder(limit).max_keys(4096).build().ok();
        Operators {
            listen: admin.listen,
            tokens: admin.tokens,
            insecure: admin.insecure,
            audit: Audit::new(admin.audit),
            policy_source: admin.policy_source,
            wrong_tokens,
            kept_out: Seldom::default(),
            resets: Seldom::default(),
            simulating: tokio::sync::Mutex::default(),
        }
    }

    /// Keeps up with the tokens of a file, if there is one; for ever.
    pub(crate) async fn follow_tokens(&self) {
        Arc::clone(&self.tokens).follow().await;
    }

    /// Reads the tokens of a file again, if there is one.
    pub(crate) async fn read_tokens_again(&self) {
        self.tokens.read_again().await;
    }

    /// Whether there is anything to read the policy from again.
    pub(crate) fn has_policy_source(&self) -> bool {
        self.policy_source.is_some()
    }

    /// Returns the folder of Envoy's files that the policy is from, if it is from one.
    pub(crate) fn envoy_folder(&self) -> Option<&EnvoyFolder> {
        match &self.policy_source {
            Some(PolicySource::EnvoyFolder(folder)) => Some(folder),
            _ => None,
        }
    }

    /// Where the policy is from, as it is shown.
    fn policy_name(&self) -> Option<String> {
        self.policy_source.as_ref().map(ToString::to_string)
    }

    /// Whether operators are answered where everybody is.
    pub(crate) fn is_with_everybody(&self) -> bool {
        self.listen == AdminListen::Same
    }
}
