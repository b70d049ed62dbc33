//! From YAML to descriptors, with all that is wrong.

use std::collections::HashMap;
use std::rc::Rc;

use super::name::RulePath;
use super::report::{EnvoyDiagnostics, SourceLine, list};
use super::tree::{Descriptor, Domain, ValuePattern};
use super::yaml::{YamlEntry, YamlNode, YamlValue, shown};
use crate::bounds::{MAX_DESCRIPTORS, MAX_ENTRY_TEXT};

const ROOT_KEYS: &[&str] = &["domain", "descriptors"];
const DESCRIPTOR_KEYS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "share_threshold",
    "detailed_metric",
    "value_to_metric",
];
pub(super) const LIMIT_KEYS: &[&str] =
    &["unit", "requests_per_unit", "unlimited", "name", "replaces"];

/// What a file says.
pub(super) struct DescriptorReader<'r> {
    pub(super) report: &'r mut EnvoyDiagnostics,
    /// How many descriptors were read, each alias anew.
    descriptors: usize,
}

impl<'r> DescriptorReader<'r> {
    pub(super) fn new(report: &'r mut EnvoyDiagnostics) -> DescriptorReader<'r> {
        DescriptorReader { report, descriptors: 0 }
    }

    /// The domain and its descriptors; what is wrong is in the report.
    pub(super) fn domain(&mut self, root: &YamlNode) -> Domain {
        let spot = SourceLine { line: root.line, rule: None };
        let mut domain = Domain { name: String::new(), descriptors: Vec::new() };
        let Some(entries) = self.map(spot, "the file", root) else {
            return domain;
        };
        let missing = "no `domain`, every file has one";
        if let Some(name) = self.required(spot, entries, "domain", missing) {
            domain.name = name;
        }
        let way = RulePath::new(&domain.name);
        for entry in entries {
            match entry.key.as_str() {
                "domain" => {}
                "descriptors" => domain.descriptors = self.descriptors(&way, spot, entry),
                _ => {
                    let elsewhere = [
                        (DESCRIPTOR_KEYS, "into an item of `descriptors`"),
                        (LIMIT_KEYS, "into the `rate_limit` of an item of `descriptors`"),
                    ];
                    self.report.unknown_key(spot, entry, ROOT_KEYS, &elsewhere);
                }
            }
        }
        if domain.descriptors.is_empty() {
            self.report.warning(spot, "no `descriptors`, so nothing is limited");
        }
        domain
    }

    fn descriptors(
        &mut self,
        way: &RulePath,
        spot: SourceLine<'_>,
        entry: &YamlEntry,
    ) -> Vec<Descriptor> {
        let mut descriptors: Vec<Descriptor> = Vec::new();
        let mut seen: HashMap<(String, Option<String>), usize> = HashMap::new();
        for item in self.list(spot, entry) {
            self.descriptors += 1;
            if self.descriptors > MAX_DESCRIPTORS {
                if self.descriptors == MAX_DESCRIPTORS + 1 {
                    let message =
                        format!("more than {MAX_DESCRIPTORS} descriptors, split the file");
                    self.report.error(spot.at(item.line), message);
                }
                break;
            }
            let Some(descriptor) = self.descriptor(way, spot, item) else {
                continue;
            };
            let text = descriptor.value.text().map(str::to_owned);
            let line = descriptor.line;
            if let Some(first) = seen.insert((descriptor.key.clone(), text), line) {
                let name = way.then(&descriptor.key, &descriptor.value);
                let spot = SourceLine { line, rule: Some(name.name()) };
                let message =
                    format!("a second descriptor like the one on line {first}, write it once");
                self.report.error(spot, message);
            }
            descriptors.push(descriptor);
        }
        descriptors
    }

    fn descriptor(
        &mut self,
        way: &RulePath,
        outer: SourceLine<'_>,
        node: &Rc<YamlNode>,
    ) -> Option<Descriptor> {
        let outer = outer.at(node.line);
        let entries = self.map(outer, "a descriptor", node)?;
        let missing = "a descriptor without `key`, every descriptor has one";
        let key = self.required(outer, entries, "key", missing)?;
        let value = entries.iter().find(|entry| entry.key == "value");
        let value = value.and_then(|entry| self.entry_text(outer, entry));
        let value = ValuePattern::new(value);
        let way = way.then(&key, &value);
        let spot = SourceLine { line: node.line, rule: Some(way.name()) };
        self.check_pattern(spot, &key, &value);

        let mut descriptor = Descriptor {
            line: node.line,
            key,
            value,
            limit: None,
            shadow: false,
            shared: false,
            children: Vec::new(),
        };
        for entry in entries {
            self.setting(&mut descriptor, &way, spot, entry);
        }
        if descriptor.shared && !matches!(descriptor.value, ValuePattern::Wildcard(_)) {
            let message = "`share_threshold` belongs to a `value` with a `*`, whose values it counts together";
            self.report.error(spot, message);
        }
        if descriptor.shadow && descriptor.limit.is_none() {
            let message = "`shadow_mode` has no effect without a `rate_limit` beside it";
            self.report.warning(spot, message);
        }
        Some(descriptor)
    }

    fn setting(
        &mut self,
        descriptor: &mut Descriptor,
        way: &RulePath,
        spot: SourceLine<'_>,
        entry: &YamlEntry,
    ) {
        match entry.key.as_str() {
            "key" | "value" => {}
            "rate_limit" => descriptor.limit = self.rate_limit(spot, entry),
            "descriptors" => descriptor.children = self.descriptors(way, spot, entry),
            "shadow_mode" => descriptor.shadow = self.flag(spot, entry),
            "share_threshold" => descriptor.shared = self.flag(spot, entry),
            "detailed_metric" | "value_to_metric" => {
                if self.flag(spot, entry) {
                    let message =
                        format!("`{}` has no effect, metrics are named by rule", entry.key);
                    self.report.warning(spot.at(entry.line), message);
                }
            }
            "quota_mode" => {
                if self.flag(spot, entry) {
                    let message = "`quota_mode` cannot be expressed: a rule that is over its limit denies, or with `shadow_mode` only reports";
                    self.report.error(spot.at(entry.line), message);
                }
            }
            _ => {
                let elsewhere = [
                    (LIMIT_KEYS, "into `rate_limit`"),
                    (&["domain"][..], "at the top of the file"),
                ];
                self.report.unknown_key(spot, entry, DESCRIPTOR_KEYS, &elsewhere);
            }
        }
    }

    fn check_pattern(&mut self, spot: SourceLine<'_>, key: &str, value: &ValuePattern) {
        if key.ends_with('*') && *value == ValuePattern::Any {
            let message = "a `key` that ends in `*` cannot be expressed, give the `*` as its `value` to take every value";
            self.report.error(spot, message);
        }
        if value.is_inexpressible() {
            let message = "a `value` with a `?` and a `*` before its end cannot be expressed: a pattern takes `?` as any character";
            self.report.error(spot, message);
        }
    }

    /// The items of a list, none where there is no list.
    pub(super) fn list<'n>(
        &mut self,
        spot: SourceLine<'_>,
        entry: &'n YamlEntry,
    ) -> &'n [Rc<YamlNode>] {
        match &entry.value.value {
            YamlValue::Null => &[],
            YamlValue::List(items) => items,
            other => {
                let message = format!("`{}` is {}, must be a list", entry.key, kind(other));
                self.report.error(spot.at(entry.line), message);
                &[]
            }
        }
    }

    pub(super) fn map<'n>(
        &mut self,
        spot: SourceLine<'_>,
        what: &str,
        node: &'n YamlNode,
    ) -> Option<&'n [YamlEntry]> {
        match &node.value {
            YamlValue::Map(entries) => Some(entries),
            other => {
                let message = format!("{what} is {}, must be a mapping", kind(other));
                self.report.error(spot.at(node.line), message);
                None
            }
        }
    }

    /// The text of a key that must be there.
    fn required(
        &mut self,
        spot: SourceLine<'_>,
        entries: &[YamlEntry],
        key: &str,
        missing: &str,
    ) -> Option<String> {
        let entry = entries.iter().find(|entry| entry.key == key).filter(|entry| !entry.is_blank());
        match entry {
            Some(entry) => self.entry_text(spot, entry),
            None => {
                self.report.error(spot, missing);
                None
            }
        }
    }

    /// A text of some length; nothing where there is none.
    pub(super) fn entry_text(&mut self, spot: SourceLine<'_>, entry: &YamlEntry) -> Option<String> {
        let spot = spot.at(entry.line);
        match &entry.value.value {
            YamlValue::Text(text) if text.len() > MAX_ENTRY_TEXT => {
                let message = format!(
                    "`{}` has {} bytes, must have at most {MAX_ENTRY_TEXT}",
                    entry.key,
                    text.len()
                );
                self.report.error(spot, message);
                None
            }
            YamlValue::Text(text) => (!text.is_empty()).then(|| text.clone()),
            YamlValue::Null => None,
            other => {
                let message = format!("`{}` is {}, must be a text", entry.key, kind(other));
                self.report.error(spot, message);
                None
            }
        }
    }

    /// Whether a switch is on, by any word that YAML has had for it.
    pub(super) fn flag(&mut self, spot: SourceLine<'_>, entry: &YamlEntry) -> bool {
        let word = match &entry.value.value {
            YamlValue::Null => return false,
            YamlValue::Text(text) => text.to_ascii_lowercase(),
            other => kind(other).to_owned(),
        };
        match word.as_str() {
            "true" | "yes" | "on" | "y" => true,
            "false" | "no" | "off" | "n" => false,
            _ => {
                let known = list(&["true", "false"]).replace(" and ", " or ");
                let message = format!("`{}` is {}, must be {known}", entry.key, shown(&word));
                self.report.error(spot.at(entry.line), message);
                false
            }
        }
    }
}

fn kind(value: &YamlValue) -> &'static str {
    match value {
        YamlValue::Null => "empty",
        YamlValue::Text(_) => "a text",
        YamlValue::List(_) => "a list",
        YamlValue::Map(_) => "a mapping",
    }
}
