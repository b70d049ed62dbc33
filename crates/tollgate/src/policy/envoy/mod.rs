//! Import of the configuration of the Envoy rate limit service.

mod descriptor;
mod folder;
mod limit;
mod name;
mod read;
mod report;
mod rules;
mod siblings;
mod tree;
mod yaml;

pub use descriptor::EnvoyDescriptor;
pub use folder::{EnvoyFolder, FolderLoaded, RejectedFile};

use self::read::DescriptorReader;
use self::report::{EnvoyDiagnostics, SourceLine};
use self::rules::WrittenRules;
use self::tree::Domain;
use super::{LoadedPolicy, Policy, PolicyFileError, PolicyLocation, PolicyProblem};

impl Policy {
    /// The policy that a YAML file of the Envoy rate limit service describes. `file` is what
    /// errors call it.
    ///
    /// Every `rate_limit` becomes a rule that applies to the requests of an [`EnvoyDescriptor`]:
    /// one rule at most for each, the one that the service would choose.
    ///
    /// ```
    /// use tollgate::{Condition, Policy};
    ///
    /// let loaded = Policy::from_envoy("edge.yaml", "
    /// domain: edge
    /// descriptors:
    ///   - key: path
    ///     value: /login
    ///     descriptors:
    ///       - key: remote_address
    ///         rate_limit: { unit: minute, requests_per_unit: 5 }
    /// ")?;
    /// let rule = &loaded.policy.rules[0];
    /// assert_eq!(rule.name, "edge|path=/login|remote_address");
    /// assert_eq!(rule.key[0].attribute, "remote_address");
    /// assert_eq!(rule.limits.limits()[0].to_string(), "5/min fixed_window");
    /// # Ok::<(), tollgate::PolicyFileError>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the file, and what a policy cannot express.
    pub fn from_envoy(file: &str, yaml: &str) -> Result<LoadedPolicy, PolicyFileError> {
        Policy::from_envoy_files([(file, yaml)])
    }

    /// The policy that several such files describe together, one for each domain: what errors call
    /// each, and its text.
    ///
    /// ```
    /// use tollgate::Policy;
    ///
    /// let edge = "domain: edge\ndescriptors: [{key: ip, rate_limit: {unit: second, requests_per_unit: 9}}]";
    /// let mail = "domain: mail\ndescriptors: [{key: to, rate_limit: {unit: hour, requests_per_unit: 5}}]";
    /// let loaded = Policy::from_envoy_files([("edge.yaml", edge), ("mail.yaml", mail)])?;
    /// assert_eq!(loaded.policy.rules[1].name, "mail|to");
    /// # Ok::<(), tollgate::PolicyFileError>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with any of them, and a domain that two of them have.
    pub fn from_envoy_files<'f>(
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Result<LoadedPolicy, PolicyFileError> {
        let mut read: Vec<(Domain, EnvoyDiagnostics)> = Vec::new();
        for (file, yaml) in files {
            let (domain, mut report) = read_one(file, yaml);
            let other = read.iter().find(|(other, _)| other.name == domain.name);
            if let Some((_, other)) = other.filter(|_| !domain.name.is_empty()) {
                let message = domain_is_taken(&domain.name, other.file());
                report.error(SourceLine { line: 0, rule: None }, message);
            }
            read.push((domain, report));
        }
        let mut names = rules::names(read.iter().map(|(domain, _)| domain));
        let (mut policy, mut warnings, mut errors) = (Policy::new(), Vec::new(), Vec::new());
        for (domain, mut report) in read {
            if !report.has_errors() {
                let written = rules::write(&domain, &mut names, &mut report);
                check(&written, &mut report);
                policy.rules.extend(written.policy.rules);
                policy.deny.extend(written.policy.deny);
            }
            match report.finish() {
                Ok(odd) => warnings.extend(odd),
                Err(error) => errors.extend(error.diagnostics),
            }
        }
        if errors.is_empty() {
            Ok(LoadedPolicy { policy, warnings })
        } else {
            Err(PolicyFileError { diagnostics: errors })
        }
    }
}

/// Why a file is rejected whose domain another file has.
fn domain_is_taken(domain: &str, other: &str) -> String {
    let domain = yaml::shown(domain);
    format!("domain {domain:?} is also that of {other}, put both into one file")
}

/// Reads a file without regard to others. Returns its domain.
fn read_alone(file: &str, yaml: &str) -> Result<String, PolicyFileError> {
    let (domain, mut report) = read_one(file, yaml);
    if !report.has_errors() {
        let mut names = rules::names(std::iter::once(&domain));
        let written = rules::write(&domain, &mut names, &mut report);
        check(&written, &mut report);
    }
    report.finish().map(|_| domain.name)
}

/// What a file says, and what is wrong with it.
fn read_one(file: &str, yaml: &str) -> (Domain, EnvoyDiagnostics) {
    let mut report = EnvoyDiagnostics::new(file);
    let domain = match yaml::parse(yaml) {
        Ok(root) => DescriptorReader::new(&mut report).domain(&root),
        Err(fault) => {
            report.error(SourceLine { line: fault.line, rule: None }, fault.message);
            Domain { name: String::new(), descriptors: Vec::new() }
        }
    };
    (domain, report)
}

/// What is wrong with the rules themselves, such as a name that headers cannot carry.
fn check(written: &WrittenRules, report: &mut EnvoyDiagnostics) {
    let Err(error) = written.policy.validate() else {
        return;
    };
    for PolicyProblem { place, message } in error.problems {
        let line = match place {
            PolicyLocation::Rule(number, _) => written.rule_lines.get(number),
            PolicyLocation::Deny(number, _) => written.deny_lines.get(number),
            _ => None,
        };
        report.error(SourceLine { line: line.copied().unwrap_or(1), rule: None }, message);
    }
}
