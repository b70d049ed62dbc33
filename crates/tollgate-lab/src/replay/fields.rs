//! Which fields of a line become which attributes of a request.

use std::collections::BTreeSet;

use tollgate::{Cost, Policy};

use super::Mistake;
use super::route::Template;

/// What `--field` says: an attribute, or `time` or `cost`, and the field it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMap {
    /// The attribute.
    pub attribute: String,
    /// A column, a part of a common log line, or with a dot in front a path into JSON.
    pub field: String,
}

/// Where the names of other software are looked for, after an attribute's own name.
const ALIASES: [(&str, &[&str]); 12] = [
    (
        "time",
        &[
            "timestamp",
            "ts",
            "@timestamp",
            "time_iso8601",
            "time_local",
            "datetime",
            "date",
            "StartUTC",
            "start_time",
            "msec",
        ],
    ),
    (
        "ip",
        &[
            "remote_addr",
            "client_ip",
            "clientip",
            "remote_ip",
            "ClientHost",
            "ClientIP",
            "client",
            "remote",
            ".request.client_ip",
            ".request.remote_ip",
            "c-ip",
        ],
    ),
    ("method", &["request_method", "RequestMethod", "verb", ".request.method", "cs-method"]),
    (
        "path",
        &["uri", "request_uri", "RequestPath", "url", ".request.uri", ".url.path", "cs-uri-stem"],
    ),
    ("status", &["status_code", "DownstreamStatus", "response_code", "code", "sc-status"]),
    ("host", &["http_host", "server_name", "RequestHost", "vhost", ".request.host"]),
    ("user", &["remote_user", "user_id", "userid", "username", "ClientUsername", "cs-username"]),
    ("agent", &["user_agent", "http_user_agent", "useragent"]),
    ("bytes", &["body_bytes_sent", "bytes_sent", "size", "DownstreamContentSize", "sc-bytes"]),
    ("referer", &["http_referer", "referrer"]),
    ("protocol", &["server_protocol", "RequestProtocol", ".request.proto", "proto"]),
    ("query", &["args", "query_string", "cs-uri-query"]),
];

/// What is read of each line, and what becomes of it.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) slots: Vec<Slot>,
    pub(super) attributes: Vec<Attribute>,
    /// The slot that says the cost.
    pub(super) cost: Option<usize>,
    pub(super) time: Slot,
    pub(super) routes: Vec<Template>,
}

/// A value that is read.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    name: String,
    mapped: Option<String>,
}

/// An attribute of the requests.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) slot: usize,
    /// For a route: the slot of the path, which stands in for it.
    pub(super) path: Option<usize>,
}

impl Slot {
    fn new(name: &str, fields: &[FieldMap]) -> Slot {
        let mapped = fields.iter().rev().find(|of| of.attribute == name);
        Slot { name: name.to_owned(), mapped: mapped.map(|of| of.field.clone()) }
    }

    /// Where it is read from, best first.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &str> {
        let aliases = ALIASES.iter().filter(|(name, _)| *name == self.name);
        let own = std::iter::once(self.name.as_str());
        let unmapped = own.chain(aliases.flat_map(|(_, aliases)| aliases.iter().copied()));
        let unmapped = unmapped.filter(|_| self.mapped.is_none());
        self.mapped.as_deref().into_iter().chain(unmapped)
    }

    /// Whether what follows a question mark is none of it.
    pub(super) fn is_path(&self) -> bool {
        self.name == "path"
    }

    /// What `--field` said of it.
    pub(super) fn mapped(&self) -> Option<(&str, &str)> {
        self.mapped.as_deref().map(|field| (self.name.as_str(), field))
    }
}

impl Wanted {
    pub(super) fn new(
        policies: &[&Policy],
        fields: &[FieldMap],
        routes: Vec<Template>,
    ) -> Result<Wanted, Mistake> {
        let mut names: BTreeSet<&str> =
            policies.iter().flat_map(|policy| attribute_names(policy)).collect();
        if names.contains("raw_path") {
            // The gate makes it from the path.
            names.insert("path");
        }
        for FieldMap { attribute, field } in fields {
            if !names.contains(&**attribute) && !matches!(&**attribute, "time" | "cost" | "path") {
                let known: Vec<&str> = names.iter().copied().collect();
                return Err(Mistake::new(format!(
                    "--field {attribute}={field}: the policy asks for no attribute {attribute:?}, it asks for {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )));
            }
        }
        let mut wanted = Wanted {
            slots: Vec::new(),
            attributes: Vec::new(),
            cost: None,
            time: Slot::new("time", fields),
            routes,
        };
        for name in &names {
            let slot = wanted.slot(name, fields);
            let path = (*name == "route").then(|| wanted.slot("path", fields));
            wanted.attributes.push(Attribute { name: (*name).to_owned(), slot, path });
        }
        if fields.iter().any(|of| of.attribute == "cost") {
            wanted.cost = Some(wanted.slot("cost", fields));
        }
        Ok(wanted)
    }

    /// The same, with nothing said about fields.
    pub(super) fn without_fields(&self) -> Wanted {
        let plain = |slot: &Slot| Slot { name: slot.name.clone(), mapped: None };
        Wanted {
            slots: self.slots.iter().map(plain).collect(),
            attributes: Vec::new(),
            cost: None,
            time: plain(&self.time),
            routes: Vec::new(),
        }
    }

    fn slot(&mut self, name: &str, fields: &[FieldMap]) -> usize {
        let known = self.slots.iter().position(|slot| slot.name == name);
        known.unwrap_or_else(|| {
            self.slots.push(Slot::new(name, fields));
            self.slots.len() - 1
        })
    }
}

/// Every attribute a policy asks about, some more than once.
fn attribute_names(policy: &Policy) -> impl Iterator<Item = &str> {
    let rules = policy.rules.iter();
    let costs = rules.clone().filter_map(|rule| match &rule.cost {
        Cost::Attribute { name, .. } => Some(name),
        _ => None,
    });
    let keys = rules.clone().flat_map(|rule| rule.key.iter().map(|part| &part.attribute));
    let lists = policy.allow.iter().chain(&policy.deny).map(|list| &list.matches);
    let matches = lists.chain(rules.clone().map(|rule| &rule.matches)).flatten();
    let clients = policy.overrides.iter().flat_map(|of| of.client.keys());
    let has_tiers = !policy.tiers.is_empty() || rules.clone().any(|rule| !rule.tiers.is_empty());
    let tier = has_tiers.then_some(&policy.tier_from);
    let all = matches.map(|(name, _)| name).chain(keys).chain(costs).chain(clients).chain(tier);
    all.map(String::as_str)
}
