//! Logs against a policy.

mod comparing;
mod formats;
mod hostile;
mod ordering;
mod same_as_gate;
mod suggestions;

use tollgate::{AddressPrefix, KeyAttribute, Limit, Policy, Rule};
use tollgate_lab::replay::{Failure, FieldMap, Log, Report, Settings, replay};

fn bytes(text: impl AsRef<[u8]>) -> Log {
    Log::Bytes(text.as_ref().into())
}

fn run(log: impl AsRef<[u8]>, policy: &Policy, settings: &Settings) -> Result<Report, Failure> {
    replay(&[bytes(log)], policy, None, settings, &mut |_| {})
}

/// What is refused of every second request of a key: that key, whatever it is.
fn telling(attributes: &[&str]) -> Policy {
    let whole = |name: &str| (name == "ip").then_some(AddressPrefix::WHOLE);
    let part = |name: &&str| KeyAttribute {
        address: whole(name),
        ..KeyAttribute::with_default(*name, "absent")
    };
    let parts = attributes.iter().map(part);
    Policy::new().rule(Rule::new("telling").key(parts).limit(Limit::per_day(1)))
}

/// The values that a log's only request has: it is read twice, and the second is refused.
fn values(log: &str, lines: &str, attributes: &[&str], fields: &[(&str, &str)]) -> Vec<String> {
    let log = format!("{log}{lines}{lines}");
    let settings = settings(fields);
    let report = run(log, &telling(attributes), &settings).expect("the log is readable");
    assert_eq!((report.requests, report.refused), (2, 1), "{report:?}");
    report.clients.top[0].key.iter().map(|(_, value)| value.clone()).collect()
}

fn settings(fields: &[(&str, &str)]) -> Settings {
    let field = |(attribute, field): &(&str, &str)| FieldMap {
        attribute: (*attribute).to_owned(),
        field: (*field).to_owned(),
    };
    Settings { fields: fields.iter().map(field).collect(), ..Settings::default() }
}
