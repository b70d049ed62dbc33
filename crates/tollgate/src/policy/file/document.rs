//! Reading a whole document: syntax, then the tree, then the policy as a whole.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::keys::POLICY;
use super::lists::{listing, one_override, tiers};
use super::pieces::{self, PIECE};
use super::positions::{SourceMap, owner};
use super::rules::rule;
use super::tree::{
    Diagnostics, PendingDiagnostic, SettingFields, SettingSection, SpannedValue, shown, type_name,
};
use super::values::{lease, on_store_error, sync, table, text};
use super::{Diagnostic, LoadedPolicy, PolicyFileError};
use crate::bounds::{MAX_FILE, MAX_GUESSES, MAX_KEY_PARTS};
use crate::policy::warnings::warnings;
use crate::policy::{Policy, check};

/// What the parser says of a key that is there twice.
const DUPLICATE: &str = "duplicate key";

/// Reads the policy in the table at `path`.
pub(super) fn read(file: &str, text: &str, path: &[&str]) -> Result<LoadedPolicy, PolicyFileError> {
    if u64::try_from(text.len()).is_ok_and(|length| length > MAX_FILE) {
        let message = format!("is larger than {} MiB, a policy must be smaller", MAX_FILE >> 20);
        return Err(PolicyFileError::whole(file, message));
    }
    let lines = DocumentLines { file, text };
    if let Some(note) = too_deep(text) {
        return Err(PolicyFileError { diagnostics: lines.findings(vec![note]) });
    }
    if let Some(policy) = path.is_empty().then(|| pieces::read(text, PIECE)).flatten() {
        return Ok(LoadedPolicy { warnings: Vec::new(), policy });
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    let goes_on = errors.iter().all(|error| is_recovered(error, text));
    let mut report = Diagnostics::default();
    for (number, error) in errors.iter().enumerate() {
        let mut note = syntax(error, text);
        if number < MAX_GUESSES {
            note.rule = rule_around(text, document.get_ref(), note.at);
        }
        report.notes.push(note);
    }
    let root = Spanned::new(document.span(), DeValue::Table(document.into_inner()));
    if !goes_on {
        return Err(PolicyFileError { diagnostics: lines.findings(report.notes) });
    }
    let table = match descend(&root, path) {
        Ok(table) => table,
        Err(note) => return Err(PolicyFileError { diagnostics: lines.findings(vec![note]) }),
    };
    let mut policy = Policy::new();
    let sources = read_policy(&mut report, table, &mut policy);
    if let Err(wrong) = check(&policy) {
        // What is left out is about settings of which something was said already.
        let is_said = !report.notes.is_empty();
        for problem in wrong.problems {
            if !is_said || !report.is_broken(&problem.place) {
                let at = sources.find(&problem.place);
                report.add(owner(&policy, &problem.place), at, &problem.message);
            }
        }
    }
    if !report.notes.is_empty() {
        return Err(PolicyFileError { diagnostics: lines.findings(report.notes) });
    }
    for warning in warnings(&policy) {
        let at = sources.find(&warning.place);
        report.add(owner(&policy, &warning.place), at, &warning.message);
    }
    Ok(LoadedPolicy { warnings: lines.findings(report.notes), policy })
}

/// Whether the parser goes on as if nothing had been: the second of two equal keys is left out,
/// but the second of two equal tables takes the place of the first.
fn is_recovered(error: &Error, text: &str) -> bool {
    let at = error.span().map_or(0, |span| span.start);
    // No header is longer, and a line may be as long as the file.
    let before = &text.as_bytes()[at.saturating_sub(4096)..at];
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or(before);
    error.message() == DUPLICATE && !line.trim_ascii_start().starts_with(b"[")
}

fn syntax(error: &Error, text: &str) -> PendingDiagnostic {
    let span = error.span().unwrap_or(0..0);
    let message = match error.message() {
        DUPLICATE => {
            let key = shown(text.get(span.clone()).unwrap_or(""));
            format!("`{key}` is there twice, keep one of them")
        }
        message => format!("not TOML: {message}"),
    };
    PendingDiagnostic { at: span.start, rule: None, message }
}

/// The name of the rule whose lines are around `at`, as far as the tree can tell.
fn rule_around(text: &str, document: &DeTable<'_>, at: usize) -> Option<String> {
    let rules = document.get("rule")?.get_ref().as_array()?;
    let before = rules.iter().take_while(|rule| rule.span().start <= at);
    let rule = before.last()?;
    let lines = text.get(rule.span().end..at)?.lines();
    let is_other = |line: &str| {
        let line = line.trim_start();
        line.starts_with('[') && !line.starts_with("[rule.") && !line.starts_with("[[rule.")
    };
    let name = rule.get_ref().as_table()?.get("name")?.get_ref().as_str();
    if lines.skip(1).any(is_other) { None } else { name.map(str::to_owned) }
}

/// A key of too many parts, if there is one.
fn too_deep(text: &str) -> Option<PendingDiagnostic> {
    // A key stands in one line: few files need the second, closer look.
    let dots = |line: &[u8]| line.iter().filter(|byte| **byte == b'.').count();
    if text.as_bytes().split(|byte| *byte == b'\n').all(|line| dots(line) < MAX_KEY_PARTS) {
        return None;
    }
    let mut dots = 0;
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Atom
            | TokenKind::Whitespace
            | TokenKind::BasicString
            | TokenKind::LiteralString => {}
            _ => dots = 0,
        }
        if dots >= MAX_KEY_PARTS {
            let message =
                format!("a key of more than {MAX_KEY_PARTS} parts, no setting is that deep");
            return Some(PendingDiagnostic { at: token.span().start(), rule: None, message });
        }
    }
    None
}

/// The table at `path`.
fn descend<'t>(
    root: &'t SpannedValue<'t>,
    path: &[&str],
) -> Result<&'t DeTable<'t>, PendingDiagnostic> {
    let mut value = root;
    for (depth, step) in path.iter().enumerate() {
        let next = match value.get_ref() {
            DeValue::Table(table) => table.get(*step),
            DeValue::Array(values) => step.parse::<usize>().ok().and_then(|at| values.get(at)),
            _ => None,
        };
        value = next.ok_or_else(|| {
            let message = format!("there is no `{}`", path[..=depth].join("."));
            PendingDiagnostic { at: value.span().start, rule: None, message }
        })?;
    }
    value.get_ref().as_table().ok_or_else(|| {
        let found = type_name(value.get_ref());
        let message = format!("`{}` must be a table, is {found}", path.join("."));
        PendingDiagnostic { at: value.span().start, rule: None, message }
    })
}

/// Adds what a document says to `policy`, and tells where it stands.
pub(super) fn read_policy<'t>(
    report: &mut Diagnostics,
    top: &'t DeTable<'t>,
    policy: &mut Policy,
) -> SourceMap<'t> {
    let fields = SettingFields::read(report, SettingSection::Policy, top, POLICY);
    let sources = SourceMap {
        top,
        rules: tables(report, &fields, "rule"),
        allow: tables(report, &fields, "allow"),
        deny: tables(report, &fields, "deny"),
        overrides: tables(report, &fields, "override"),
    };
    for value in &sources.rules {
        policy.rules.push(rule(report, policy.rules.len(), value));
    }
    for value in &sources.allow {
        let number = policy.allow.len();
        let default_name = format!("allow-{}", number + 1);
        let owner = move |name| SettingSection::Allow(number, name);
        policy.allow.push(listing(report, &owner, default_name, value));
    }
    for value in &sources.deny {
        let number = policy.deny.len();
        let default_name = format!("deny-{}", number + 1);
        let owner = move |name| SettingSection::Deny(number, name);
        policy.deny.push(listing(report, &owner, default_name, value));
    }
    for value in &sources.overrides {
        policy.overrides.push(one_override(report, policy.overrides.len(), value));
    }
    if let Some(value) = fields.get("tiers") {
        policy.tiers = tiers(report, value);
    }
    if let Some(value) = fields.get("server") {
        // Whether its settings are right is for the server to say.
        table(report, SettingSection::Policy.at("server"), "a table, written as [server]", value);
    }
    let mut word = |key| {
        fields.get(key).and_then(|value| text(report, SettingSection::Policy.at(key), key, value))
    };
    if let Some(attribute) = word("tier_from") {
        policy.tier_from = attribute.to_owned();
    }
    if let Some(tier) = word("default_tier") {
        policy.default_tier = Some(tier.to_owned());
    }
    if let Some(attribute) = word("partition") {
        policy.partition = Some(attribute.to_owned());
    }
    if let Some(answer) = on_store_error(report, SettingSection::Policy, &fields) {
        policy.on_store_error = answer;
    }
    if let Some(mode) = sync(report, SettingSection::Policy, &fields) {
        policy.sync = mode;
    }
    let (ttl, share) = lease(report, SettingSection::Policy, &fields);
    policy.lease_ttl = ttl.unwrap_or(policy.lease_ttl);
    policy.lease_share = share.unwrap_or(policy.lease_share);
    sources
}

/// The tables of a key such as `[[rule]]`.
fn tables<'t>(
    report: &mut Diagnostics,
    fields: &SettingFields<'t>,
    key: &'static str,
) -> Vec<&'t SpannedValue<'t>> {
    let Some(value) = fields.get(key) else {
        return Vec::new();
    };
    match value.get_ref() {
        DeValue::Array(values) => values.iter().collect(),
        DeValue::Table(_) => {
            let message = format!("`{key}` is a single table, write [[{key}]] in double brackets");
            report.add(SettingSection::Policy, value.span().start, &message);
            vec![value]
        }
        _ => {
            let wanted = format!("an array of tables, written as [[{key}]]");
            report.wrong_type(SettingSection::Policy.at(key), key, &wanted, value);
            Vec::new()
        }
    }
}

/// Counts lines, once all that is to be said is known.
struct DocumentLines<'a> {
    file: &'a str,
    text: &'a str,
}

impl DocumentLines<'_> {
    /// The notes in the order of the file, each said once.
    fn findings(&self, mut notes: Vec<PendingDiagnostic>) -> Vec<Diagnostic> {
        notes.sort_by_key(|note| note.at);
        let (mut line, mut counted) = (1, 0);
        let mut findings: Vec<Diagnostic> = Vec::with_capacity(notes.len());
        for PendingDiagnostic { at, rule, message } in notes {
            let at = at.min(self.text.len());
            let between = &self.text.as_bytes()[counted..at];
            line += between.iter().filter(|byte| **byte == b'\n').count();
            counted = at;
            let finding = Diagnostic { file: self.file.to_owned(), line, rule, message };
            if findings.last() != Some(&finding) {
                findings.push(finding);
            }
        }
        findings
    }
}
