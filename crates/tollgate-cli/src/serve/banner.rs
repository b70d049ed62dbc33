//! What a server says when it has started.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tollgate::{KeyAttribute, ListEntry, Policy, Rule, RuleLimits};
use tollgate_server::{Tls, TlsListener};

use super::config::Store;
use super::sample;
use crate::paint::{Paint, Tone, printable};
use crate::{duration, words};

/// Rules of a policy that are named one by one, and names of lists and tiers.
const SHOWN_RULES: usize = 10;

pub(super) struct Banner<'a> {
    pub(super) http: Option<SocketAddr>,
    pub(super) grpc: Option<SocketAddr>,
    pub(super) resp: Option<SocketAddr>,
    /// Whether clients of the Redis protocol must say one.
    pub(super) password: bool,
    /// The listener for health checks alone.
    pub(super) health: Option<SocketAddr>,
    pub(super) tls: Option<Tls>,
    /// Whether clients must have a certificate.
    pub(super) known_clients: bool,
    pub(super) store: &'a Store,
    /// `true` if state in memory is written when it stops.
    pub(super) kept: bool,
    /// How often it is written while the server runs.
    pub(super) snapshot_interval: Option<Duration>,
    /// Where operators are answered, if there are any.
    pub(super) admin: Option<SocketAddr>,
    /// Where people look at it.
    pub(super) page: Option<SocketAddr>,
    pub(super) policy: &'a Policy,
    /// Where the policy is from, unless it is built in.
    pub(super) file: Option<&'a Path>,
}

impl Banner<'_> {
    pub(super) fn write(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        let title = paint.text(Tone::Good, "tollgate is listening");
        writeln!(out, "{title}")?;
        let s = self.s(TlsListener::Http);
        if let Some(http) = self.http {
            writeln!(out, "  http      http{s}://{http}")?;
        }
        if let Some(grpc) = self.grpc {
            writeln!(out, "  grpc      {grpc}, Envoy's rate limit service")?;
        }
        if let Some(resp) = self.resp {
            writeln!(out, "  resp      redis{}://{resp}", self.s(TlsListener::Resp))?;
        }
        if let Some(health) = self.health {
            writeln!(out, "  health    http://{health}/readyz")?;
        }
        let s = self.s(self.listener_of_operators());
        if let Some(admin) = self.admin {
            writeln!(out, "  admin     http{s}://{admin}/admin/v1")?;
        }
        if let Some(page) = self.page.map(reached) {
            let more = if self.admin.is_some() { "" } else { ", of use with --admin-tokens FILE" };
            writeln!(out, "  page      http{s}://{page}/{more}")?;
        }
        match self.store {
            Store::Memory if self.kept => {
                let interval = self.snapshot_interval.map(duration::human);
                let often = interval.map_or(String::new(), |every| format!("every {every} and "));
                writeln!(out, "  state     in memory, written to a snapshot {often}when it stops")?;
            }
            Store::Memory => writeln!(out, "  state     in memory, gone when it stops")?,
            Store::Redis(_) => writeln!(out, "  state     in redis, shared by all that use it")?,
        }
        match self.file {
            Some(file) => {
                let file = printable(&file.display().to_string());
                writeln!(out, "  policy    {file}, read again whenever it changes")?;
            }
            None => writeln!(out, "  policy    built in, give your own with --policy FILE")?,
        }
        self.write_rules(out)?;
        self.write_what_to_try(out)?;
        for (listener, address) in [
            (TlsListener::Http, self.http),
            (TlsListener::Grpc, self.grpc),
            (TlsListener::Resp, self.resp),
        ] {
            let Some(address) = address else { continue };
            let knows_clients = self.known_clients && self.speaks_tls(listener);
            if !address.ip().is_loopback() && !knows_clients {
                writeln!(
                    out,
                    "\nanybody who reaches {address} can ask: keep it behind a firewall"
                )?;
            }
        }
        out.flush()
    }

    fn speaks_tls(&self, listener: TlsListener) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_on(listener))
    }

    /// The end of a scheme: `s` for TLS.
    fn s(&self, listener: TlsListener) -> &'static str {
        if self.speaks_tls(listener) { "s" } else { "" }
    }

    fn listener_of_operators(&self) -> TlsListener {
        if self.page == self.http { TlsListener::Http } else { TlsListener::Admin }
    }

    /// The listeners with TLS, as in `http,grpc`; `None` without any.
    fn names_with_tls(&self) -> Option<String> {
        let own_admin = self.page.filter(|page| Some(*page) != self.http);
        let names: Vec<&str> = [
            (TlsListener::Http, self.http, "http"),
            (TlsListener::Grpc, self.grpc, "grpc"),
            (TlsListener::Resp, self.resp, "resp"),
            (TlsListener::Admin, own_admin, "admin"),
        ]
        .into_iter()
        .filter(|(listener, address, _)| address.is_some() && self.speaks_tls(*listener))
        .map(|(_, _, name)| name)
        .collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    fn write_what_to_try(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\ntry")?;
        let s = self.s(TlsListener::Http);
        let sample = sample::request(self.policy);
        if let Some(http) = self.http.map(reached) {
            let text = |text: &str| serde_json::Value::from(text).to_string();
            let pair =
                |(name, value): &(String, String)| format!("{}: {}", text(name), text(value));
            let attributes = sample.iter().map(pair).collect::<Vec<_>>().join(", ");
            let body = for_a_shell(&format!("{{\"attributes\": {{{attributes}}}}}"));
            writeln!(out, "  curl -i http{s}://{http}/v1/check -d {body}")?;
            writeln!(out, "  curl http{s}://{http}/metrics")?;
        }
        if let Some(resp) = self.resp.map(reached) {
            let (host, port) = (resp.ip(), resp.port());
            let tls = if self.speaks_tls(TlsListener::Resp) { " --tls" } else { "" };
            let password = if self.password { " -a PASSWORD" } else { "" };
            let words = sample.iter().flat_map(|(name, value)| [name, value]);
            let words = words.map(|word| for_a_shell(word)).collect::<Vec<_>>().join(" ");
            writeln!(out, "  redis-cli{tls} -h {host} -p {port}{password} TG.CHECK {words}")?;
        }
        Ok(())
    }

    fn write_rules(&self, out: &mut impl Write) -> io::Result<()> {
        for rule in self.policy.rules.iter().take(SHOWN_RULES) {
            writeln!(out, "            {}", printable(&line(rule)))?;
        }
        if let more @ 1.. = self.policy.rules.len().saturating_sub(SHOWN_RULES) {
            writeln!(out, "            and {more} more")?;
        }
        let own = self.policy.rules.iter().flat_map(|rule| rule.tiers.keys());
        let tiers: BTreeSet<&str> =
            self.policy.tiers.keys().chain(own).map(String::as_str).collect();
        let of = |lists: &'_ [ListEntry]| lists.iter().map(|list| list.name.clone()).collect();
        for (what, names) in [
            ("tiers", tiers.into_iter().map(str::to_owned).collect::<Vec<_>>()),
            ("allow lists", of(&self.policy.allow)),
            ("deny lists", of(&self.policy.deny)),
        ] {
            if !names.is_empty() {
                writeln!(out, "            {what}: {}", printable(&few(&names)))?;
            }
        }
        Ok(())
    }

    /// The same for programs.
    pub(super) fn log(&self) {
        let text = |address: Option<SocketAddr>| address.map(tracing::field::display);
        let store = if let Store::Memory = self.store { "memory" } else { "redis" };
        let file = self.file.map(|file| file.display().to_string());
        tracing::info!(
            http = text(self.http),
            grpc = text(self.grpc),
            resp = text(self.resp),
            admin = text(self.admin),
            health = text(self.health),
            tls = self.names_with_tls(),
            store,
            policy = file.as_deref(),
            rules = self.policy.rules.len(),
            version = env!("CARGO_PKG_VERSION"),
            "listening"
        );
    }
}

/// The first of some names.
fn few(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN_RULES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN_RULES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A word as a shell takes it, whatever is in it.
fn for_a_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@%+=-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", printable(word).replace('\'', r"'\''"))
}

fn line(rule: &Rule) -> String {
    let numbers = match &rule.limits {
        RuleLimits::All(limits) => {
            limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        }
        _ => "unlimited".to_owned(),
    };
    let key: Vec<_> = rule.key.iter().map(part).collect();
    let of = if key.is_empty() { String::new() } else { format!(" for each {}", key.join(", ")) };
    let block = match &rule.block {
        Some(block) => format!(", blocked for {}", words::block(Some(block))),
        None => String::new(),
    };
    let shadow = if rule.shadow { ", only reported" } else { "" };
    format!("{}: {numbers}{of}{block}{shadow}", rule.name)
}

fn part(part: &KeyAttribute) -> String {
    let attribute = words::attribute(part);
    match &part.default {
        Some(default) => format!("{attribute} or {default:?}"),
        None => attribute,
    }
}

/// Where it is reached from this machine.
pub(crate) fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}
