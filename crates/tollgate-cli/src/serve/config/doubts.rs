//! Settings that are legal together and probably not meant.

use tollgate_server::AdminListen;

use super::layers::Configured;

/// What the server tells of a proxy's client by itself.
const KNOWN: [(&str, &str); 5] = [
    ("ip", "the client's address as trusted proxies tell it"),
    ("method", "what the proxy's headers say"),
    ("path", "what the proxy's headers say"),
    ("host", "what the proxy's headers say"),
    ("scheme", "what the proxy's headers say"),
];

impl Configured {
    pub(super) fn probably_wrong(&self) -> Vec<String> {
        let doubts = self.nobody_operates().into_iter().chain(self.strict_without_folder());
        doubts.chain(self.interval_without_snapshot()).chain(self.replaced_attributes()).collect()
    }

    /// `snapshot_interval` is for a snapshot that there is not.
    fn interval_without_snapshot(&self) -> Option<String> {
        let given = self.find("snapshot_interval").filter(|given| !given.is_default())?;
        self.config
            .snapshot
            .is_none()
            .then(|| format!("{} does nothing without a snapshot (--snapshot FILE)", given.name()))
    }

    /// `strict` is for a folder that there is not.
    fn strict_without_folder(&self) -> Option<String> {
        let config = &self.config;
        let given = self.find("strict").filter(|_| config.strict)?;
        (config.envoy_config.is_none() || config.policy.is_some()).then(|| {
            format!("{} does nothing without an Envoy folder (--envoy-config DIR)", given.name())
        })
    }

    /// Operators have tokens, and nowhere to show them.
    fn nobody_operates(&self) -> Option<String> {
        let config = &self.config;
        let named = ["admin_tokens", "admin_token_read", "admin_token_write"];
        let given = named.iter().find_map(|name| self.find(name));
        let given =
            given.or_else(|| self.find("insecure_admin").filter(|_| config.insecure_admin))?;
        let name = given.name();
        match config.admin {
            AdminListen::Same if config.http.is_none() => Some(format!(
                "{name} is of no use: operators are answered where http is, which is off; give them \
                 an address with admin (--admin 127.0.0.1:8082)"
            )),
            AdminListen::Off => {
                Some(format!("{name} is of no use: admin is off, and no operator is answered"))
            }
            _ => None,
        }
    }

    /// Headers that stand in for what is known better.
    fn replaced_attributes(&self) -> Vec<String> {
        let Some(given) = self.find("attributes") else { return Vec::new() };
        let name = given.name();
        let replaced = |(attribute, header): &(String, http::HeaderName)| {
            let (_, known) = KNOWN.iter().find(|(known, _)| known == attribute)?;
            Some(format!(
                "{name}: {attribute}={header} replaces {attribute}, which is {known}: clients that \
                 send {header} choose it, unless the proxy sets it"
            ))
        };
        self.config.attributes.iter().filter_map(replaced).collect()
    }
}
