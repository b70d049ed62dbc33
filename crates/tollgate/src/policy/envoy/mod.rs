//! Import of the configuration of the Envoy rate limit service.

mod descriptor;
mod limit;
mod name;
mod read;
mod report;
mod rules;
mod siblings;
mod tree;
mod yaml;

pub use descriptor::EnvoyDescriptor;

use self::read::Reader;
use self::report::{Report, Spot};
use self::rules::Written;
use super::{FileError, Loaded, Place, Policy, Problem};

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
    /// assert_eq!(rule.numbers.limits()[0].to_string(), "5/min fixed_window");
    /// # Ok::<(), tollgate::FileError>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the file, and what a policy cannot express.
    pub fn from_envoy(file: &str, yaml: &str) -> Result<Loaded, FileError> {
        let mut report = Report::new(file);
        let mut policy = Policy::new();
        match yaml::parse(yaml) {
            Err(fault) => {
                report.error(Spot { line: fault.line, rule: None }, fault.message);
            }
            Ok(root) => {
                let domain = Reader::new(&mut report).domain(&root);
                if !report.has_errors() {
                    let written = rules::write(&domain, &mut report);
                    check(&written, &mut report);
                    policy = written.policy;
                }
            }
        }
        Ok(Loaded { warnings: report.finish()?, policy })
    }
}

/// What is wrong with the rules themselves, such as a name that headers cannot carry.
fn check(written: &Written, report: &mut Report) {
    let Err(error) = written.policy.validate() else {
        return;
    };
    for Problem { place, message } in error.problems {
        let line = match place {
            Place::Rule(number, _) => written.rule_lines.get(number),
            Place::Deny(number, _) => written.deny_lines.get(number),
            _ => None,
        };
        report.error(Spot { line: line.copied().unwrap_or(1), rule: None }, message);
    }
}
