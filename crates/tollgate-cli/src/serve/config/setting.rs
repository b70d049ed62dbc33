//! What a setting is: its names, its default, what it looks like, what reads it.

use clap::{Arg, ArgAction};

use super::Config;

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// In the file, below `[server]`; `tls.cert` is in `[server.tls]`.
    pub(super) name: &'static str,
    pub(super) flag: &'static str,
    /// What help calls its value.
    pub(super) value: &'static str,
    pub(super) about: &'static str,
    pub(super) shape: Shape,
    /// As text; for several, with commas between.
    pub(super) default: Option<&'static str>,
    /// What a page says where there is no default.
    pub(super) otherwise: &'static str,
    pub(super) read: Read,
}

/// What a value looks like in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// Text in which a password may stand.
    Url,
    /// A password.
    Secret,
    /// A file; in a file, as seen from that file's folder.
    Path,
    Word(&'static [&'static str]),
    Whole,
    Flag,
    Texts,
    /// A table of texts; elsewhere `name=text`.
    Pairs,
}

/// Puts a text into the configuration, or says what would be right.
pub(super) type Put = fn(&mut Config, &str) -> Result<(), String>;

/// How a value is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    One(Put),
    /// Forget what there is, then add one by one.
    Many(fn(&mut Config), Put),
}

impl Setting {
    pub(super) const fn new(
        (name, flag, value): (&'static str, &'static str, &'static str),
        shape: Shape,
        about: &'static str,
        put: Put,
    ) -> Setting {
        let (default, otherwise, read) = (None, "none", Read::One(put));
        Setting { name, flag, value, about, shape, default, otherwise, read }
    }

    pub(super) const fn default(mut self, default: &'static str) -> Setting {
        self.default = Some(default);
        self
    }

    pub(super) const fn otherwise(mut self, otherwise: &'static str) -> Setting {
        self.otherwise = otherwise;
        self
    }

    /// Of several values, each of which is put to the others; `clear` forgets those of a default.
    pub(super) const fn many(mut self, clear: fn(&mut Config)) -> Setting {
        if let Read::One(put) = self.read {
            self.read = Read::Many(clear, put);
        }
        self
    }

    /// The environment variable: `TOLLGATE_TLS_CERT`.
    pub(super) fn variable(&self) -> String {
        format!("TOLLGATE_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// What the parser of arguments calls it.
    pub(crate) fn id(&self) -> &'static str {
        self.name
    }

    /// The flag.
    pub(crate) fn argument(&self) -> Arg {
        let again = if let Read::Many(..) = self.read { ", can be given again" } else { "" };
        let words = match self.shape {
            Shape::Word(words) => format!(": {}", words.join(", ")),
            _ => String::new(),
        };
        let or = self.default.unwrap_or(self.otherwise);
        let about = format!("{}{words}{again} [default: {or}]", self.about);
        let argument = Arg::new(self.id()).long(self.flag).value_name(self.value).help(about);
        match (self.read, self.shape) {
            (Read::Many(..), _) => argument.action(ArgAction::Append),
            // Also without a value.
            (_, Shape::Flag) => {
                argument.num_args(0..=1).require_equals(true).default_missing_value("true")
            }
            _ => argument,
        }
    }

    /// A value as it may be shown.
    pub(super) fn shown(&self, text: &str) -> String {
        match self.shape {
            Shape::Url => masked(text),
            Shape::Secret => "***".to_owned(),
            _ => text.to_owned(),
        }
    }
}

/// A URL without its secrets; where it cannot be told which part they are in, without any part.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url == "memory" { url.to_owned() } else { "***".to_owned() };
    };
    let (address, query) = match rest.split_once('?') {
        Some((_, query)) if query.contains('@') => return format!("{scheme}://***"),
        // That of a socket has its password here.
        Some((address, _)) => (address, "?***"),
        None => (rest, ""),
    };
    let Some((user, host)) = address.rsplit_once('@') else {
        return format!("{scheme}://{address}{query}");
    };
    // Of several hosts each with a password, or of one password with hosts' commas in it.
    if user.contains('@') && user.contains(',') {
        return format!("{scheme}://***");
    }
    match user.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{host}{query}"),
        None => format!("{scheme}://***@{host}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_shown() {
        for (url, shown) in [
            ("memory", "memory"),
            ("s3cret", "***"),
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://gate:s3cret@host:6379/0", "redis://gate:***@host:6379/0"),
            ("redis://:s3cret@host", "redis://:***@host"),
            ("redis://s3cret@host", "redis://***@host"),
            ("redis://gate:s3c/s3cret@s3cret@host", "redis://gate:***@host"),
            ("redis://gate:s3c?s3cret@host", "redis://***"),
            ("redis+cluster://gate:s3cret@a,b?protocol=resp3", "redis+cluster://gate:***@a,b?***"),
            ("redis+cluster://:s3,cret@a:1,b:2", "redis+cluster://:***@a:1,b:2"),
            ("redis+cluster://:s3cret@a:1,:s3cret@b:2", "redis+cluster://***"),
            ("redis+cluster://gate:s3@s3,cret@b:2", "redis+cluster://***"),
            ("redis+unix:///run/redis?pass=s3cret", "redis+unix:///run/redis?***"),
            ("redis+unix:///run/redis?pass=s3cret@s3cret", "redis+unix://***"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
