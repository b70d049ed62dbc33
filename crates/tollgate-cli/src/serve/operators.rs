//! Who may operate the server, as it is configured.

use tollgate::EnvoyFolder;
use tollgate_server::{Admin, AdminRole, AdminTokens};

use super::busy::chain;
use super::config::Config;
use crate::Failure;

/// Who may, and whether that is anybody.
pub(super) fn admin(
    config: &Config,
    folder: Option<EnvoyFolder>,
) -> Result<(Admin, bool), Failure> {
    let mut tokens = AdminTokens::new();
    let wrong = |error| Failure::Usage(vec![chain(&error)]);
    for (token, name, role) in [
        (&config.admin_token_read, "configured-read", AdminRole::Read),
        (&config.admin_token_write, "configured-write", AdminRole::Write),
    ] {
        if let Some(token) = token {
            tokens.add(name, role, token).map_err(wrong)?;
        }
    }
    // Who has a file may put tokens into it later.
    let anybody = !tokens.is_empty() || config.admin_tokens.is_some() || config.insecure_admin;
    let mut admin = Admin::new().tokens(tokens).listen(config.admin);
    if let Some(file) = &config.admin_tokens {
        admin = admin.token_file(file).map_err(wrong)?;
    }
    if config.insecure_admin {
        admin = admin.insecure();
    }
    match (&config.policy, folder) {
        (Some(file), _) => admin = admin.policy_file(file),
        (None, Some(folder)) => admin = admin.envoy_folder(folder),
        (None, None) => {}
    }
    if let Some(file) = &config.audit {
        let file_name = file.display();
        let wrong = |error| Failure::Start(format!("cannot open {file_name}: {error}"));
        admin = admin.audit_file(file).map_err(wrong)?;
    }
    Ok((admin, anybody))
}
