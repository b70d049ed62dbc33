//! Policies from files, for every command.

use std::path::Path;

use tollgate::{Diagnostic, LoadedPolicy, Policy};

use crate::Failure;
use crate::paint::printable;

/// Reads a policy file; the findings say everything that is wrong with it.
pub(crate) fn read(path: &Path) -> Result<LoadedPolicy, Vec<Diagnostic>> {
    Policy::load(path).map_err(|error| error.diagnostics)
}

/// Reads a policy for a command that can do nothing without it, and says what is probably wrong.
pub(crate) fn read_or_fail(path: &Path) -> Result<Policy, Failure> {
    let loaded = read(path).map_err(|findings| Failure::Files(lines(&findings)))?;
    for line in lines(&loaded.warnings) {
        crate::tell(format_args!("warning: {line}"));
    }
    Ok(loaded.policy)
}

pub(crate) fn lines(findings: &[Diagnostic]) -> Vec<String> {
    findings.iter().map(|finding| printable(&finding.to_string())).collect()
}
