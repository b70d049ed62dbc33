//! The table `[server]` of a file, which may be a policy's too.

use std::path::Path;

use tollgate::{Diagnostic, EnvoyFolder, LoadedPolicy, Policy};
use tollgate_redis::{RedisGate, RedisStore};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layers::{Configured, Given, Item, Source};
use super::setting::{Setting, Shape};
use super::settings::SETTINGS;
use super::{Config, Store};
use crate::policy_file;
use crate::test::{Document, expected, unknown};

/// A configuration file: settings, and perhaps the policy.
#[derive(Default)]
pub(super) struct ConfigFile {
    pub(super) given: Vec<Given>,
    pub(super) holds_policy: bool,
    pub(super) warnings: Vec<String>,
    /// Also what is wrong with the policy, by line.
    pub(super) wrong: Vec<Diagnostic>,
}

/// Reads a policy file and looks at the settings of a server in it, if there are any: the policy that
/// they name is the one that is read then, for the store that they name. The findings say
/// everything that is wrong with any of it.
pub(crate) fn read_both(path: &Path) -> Result<LoadedPolicy, Vec<Diagnostic>> {
    let loaded = policy_file::read(path);
    let is_toml = !matches!(path.extension().and_then(|it| it.to_str()), Some("yaml" | "yml"));
    // A pipe cannot be read twice.
    let is_read = is_toml && path.is_file();
    let file = if is_read { ConfigFile::of(path, &loaded) } else { ConfigFile::default() };
    let (mut wrong, holds_policy) = (file.wrong, file.holds_policy);
    let config = match Configured::of_file(file.given) {
        Ok(configured) => configured.config,
        Err(more) => {
            wrong.extend(more);
            Config::default()
        }
    };
    wrong.sort_by_key(|finding| finding.line);
    let named = match (&config.policy, &config.envoy_config) {
        (Some(policy), _) if !holds_policy => Some(policy_file::read(policy)),
        (None, Some(folder)) => {
            // A wrong file is an error here in any case; a strict server also needs one.
            let loaded = match config.strict {
                true => EnvoyFolder::new(folder).strict().load().map(|read| read.loaded),
                false => Policy::load_envoy_folder(folder),
            };
            Some(loaded.map_err(|error| error.diagnostics))
        }
        _ => None,
    };
    let loaded = match named {
        Some(Err(findings)) => {
            wrong.extend(findings);
            loaded
        }
        Some(named) => named,
        None => loaded,
    };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let loaded = loaded?;
    let refused = refused_by_store(&config, &loaded.policy, path);
    if refused.is_empty() { Ok(loaded) } else { Err(refused) }
}

/// What a Redis could not keep of a policy. It is not called.
fn refused_by_store(config: &Config, policy: &Policy, path: &Path) -> Vec<Diagnostic> {
    let Store::Redis(url) = &config.store else { return Vec::new() };
    let Ok(store) = RedisStore::open(url) else { return Vec::new() };
    let Err(error) = RedisGate::builder(store).build(policy.clone()) else { return Vec::new() };
    let policy = config.policy.as_deref().or(config.envoy_config.as_deref()).unwrap_or(path);
    let finding =
        |message| Diagnostic { file: policy.display().to_string(), line: 0, rule: None, message };
    error.problems.iter().map(|problem| finding(problem.to_string())).collect()
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> ConfigFile {
        // A pipe would be empty the second time, and nobody would be limited.
        if path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            let message = "is not a plain file, which it must be to be read again".to_owned();
            let file = path.display().to_string();
            let wrong = vec![Diagnostic { file, line: 0, rule: None, message }];
            return ConfigFile { wrong, ..ConfigFile::default() };
        }
        let loaded = policy_file::read(path);
        let mut file = ConfigFile::of(path, &loaded);
        if let Ok(loaded) = &loaded {
            file.warnings = policy_file::lines(&loaded.warnings);
        }
        file.wrong.sort_by_key(|finding| finding.line);
        file
    }

    /// The settings in a file whose policy was read.
    fn of(path: &Path, loaded: &Result<LoadedPolicy, Vec<Diagnostic>>) -> ConfigFile {
        let mut file = ConfigFile::default();
        if let Err(findings) = loaded {
            file.wrong.clone_from(findings);
        }
        let name = path.display().to_string();
        // Who reads the policy has said what is wrong with the file as such, be it its size.
        if file.wrong.iter().any(|finding| finding.line == 0) {
            return file;
        }
        let Ok(text) = std::fs::read_to_string(path) else { return file };
        let document = Document::from_toml(name, text);
        match document.parse() {
            Ok(table) => file.settings(&document, &table, path),
            Err(lines) if loaded.is_ok() => {
                let whole = |message| finding(&document, 0, message);
                file.wrong.extend(lines.into_iter().map(whole));
            }
            Err(_) => {}
        }
        file
    }

    fn settings(&mut self, document: &Document, top: &DeTable<'_>, path: &Path) {
        if let Some(DeValue::Table(table)) = top.get("server").map(Spanned::get_ref) {
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut reading = Reading { file: self, document, folder };
            reading.table(table, "");
        }
        let policy = top.keys().filter(|key| *key.get_ref() != "server");
        let Some(first) = policy.map(|key| key.span().start).min() else { return };
        self.holds_policy = true;
        let first = document.line(first);
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == "policy") else {
            return;
        };
        match self.given.iter().find(|given| given.setting.name == "policy") {
            Some(other) => {
                let line = other.items.first().map_or(0, |item| item.line);
                let message = format!(
                    "server.policy names another file, but there are rules in this one from line {first}: keep one of them"
                );
                self.wrong.push(finding(document, line, message));
            }
            None => {
                let items = vec![Item { text: path.display().to_string(), line: first }];
                let source = Source::File { file: document.name.clone(), line: first };
                self.given.push(Given { setting, items, source });
            }
        }
    }
}

fn finding(document: &Document, line: usize, message: String) -> Diagnostic {
    Diagnostic { file: document.name.clone(), line, rule: None, message }
}

/// A file that is being read.
struct Reading<'a> {
    file: &'a mut ConfigFile,
    document: &'a Document,
    /// What paths in it are seen from.
    folder: &'a Path,
}

impl Reading<'_> {
    fn wrong(&mut self, at: usize, message: String) {
        let finding = finding(self.document, self.document.line(at), message);
        self.file.wrong.push(finding);
    }

    /// Reads the table whose settings' names begin with `prefix`.
    fn table(&mut self, table: &DeTable<'_>, prefix: &str) {
        let mut known: Vec<&str> = SETTINGS
            .iter()
            .filter_map(|setting| setting.name.strip_prefix(prefix)?.split('.').next())
            .collect();
        known.dedup();
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let group = format!("{name}.");
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
                self.value(setting, value);
            } else if !known.contains(&key.get_ref().as_ref()) {
                let at = if prefix.is_empty() {
                    "server".to_owned()
                } else {
                    format!("server.{}", prefix.trim_end_matches('.'))
                };
                self.wrong(
                    key.span().start,
                    format!("{at}: {}", unknown("key", key.get_ref(), &known)),
                );
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.table(inner, &group);
            } else {
                let wanted = format!("a table, written as [server.{name}]");
                let message = format!("server.{name} {}", expected(&wanted, value.get_ref()));
                self.wrong(value.span().start, message);
            }
        }
    }

    fn value(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) {
        let start = value.span().start;
        let items = match (setting.shape, value.get_ref()) {
            (Shape::Path, DeValue::String(text)) => {
                vec![(self.folder.join(text.as_ref()).display().to_string(), start)]
            }
            (Shape::Text | Shape::Url | Shape::Secret | Shape::Word(_), DeValue::String(text)) => {
                vec![(text.as_ref().to_owned(), start)]
            }
            (Shape::Whole, DeValue::Integer(number)) => vec![(plain(number), start)],
            (Shape::Flag, DeValue::Boolean(flag)) => vec![(flag.to_string(), start)],
            (Shape::Texts, DeValue::Array(values)) => self.texts(setting, values.iter()),
            (Shape::Pairs, DeValue::Table(table)) => {
                let values = self.texts(setting, table.values());
                let pair = |(key, (text, start)): (&Spanned<_>, _)| {
                    (format!("{}={text}", key.get_ref()), start)
                };
                if values.len() < table.len() {
                    return;
                }
                table.keys().zip(values).map(pair).collect()
            }
            (shape, other) => {
                let message = format!("server.{} {}", setting.name, expected(wanted(shape), other));
                return self.wrong(start, message);
            }
        };
        let item = |(text, start)| Item { text, line: self.document.line(start) };
        let items = items.into_iter().map(item).collect();
        let source =
            Source::File { file: self.document.name.clone(), line: self.document.line(start) };
        self.file.given.push(Given { setting, items, source });
    }

    /// The texts among some values; of the others it is said what they are.
    fn texts<'v>(
        &mut self,
        setting: &Setting,
        values: impl Iterator<Item = &'v Spanned<DeValue<'v>>>,
    ) -> Vec<(String, usize)> {
        let mut texts = Vec::new();
        for value in values {
            match value.get_ref() {
                DeValue::String(text) => texts.push((text.as_ref().to_owned(), value.span().start)),
                other => {
                    let message = format!(
                        "server.{} {}",
                        setting.name,
                        expected(wanted(setting.shape), other)
                    );
                    self.wrong(value.span().start, message);
                }
            }
        }
        texts
    }
}

/// A number without the underscores that may stand in it.
fn plain(number: &toml::de::DeInteger<'_>) -> String {
    let value = i128::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.to_string(), |value| value.to_string())
}

fn wanted(shape: Shape) -> &'static str {
    match shape {
        Shape::Text | Shape::Url | Shape::Secret | Shape::Word(_) => "a text in quotes",
        Shape::Path => "the name of a file in quotes",
        Shape::Whole => "a whole number",
        Shape::Flag => "true or false",
        Shape::Texts => "a list of texts such as [\"10.0.0.0/8\"]",
        Shape::Pairs => "a table of texts such as { user = \"x-user-id\" }",
    }
}
