//! What a server says when it has started.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use tollgate::{KeyPart, Numbers, Policy, Rule};

use super::config::Store;
use crate::paint::{Paint, Tone, printable};

/// Rules of a policy that are named one by one.
const SHOWN_RULES: usize = 10;

pub(super) struct Banner<'a> {
    pub(super) http: Option<SocketAddr>,
    pub(super) grpc: Option<SocketAddr>,
    pub(super) resp: Option<SocketAddr>,
    pub(super) tls: bool,
    /// Whether clients must have a certificate.
    pub(super) known_clients: bool,
    pub(super) store: &'a Store,
    /// Whether state in memory is written when it stops.
    pub(super) kept: bool,
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
        let s = if self.tls { "s" } else { "" };
        if let Some(http) = self.http {
            writeln!(out, "  http      http{s}://{http}")?;
        }
        if let Some(grpc) = self.grpc {
            writeln!(out, "  grpc      {grpc}, Envoy's rate limit service")?;
        }
        if let Some(resp) = self.resp {
            writeln!(out, "  resp      redis{s}://{resp}")?;
        }
        if let Some(admin) = self.admin {
            writeln!(out, "  admin     http{s}://{admin}/admin/v1")?;
        }
        if let Some(page) = self.page.map(reached) {
            let more = if self.admin.is_some() { "" } else { ", of use with --admin-tokens FILE" };
            writeln!(out, "  page      http{s}://{page}/{more}")?;
        }
        match self.store {
            Store::Memory if self.kept => {
                writeln!(out, "  state     in memory, kept in a snapshot when it stops")?;
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
        for address in [self.http, self.grpc, self.resp].into_iter().flatten() {
            if !address.ip().is_loopback() && !self.known_clients {
                writeln!(
                    out,
                    "\nanybody who reaches {address} can ask: keep it behind a firewall"
                )?;
            }
        }
        out.flush()
    }

    fn write_what_to_try(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\ntry")?;
        let (s, tls) = if self.tls { ("s", " --tls") } else { ("", "") };
        if let Some(http) = self.http.map(reached) {
            writeln!(
                out,
                "  curl -i http{s}://{http}/v1/check -d '{{\"attributes\": {{\"user\": \"42\"}}}}'"
            )?;
            writeln!(out, "  curl http{s}://{http}/metrics")?;
        }
        if let Some(resp) = self.resp.map(reached) {
            let (host, port) = (resp.ip(), resp.port());
            writeln!(out, "  redis-cli{tls} -h {host} -p {port} TG.CHECK user 42")?;
        }
        Ok(())
    }

    fn write_rules(&self, out: &mut impl Write) -> io::Result<()> {
        for rule in self.policy.rules.iter().take(SHOWN_RULES) {
            writeln!(out, "            {}", printable(&line(rule)))?;
        }
        match self.policy.rules.len().saturating_sub(SHOWN_RULES) {
            0 => Ok(()),
            more => writeln!(out, "            and {more} more"),
        }
    }
}

fn line(rule: &Rule) -> String {
    let numbers = match &rule.numbers {
        Numbers::Limits(limits) => {
            limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        }
        _ => "unlimited".to_owned(),
    };
    let key: Vec<_> = rule.key.iter().map(part).collect();
    let of = if key.is_empty() { String::new() } else { format!(" for each {}", key.join(", ")) };
    let shadow = if rule.shadow { ", only reported" } else { "" };
    format!("{}: {numbers}{of}{shadow}", rule.name)
}

fn part(part: &KeyPart) -> String {
    match &part.default {
        Some(default) => format!("{} or {default:?}", part.attribute),
        None => part.attribute.clone(),
    }
}

/// Where it is reached from this machine.
fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}
