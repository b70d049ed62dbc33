//! The query of a URL: what is ours is taken out of it, and the rest is the client library's.

use percent_encoding::percent_decode_str;

use crate::error::StoreError;

const KNOWN: &str = "must be none but protocol; ca, cert and key for tls; db, user and pass for a unix socket; \
    sentinel_user and sentinel_pass for sentinels";

/// What the client library reads.
const PASSED_ON: [&str; 4] = ["protocol", "db", "user", "pass"];

/// Names and values as they are written.
pub(crate) struct UrlQuery<'a>(Vec<(&'a str, &'a str)>);

impl<'a> UrlQuery<'a> {
    /// The query of a URL, and what is before and after it.
    pub(crate) fn of(url: &'a str) -> (&'a str, UrlQuery<'a>, &'a str) {
        let (rest, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        (before, UrlQuery(pairs.collect()), fragment)
    }

    /// Takes out the value of `name`, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, StoreError> {
        let Some(at) = self.0.iter().position(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.remove(at);
        match percent_decode_str(value).decode_utf8() {
            Ok(value) => Ok(Some(value.into_owned())),
            Err(_) => Err(StoreError::Url(format!("{name} must be utf-8"))),
        }
    }

    /// What is left, with the `?`.
    pub(crate) fn rest(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        let pairs: Vec<String> = pairs.collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    /// What is left, if somebody knows what it means. It is not repeated: where a password was not
    /// escaped, it is a part of it.
    pub(crate) fn known(self) -> Result<String, StoreError> {
        if self.0.iter().any(|(name, _)| !PASSED_ON.contains(name)) {
            return Err(StoreError::Url(format!("what follows the ? {KNOWN}")));
        }
        Ok(self.rest())
    }
}
