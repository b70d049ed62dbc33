//! The default, the file, the environment, the flags: what wins, and everything that is wrong.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tollgate::Diagnostic;
use tollgate_server::{AdminListen, TlsListener};

use super::file::ConfigFile;
use super::reread::Reread;
use super::setting::{Read, Setting, Shape};
use super::settings::SETTINGS;
use super::{Config, Store};
use crate::paint::printable;
use crate::test::closest;

/// A value that somebody has given a setting.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(super) setting: &'static Setting,
    /// One, but for settings of several values.
    pub(super) items: Vec<Item>,
    pub(super) source: Source,
}

/// One text of a value, and the line of a file that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) line: usize,
}

/// Who has given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File { file: String, line: usize },
    Variable(String),
    Flag,
}

/// What all sources together say.
#[derive(Default)]
pub(crate) struct Configured {
    pub(crate) config: Config,
    /// One for each setting that has a value, in the order of the settings.
    pub(super) in_force: Vec<Given>,
    /// What is legal and probably wrong.
    pub(crate) warnings: Vec<String>,
    /// The configuration file.
    file: Option<PathBuf>,
}

impl Given {
    pub(crate) fn by_flag(setting: &'static Setting, texts: impl Iterator<Item = String>) -> Given {
        let items = texts.map(|text| Item { text, line: 0 }).collect();
        Given { setting, items, source: Source::Flag }
    }

    fn by_default(setting: &'static Setting) -> Option<Given> {
        let items = split(setting, setting.default?);
        Some(Given { setting, items, source: Source::Default })
    }

    /// `true` if it is the default, also if that was given.
    pub(super) fn is_default(&self) -> bool {
        self.items.iter().map(|item| item.text.as_str()).eq(self.setting.default)
    }

    /// What the setting is called where it was given.
    pub(super) fn name(&self) -> String {
        match &self.source {
            Source::Default | Source::File { .. } => format!("server.{}", self.setting.name),
            Source::Variable(variable) => variable.clone(),
            Source::Flag => format!("--{}", self.setting.flag),
        }
    }

    /// The line of the value in its file; 0 if it is of no file.
    fn line(&self) -> usize {
        match self.source {
            Source::File { line, .. } => line,
            _ => 0,
        }
    }

    /// Something wrong with it, as in `--http is "8080", must be an address`.
    fn wrong(&self, line: usize, what: &str) -> Diagnostic {
        let message = format!("{} {what}", self.name());
        match &self.source {
            Source::File { file, .. } => {
                Diagnostic { file: file.clone(), line, rule: None, message }
            }
            _ => not_of_a_file(message),
        }
    }
}

/// A finding that begins as everything does that the program says of itself.
fn not_of_a_file(message: String) -> Diagnostic {
    Diagnostic { file: "tollgate".to_owned(), line: 0, rule: None, message }
}

/// The texts of a value that stands in one: with commas between, where there may be several.
fn split(setting: &Setting, text: &str) -> Vec<Item> {
    let item = |text: &str| Item { text: text.to_owned(), line: 0 };
    match setting.read {
        Read::One(_) => vec![item(text)],
        Read::Many(..) => text.split(',').map(str::trim).map(item).collect(),
    }
}

impl Configured {
    /// Reads everything there is.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(crate) fn read(
        file: Option<&Path>,
        variables: &[(OsString, OsString)],
        flags: &[Given],
    ) -> Result<Configured, Vec<Diagnostic>> {
        let path = file.map(Path::to_owned);
        let file = file.map(ConfigFile::read).unwrap_or_default();
        let mut wrong = file.wrong;
        let warnings = file.warnings.into_iter().chain(probably_meant(variables)).collect();
        let mut configured = Configured { warnings, file: path, ..Configured::default() };
        for setting in SETTINGS {
            let of = |all: &[Given]| {
                all.iter().find(|given| given.setting.name == setting.name).cloned()
            };
            let by_variable = by_variable(setting, variables, &mut wrong);
            let layers = [Given::by_default(setting), of(&file.given), by_variable, of(flags)];
            for given in layers.into_iter().flatten() {
                configured.put(given, &mut wrong);
            }
        }
        if file.holds_policy {
            configured.warnings.extend(configured.other_policy());
        }
        configured.warnings.extend(configured.probably_wrong());
        configured.check(&mut wrong);
        if wrong.is_empty() { Ok(configured) } else { Err(wrong) }
    }

    /// What is wrong with the values that a file gives.
    pub(super) fn wrong_in(given: Vec<Given>) -> Vec<Diagnostic> {
        Configured::of_file(given).err().unwrap_or_default()
    }

    /// What the values of a file come to, by themselves.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(super) fn of_file(given: Vec<Given>) -> Result<Configured, Vec<Diagnostic>> {
        let (mut configured, mut wrong) = (Configured::default(), Vec::new());
        given.into_iter().for_each(|given| configured.put(given, &mut wrong));
        configured.check_pairs(&mut wrong);
        if wrong.is_empty() { Ok(configured) } else { Err(wrong) }
    }

    /// The settings in the file that is watched, if that is the one that the policy is in.
    pub(crate) fn reread(&self) -> Option<Reread> {
        let file = self.file.as_deref().filter(|file| self.config.policy.as_deref() == Some(file));
        file.map(Reread::new)
    }

    /// The settings in a file that nobody watches, since the policy is in another.
    pub(crate) fn unwatched(&self) -> Option<Reread> {
        let file = self.file.as_deref().filter(|file| self.config.policy.as_deref() != Some(file));
        file.map(Reread::new)
    }

    /// What is in force of a setting.
    pub(super) fn find(&self, name: &str) -> Option<&Given> {
        self.in_force.iter().find(|given| given.setting.name == name)
    }

    /// That rules in the file are not in force, if they are not.
    fn other_policy(&self) -> Option<String> {
        let other =
            self.find("policy").filter(|given| !matches!(given.source, Source::File { .. }))?;
        let name = other.name();
        Some(format!("the rules in the configuration file are not in force, {name} names others"))
    }

    /// Takes a value instead of what there is.
    fn put(&mut self, given: Given, wrong: &mut Vec<Diagnostic>) {
        let setting = given.setting;
        let put = match setting.read {
            Read::One(put) => put,
            Read::Many(clear, put) => {
                clear(&mut self.config);
                put
            }
        };
        for item in &given.items {
            let done = one_of(setting.shape, &item.text)
                .map_or_else(|| put(&mut self.config, &item.text), Err);
            if let Err(right) = done {
                let what = format!("is {:?}, {right}", setting.shown(&item.text));
                wrong.push(given.wrong(item.line, &what));
            }
        }
        self.in_force.retain(|other| other.setting.name != setting.name);
        self.in_force.push(given);
    }

    /// What no setting can tell by itself.
    fn check(&self, wrong: &mut Vec<Diagnostic>) {
        let listens = [self.config.http, self.config.grpc, self.config.resp];
        if wrong.is_empty() && listens.iter().all(Option::is_none) {
            let message = "nothing to listen on: http, grpc and resp are off, give one an address";
            wrong.push(not_of_a_file(message.to_owned()));
        }
        self.check_tls_of_admin(wrong);
        self.check_pairs(wrong);
    }

    /// TLS for operators has no effect if they are answered where HTTP is in plaintext.
    fn check_tls_of_admin(&self, wrong: &mut Vec<Diagnostic>) {
        let listeners = self.config.tls_listeners.as_deref().unwrap_or_default();
        let Some(given) = self.find("tls.listeners") else { return };
        let (of_admin, of_http) = (TlsListener::Admin, TlsListener::Http);
        if self.config.admin == AdminListen::Same
            && listeners.contains(&of_admin)
            && !listeners.contains(&of_http)
        {
            let line = given.items.first().map_or(0, |item| item.line);
            let what = "names admin and not http, and operators are answered where http is; give \
                        them an address with admin (--admin 127.0.0.1:8082), or name http, too";
            wrong.push(given.wrong(line, what));
        }
    }

    /// Settings that mean nothing without another.
    fn check_pairs(&self, wrong: &mut Vec<Diagnostic>) {
        for (name, other) in [
            ("tls.cert", "tls.key"),
            ("tls.key", "tls.cert"),
            ("tls.client_ca", "tls.cert"),
            ("tls.listeners", "tls.cert"),
        ] {
            if let (Some(given), None) = (self.find(name), self.find(other)) {
                let line = given.items.first().map_or(0, |item| item.line);
                let flag = other.replace(['.', '_'], "-");
                let what = format!("is given without {other} (--{flag}), give both");
                wrong.push(given.wrong(line, &what));
            }
        }
        if let Some(given) = self.find("tls.listeners")
            && given.items.is_empty()
        {
            let what = "names no listener; leave out all of tls to speak plaintext everywhere";
            wrong.push(given.wrong(given.line(), what));
        }
        if let (Some(given), Some(_)) =
            (self.find("admin_token_write"), &self.config.admin_token_read)
            && self.config.admin_token_read == self.config.admin_token_write
        {
            let line = given.items.first().map_or(0, |item| item.line);
            wrong.push(
                given.wrong(line, "is the same as admin_token_read, each needs one of its own"),
            );
        }
        if let (Some(given), Some(_)) = (self.find("envoy_config"), self.find("policy")) {
            let line = given.items.first().map_or(0, |item| item.line);
            wrong.push(given.wrong(line, "is given beside policy (--policy), leave one out"));
        }
        if let (Some(given), Store::Redis(_)) = (self.find("snapshot"), &self.config.store) {
            let line = given.items.first().map_or(0, |item| item.line);
            let what = "is for state in memory, and the store is a Redis, which keeps its state \
                        itself; leave one out";
            wrong.push(given.wrong(line, what));
        }
    }
}

/// What would be right, where the text is not one of the words that are.
fn one_of(shape: Shape, text: &str) -> Option<String> {
    let Shape::Word(words) = shape else { return None };
    if words.contains(&text) {
        return None;
    }
    let meant = closest(text, words).map(|meant| format!(", did you mean {meant:?}?"));
    Some(format!("must be one of {}{}", words.join(", "), meant.unwrap_or_default()))
}

/// What the environment says of a setting. An empty variable says nothing, as a compose file may
/// pass one on that nobody has set.
fn by_variable(
    setting: &'static Setting,
    variables: &[(OsString, OsString)],
    wrong: &mut Vec<Diagnostic>,
) -> Option<Given> {
    let name = setting.variable();
    let find = |name: &str| {
        let value = variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        value.filter(|value| !value.is_empty())
    };
    let given = |name: &str, text: &str| Given {
        setting,
        items: split(setting, text),
        source: Source::Variable(name.to_owned()),
    };
    match find(&name).map(|value| value.to_str()) {
        Some(Some(text)) => Some(given(&name, text)),
        Some(None) => {
            wrong.push(not_of_a_file(format!("{name} is not UTF-8, write it in that encoding")));
            None
        }
        None if setting.name == "log.level" => {
            // Other programs read it too, and more can stand in it: what is not ours is left.
            let text = find("RUST_LOG")?.to_str()?;
            super::readers::log_level(text).is_ok().then(|| given("RUST_LOG", text))
        }
        None => None,
    }
}

/// Variables that nobody reads and that look as if somebody should. Others with our prefix are
/// none of our business: Kubernetes makes some for every service.
fn probably_meant(variables: &[(OsString, OsString)]) -> Vec<String> {
    let known: Vec<String> =
        SETTINGS.iter().map(Setting::variable).chain(["TOLLGATE_CONFIG".to_owned()]).collect();
    let names: Vec<&str> = known.iter().filter_map(|name| name.strip_prefix("TOLLGATE_")).collect();
    let theirs = variables.iter().filter_map(|(name, _)| name.to_str()?.strip_prefix("TOLLGATE_"));
    let strange = theirs.filter(|name| {
        !names.contains(name) && !name.starts_with("SERVICE_") && !name.starts_with("PORT")
    });
    let warn = |name: &str| {
        let meant = closest(name, &names)?;
        Some(printable(&format!("TOLLGATE_{name} is no setting, did you mean TOLLGATE_{meant}?")))
    };
    strange.filter_map(warn).collect()
}
