//! Who may operate the server, as the command line and the environment say it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use tollgate_server::{Admin, AdminListen, AdminRole, AdminTokens};

use super::chain;
use crate::Failure;

/// Tokens in the environment, and what their bearers may do.
const VARIABLES: [(&str, &str, AdminRole); 2] = [
    ("TOLLGATE_ADMIN_TOKEN_READ", "environment-read", AdminRole::Read),
    ("TOLLGATE_ADMIN_TOKEN_WRITE", "environment-write", AdminRole::Write),
];

#[derive(Args)]
pub(super) struct Operators {
    /// Where operators are answered: same (as --http), an address, or off
    #[arg(long, value_name = "ADDRESS", default_value = "same")]
    admin: Where,

    /// Who may operate it: lines of a name, read or write, and a token; also from the environment,
    /// TOLLGATE_ADMIN_TOKEN_READ and TOLLGATE_ADMIN_TOKEN_WRITE
    #[arg(long, value_name = "FILE")]
    admin_tokens: Option<PathBuf>,

    /// Let everybody on this machine operate it, without a token
    #[arg(long)]
    insecure_admin: bool,

    /// A file that every change by an operator is appended to
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
}

/// Where operators are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Where(AdminListen);

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Where, String> {
        match text {
            "same" => Ok(Where(AdminListen::Same)),
            "off" => Ok(Where(AdminListen::Off)),
            _ => text.parse::<SocketAddr>().map(|address| Where(AdminListen::At(address))).map_err(
                |_| "must be same, off, or an address and a port, such as 127.0.0.1:8082".into(),
            ),
        }
    }
}

impl Operators {
    /// Who may, and whether that is anybody.
    pub(super) fn admin(&self, policy: Option<&Path>) -> Result<(Admin, bool), Failure> {
        let mut tokens = AdminTokens::new();
        let wrong = |error| Failure::Usage(vec![chain(&error)]);
        if let Some(file) = &self.admin_tokens {
            tokens.add_file(file).map_err(wrong)?;
        }
        for (variable, name, role) in VARIABLES {
            let Ok(token) = std::env::var(variable) else { continue };
            tokens.add(name, role, &token).map_err(wrong)?;
        }
        let anybody = !tokens.is_empty() || self.insecure_admin;
        let mut admin = Admin::new().tokens(tokens).listen(self.admin.0);
        if self.insecure_admin {
            admin = admin.insecure();
        }
        if let Some(file) = policy {
            admin = admin.policy_file(file);
        }
        if let Some(file) = &self.audit {
            let file_name = file.display();
            let wrong = |error| Failure::Start(format!("cannot open {file_name}: {error}"));
            admin = admin.audit_file(file).map_err(wrong)?;
        }
        Ok((admin, anybody))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_answered_where_it_is_said() {
        assert_eq!("same".parse(), Ok(Where(AdminListen::Same)));
        assert_eq!("off".parse(), Ok(Where(AdminListen::Off)));
        let address = "127.0.0.1:9".parse().expect("an address");
        assert_eq!("127.0.0.1:9".parse(), Ok(Where(AdminListen::At(address))));
        for wrong in ["", "8082", "localhost:80", "on"] {
            assert!(wrong.parse::<Where>().unwrap_err().contains("127.0.0.1:8082"), "{wrong}");
        }
    }
}
