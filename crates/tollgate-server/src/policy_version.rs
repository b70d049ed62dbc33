//! What a policy is called: a digest of what it says.

use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tollgate::Policy;

/// The name of a policy that is written so.
pub(crate) fn version(toml: &str) -> String {
    let digest = Sha256::digest(toml);
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the policy in force, worked out once for each policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyVersion(Mutex<Option<(Arc<Policy>, Arc<str>)>>);

impl PolicyVersion {
    pub(crate) fn of(&self, policy: &Arc<Policy>) -> Arc<str> {
        let mut known = self.0.lock();
        match &*known {
            Some((of, version)) if Arc::ptr_eq(of, policy) => Arc::clone(version),
            _ => {
                let version: Arc<str> = version(&policy.to_toml()).into();
                *known = Some((Arc::clone(policy), Arc::clone(&version)));
                version
            }
        }
    }
}
