//! Reading a test file.

use std::sync::Arc;

use tollgate::{Policy, Timestamp};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::data::{Action, Suite, Test};
use super::document::Document;
use super::fields::{Fields, Reader};
use super::policies::Policies;
use super::start::default_start;
use super::step::{self, Before};
use super::values;

/// The keys of a test file.
pub(super) const KEYS: [&str; 4] = ["policy", "start", "store", "test"];

/// The keys of a test.
pub(super) const TEST_KEYS: [&str; 4] = ["name", "policy", "start", "step"];

/// A file's tests or everything that is wrong with it, and what is probably wrong with its
/// policies.
pub(super) struct Reading {
    pub(super) suite: Result<Suite, Vec<String>>,
    pub(super) warnings: Vec<String>,
}

/// What all tests of a file share.
struct Shared<'a> {
    reader: &'a Reader<'a>,
    policies: &'a Policies<'a>,
    policy: Option<Arc<Policy>>,
    /// Whether the file brings a policy, be it wrong.
    has_policy: bool,
    start: Option<Timestamp>,
}

/// Reads a document; `store` is said on the command line and goes before the file's.
pub(super) fn read(document: &Document, store: Option<&str>) -> Reading {
    let table = match document.parse() {
        Ok(table) => table,
        Err(wrong) => return Reading { suite: Err(wrong), warnings: Vec::new() },
    };
    let (reader, policies) = (Reader::new(document), Policies::new(document));
    let (tests, said) = tests(&reader, &table, &policies, store);
    let wrong = reader.into_wrong();
    let suite = match wrong.is_empty() {
        true => Ok(Suite { file: document.name.clone(), store: said, tests }),
        false => Err(wrong),
    };
    Reading { suite, warnings: policies.into_warnings() }
}

fn tests(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    policies: &Policies<'_>,
    store: Option<&str>,
) -> (Vec<Test>, Option<String>) {
    let fields = Fields::of(reader, table, String::new(), &KEYS);
    let said = fields.get("store", values::text);
    if let Some(wrong) = store.or(said.as_deref()).and_then(unsupported) {
        fields.wrong_in("store", &wrong);
    }
    let shared = Shared {
        reader,
        policies,
        policy: policy(&fields, policies, &["policy"]),
        has_policy: fields.has("policy"),
        start: fields.get("start", values::moment),
    };
    let tests = fields.list("test");
    if tests.is_empty() {
        fields.wrong("no tests, write [[test]] and under it [[test.step]]");
    }
    let tests = tests.iter().enumerate();
    (tests.filter_map(|(number, value)| shared.test(number, value)).collect(), said)
}

/// What to say of a store, where tests cannot run on it.
pub(super) fn unsupported(store: &str) -> Option<String> {
    match store.split(':').next().unwrap_or_default() {
        "memory" if store == "memory" => None,
        "redis" | "rediss" | "redis+unix" | "redis+cluster" | "rediss+cluster"
        | "redis+sentinel" | "rediss+sentinel" => None,
        // A URL may hold a password, and is not repeated.
        _ => Some("unknown store, write \"memory\" or redis://host:6379".to_owned()),
    }
}

/// The policy under `policy`, if there is one and it is right.
fn policy(fields: &Fields<'_>, policies: &Policies<'_>, path: &[&str]) -> Option<Arc<Policy>> {
    match policies.read(fields, path)? {
        Ok(policy) => Some(policy),
        Err(wrong) => {
            wrong.into_iter().for_each(|message| fields.reader.note(message));
            None
        }
    }
}

impl<'a> Shared<'a> {
    fn test(&self, number: usize, value: &'a Spanned<DeValue<'a>>) -> Option<Test> {
        let name = value.get_ref().get("name").and_then(|name| name.get_ref().as_str());
        let name = name.map_or_else(|| format!("test {}", number + 1), str::to_owned);
        let fields = Fields::open(self.reader, value, format!("test {name:?}"), &TEST_KEYS)?;
        let _ = fields.get("name", values::text);
        let place = number.to_string();
        let own = policy(&fields, self.policies, &["test", &place, "policy"]);
        let policy = match own.or_else(|| self.policy.clone()) {
            Some(policy) => policy,
            None => {
                if !fields.has("policy") && !self.has_policy {
                    fields.wrong("no policy, write policy = \"tollgate.toml\" or a [policy] table");
                }
                Arc::default()
            }
        };
        let steps = fields.list("step");
        if steps.is_empty() {
            fields.wrong("no steps, write [[test.step]]");
        }
        let mut before = Before::default();
        let mut read = Vec::new();
        for (index, value) in steps.iter().enumerate() {
            let words = format!("test {name:?}: step {}", index + 1);
            let Some(fields) = Fields::open(self.reader, value, words, &step::KEYS) else {
                continue;
            };
            let path = ["test", &place, "step", &index.to_string(), "policy"];
            read.extend(step::read(&fields, &path, self.policies, &mut before));
        }
        let later = read.iter().filter_map(|step| match &step.action {
            Action::Policy(Ok(policy)) => Some(&**policy),
            _ => None,
        });
        let start = fields.get("start", values::moment).or(self.start);
        let start = start.unwrap_or_else(|| default_start(later.chain([&*policy])));
        if read.iter().any(|step| start.saturating_add(step.at) >= Timestamp::MAX) {
            fields.wrong("a step comes after 2262, where time stands still");
        }
        Some(Test { name, line: fields.line, policy, start, steps: read })
    }
}
