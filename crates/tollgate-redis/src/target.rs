//! What a URL names: a server, the seeds of a Cluster, or Sentinels that know a server.

use std::sync::atomic::AtomicUsize;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::bounds::MAX_SEEDS;
use crate::error::StoreError;
use crate::query::UrlQuery;
use crate::sentinel::Sentinels;
use crate::tls::RedisTlsFiles;

const FORM: &str = "must be like redis://user:password@host:6379/0, rediss://… for tls, redis+unix:///path, \
    redis+cluster://host1:6379,host2:6379 or redis+sentinel://host1:26379,host2:26379/name/0";

/// What to connect to.
pub(crate) enum RedisTarget {
    Single(Box<ConnectionInfo>),
    /// Some nodes of a Cluster; the others are learnt from them.
    Cluster(Vec<ConnectionInfo>),
    Sentinel(Sentinels),
}

impl RedisTarget {
    pub(crate) fn read(url: &str) -> Result<RedisTarget, StoreError> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        match scheme.split_once('+') {
            Some((scheme, "cluster")) => {
                let seeds = SeedList::read(rest)?;
                Ok(RedisTarget::Cluster(seeds.connections(scheme, seeds.path)?))
            }
            Some((scheme, "sentinel")) => {
                RedisTarget::read_sentinels(scheme, &SeedList::read(rest)?)
            }
            _ => info(url).map(|info| RedisTarget::Single(Box::new(info))),
        }
    }

    fn read_sentinels(scheme: &str, seeds: &SeedList<'_>) -> Result<RedisTarget, StoreError> {
        let path = seeds.path.trim_matches('/');
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() {
            return Err(StoreError::Url(
                "must name what the sentinels watch, like redis+sentinel://host:26379/mymaster"
                    .to_owned(),
            ));
        }
        let with_port = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
            if has_port { host.to_owned() } else { format!("{host}:26379") }
        };
        let hosts: Vec<String> = seeds.hosts.iter().map(|host| with_port(host)).collect();
        let (_, mut query, fragment) = UrlQuery::of(seeds.query);
        let known_as = SentinelCredentials {
            user: query.take("sentinel_user")?,
            password: query.take("sentinel_pass")?,
        };
        let tail = format!("{}{fragment}", query.rest());
        let of = |host: &str| {
            info(&format!("{scheme}://{host}/{tail}")).map(|info| known_as.put_into(info))
        };
        let server = format!("{scheme}://{}{}/{database}{tail}", seeds.user, hosts[0]);
        Ok(RedisTarget::Sentinel(Sentinels {
            seeds: hosts.iter().map(|host| of(host)).collect::<Result<_, _>>()?,
            name: name.to_owned(),
            server: Box::new(info(&server)?),
            turn: AtomicUsize::new(0),
        }))
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> String {
        match self {
            RedisTarget::Single(info) => shown(info.addr()),
            RedisTarget::Cluster(seeds) => {
                let seeds: Vec<String> = seeds.iter().map(|seed| shown(seed.addr())).collect();
                seeds.join(",")
            }
            RedisTarget::Sentinel(sentinels) => sentinels.address(),
        }
    }
}

/// Whom the Sentinels know us as: they have users and passwords of their own.
struct SentinelCredentials {
    user: Option<String>,
    password: Option<String>,
}

impl SentinelCredentials {
    fn put_into(&self, info: ConnectionInfo) -> ConnectionInfo {
        let mut settings: RedisConnectionInfo = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        info.set_redis_settings(settings)
    }
}

/// The parts of a URL with several hosts.
struct SeedList<'a> {
    /// With the `@`.
    user: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    /// With the `?` or `#`.
    query: &'a str,
}

impl SeedList<'_> {
    fn read(rest: &str) -> Result<SeedList<'_>, StoreError> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (path, query) = tail.split_at(tail.find(['?', '#']).unwrap_or(tail.len()));
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        // It would all be taken for one password, and the hosts before the last would be lost.
        if user.trim_end_matches('@').contains('@') && user.contains(',') {
            return Err(StoreError::Url(
                "must have user and password once, before the first host, like \
                 redis+cluster://user:password@host1:6379,host2:6379; an @ in a password is %40"
                    .to_owned(),
            ));
        }
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.len() > MAX_SEEDS || hosts.iter().any(|host| host.is_empty()) {
            return Err(StoreError::Url(format!(
                "must have 1 to {MAX_SEEDS} hosts with commas between, like redis+cluster://host1:6379,host2:6379"
            )));
        }
        Ok(SeedList { user, hosts, path, query })
    }

    fn connections(&self, scheme: &str, path: &str) -> Result<Vec<ConnectionInfo>, StoreError> {
        let of = |host: &&str| info(&format!("{scheme}://{}{host}{path}{}", self.user, self.query));
        let all: Vec<ConnectionInfo> = self.hosts.iter().map(of).collect::<Result<_, _>>()?;
        if all.iter().any(|info| matches!(info.addr(), ConnectionAddr::Unix(_))) {
            return Err(StoreError::Url(FORM.to_owned()));
        }
        Ok(all)
    }
}

fn info(url: &str) -> Result<ConnectionInfo, StoreError> {
    let (before, mut query, fragment) = UrlQuery::of(url);
    let files = RedisTlsFiles::take_out_of(&mut query)?;
    let rest = query.rest();
    // The library's message may repeat a part of the URL, which may be the password.
    let info = format!("{before}{rest}{fragment}").into_connection_info();
    let info = info.map_err(|_| StoreError::Url(FORM.to_owned()))?;
    query.known()?;
    files.put_into(info)
}

pub(crate) fn shown(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}")
        }
        ConnectionAddr::Unix(path) => path.display().to_string(),
        _ => "the server".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_hosts_share_user_and_password() {
        let target =
            RedisTarget::read("redis+cluster://gate:p%40ss@a:7000,[::1]:7001,c?protocol=resp3");
        let Ok(RedisTarget::Cluster(seeds)) = target else { panic!("it is a cluster") };
        let addresses: Vec<String> = seeds.iter().map(|seed| shown(seed.addr())).collect();
        assert_eq!(addresses, ["a:7000", "::1:7001", "c:6379"]);
        assert!(seeds.iter().all(|seed| seed.redis_settings().password() == Some("p@ss")));
        assert!(seeds.iter().all(|seed| seed.redis_settings().username() == Some("gate")));
    }

    #[test]
    fn sentinels_are_asked_without_the_servers_password() {
        let target = RedisTarget::read("redis+sentinel://:secret@a,b:27000/mymaster/3");
        let Ok(RedisTarget::Sentinel(sentinels)) = target else { panic!("it is a sentinel") };
        let addresses: Vec<String> = sentinels.seeds.iter().map(|s| shown(s.addr())).collect();
        assert_eq!(addresses, ["a:26379", "b:27000"]);
        assert!(sentinels.seeds.iter().all(|seed| seed.redis_settings().password().is_none()));
        assert_eq!(sentinels.server.redis_settings().password(), Some("secret"));
        assert_eq!(
            (sentinels.name.as_str(), sentinels.server.redis_settings().db()),
            ("mymaster", 3)
        );
    }

    #[test]
    fn sentinels_have_a_user_and_a_password_of_their_own() {
        let url = "redis+sentinel://gate:secret@a/mymaster?sentinel_user=w&sentinel_pass=p%26%3Fw&protocol=resp3";
        let Ok(RedisTarget::Sentinel(sentinels)) = RedisTarget::read(url) else {
            panic!("it is a sentinel")
        };
        let seed = sentinels.seeds[0].redis_settings();
        assert_eq!((seed.username(), seed.password()), (Some("w"), Some("p&?w")));
        let server = sentinels.server.redis_settings();
        assert_eq!((server.username(), server.password()), (Some("gate"), Some("secret")));
    }

    #[test]
    fn what_nobody_understands_is_refused() {
        for query in ["timeout=5", "ca=/a.pem", "sentinel_pass=p", "cert=/a.pem", "ssl", "ca=%ff"] {
            let Err(StoreError::Url(what)) = RedisTarget::read(&format!("redis://a?{query}"))
            else {
                panic!("{query} means nothing here")
            };
            assert!(what.contains("must be"), "{what}");
        }
    }

    #[test]
    fn urls_that_name_nothing_are_refused_without_their_secrets() {
        for url in [
            "redis+cluster://",
            "redis+cluster://gate:s3cret@a,,b",
            "redis+cluster://gate:s3cret@a:port",
            "redis+unix+cluster:///s3cret",
            "http+cluster://gate:s3cret@a",
            "redis+sentinel://gate:s3cret@a",
            // Each host with a password, which would all be one.
            "redis+cluster://:s3cret@a:1,:s3cret@b:2",
            "redis+sentinel://gate:s3cret@a,gate:s3cret@b/main",
            "s3cret",
            // A password with a question mark that was not escaped.
            "redis://gate:1?s3cret@a",
        ] {
            let Err(StoreError::Url(what)) = RedisTarget::read(url) else {
                panic!("{url} is wrong")
            };
            assert!(!what.contains("s3cret") && what.contains("must"), "{what}");
        }
    }
}
