//! From texts to values. What is wrong is said as what would be right: `must be …`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use tollgate_redis::{RedisStore, StoreError};
use tollgate_server::{AdminListen, AdminRole, AdminTokens, HostName, HostNameError, TlsListener};
use tollgate_tower::ClientIp;
use tracing_subscriber::filter::Targets;

use super::Store;
use crate::duration;

/// An address, or nowhere.
pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    match text {
        "off" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| {
            "must be an address and a port, such as 127.0.0.1:8080 or [::]:8080, or off".into()
        }),
    }
}

pub(super) fn admin(text: &str) -> Result<AdminListen, String> {
    match text {
        "off" => Ok(AdminListen::Off),
        "same" => Ok(AdminListen::Same),
        _ => text.parse().map(AdminListen::At).map_err(|_| {
            "must be same, off, or an address and a port, such as 127.0.0.1:8082".to_owned()
        }),
    }
}

/// Listeners that speak TLS, with commas between.
pub(super) fn tls_listeners(text: &str) -> Result<Vec<TlsListener>, String> {
    let listener = |name: &str| match name.trim() {
        "http" => Ok(TlsListener::Http),
        "grpc" => Ok(TlsListener::Grpc),
        "resp" => Ok(TlsListener::Resp),
        "admin" => Ok(TlsListener::Admin),
        _ => Err("must be http, grpc, resp or admin, several with commas between".to_owned()),
    };
    text.split(',').map(listener).collect()
}

/// A name under which the server may be asked.
pub(super) fn host_name(text: &str) -> Result<HostName, String> {
    text.parse().map_err(|wrong: HostNameError| wrong.to_string())
}

pub(super) fn secret(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A token of an operator, as the server takes them.
pub(super) fn token(text: &str) -> Result<String, String> {
    match AdminTokens::new().add("given", AdminRole::Read, text) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => {
            Err("must have 16 to 256 printable ASCII characters, as from: openssl rand -hex 24"
                .to_owned())
        }
    }
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("must name a file".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// A number of something of which there must be some.
pub(super) fn whole(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("must be a whole number from 1 to {}", usize::MAX))
}

/// A number within bounds that the server can bear.
pub(super) fn up_to(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

pub(super) fn threads(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "must be a whole number, 0 for none".to_owned())
}

/// A time that somebody may wait for.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(60 * 60);
    let time = duration::parse(text).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| "must be a time such as 500ms, 10s or 2m, an hour at most".to_owned())
}

/// How long every decision may be kept waiting.
pub(super) fn brief(text: &str) -> Result<Duration, String> {
    let within = Duration::from_millis(1)..=Duration::from_secs(10);
    let brief = duration::parse(text).ok().filter(|time| within.contains(time));
    brief.ok_or_else(|| "must be a time such as 50ms or 1s, from 1ms to 10s".to_owned())
}

/// How long clients may keep the server waiting: some time, or none could ask.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    let long_enough = time(text).ok().filter(|time| *time >= Duration::from_millis(100));
    long_enough
        .ok_or_else(|| "must be a time such as 500ms, 10s or 2m, from 100ms to 1h".to_owned())
}

/// How often something is done; `None` for never.
pub(super) fn interval(text: &str) -> Result<Option<Duration>, String> {
    if ["off", "0", "0s"].contains(&text) {
        return Ok(None);
    }
    let right = "must be off, or a time such as 10s or 5m, from 100ms to 1h";
    wait(text).map(Some).map_err(|_| right.to_owned())
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

pub(super) fn store(text: &str) -> Result<Store, String> {
    match text.split_once("://") {
        None if text == "memory" => Ok(Store::Memory),
        // Calls nobody: only what is wrong with the URL is found.
        Some((scheme, _)) if scheme.starts_with("redis") => match RedisStore::open(text) {
            Ok(_) => Ok(Store::Redis(text.to_owned())),
            Err(StoreError::Url(right)) => Err(right),
            Err(error) => Err(format!("which cannot be used: {error}")),
        },
        _ => Err("must be memory, or a URL such as redis://127.0.0.1:6379, rediss://host, \
                  redis+cluster://host1,host2 or redis+sentinel://host/name"
            .to_owned()),
    }
}

pub(super) fn header_attribute(text: &str) -> Result<(String, HeaderName), String> {
    let right = "must be an attribute and a header, such as user=x-user-id";
    let (attribute, header) = text.split_once('=').ok_or(right)?;
    let header = HeaderName::from_str(header).map_err(|_| right)?;
    if attribute.is_empty() { Err(right.to_owned()) } else { Ok((attribute.to_owned(), header)) }
}

/// A network, as the reader of forwarding headers knows them.
pub(super) fn network(text: &str) -> Result<String, String> {
    let known = ClientIp::x_forwarded_for([text]);
    known.map(|_| text.to_owned()).map_err(|_| {
        "must be a network or an address, such as 10.0.0.0/8, ::1/128 or 192.0.2.7".to_owned()
    })
}

/// A level, or a level for each part of the program.
pub(super) fn log_level(text: &str) -> Result<Targets, String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let right = "must be error, warn, info, debug, trace or off, also by part as in \
                 info,tollgate_redis=debug";
    // The parser takes any single word for the name of a part.
    let is_level = |part: &str| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level).trim();
        LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known))
    };
    let parsed = if text.split(',').all(is_level) { text.parse().ok() } else { None };
    parsed.ok_or_else(|| right.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_off_is_nowhere() {
        assert_eq!(listen("off"), Ok(None));
        assert_eq!(listen("[::1]:9"), Ok(Some("[::1]:9".parse().unwrap())));
        for wrong in ["", "8080", "localhost:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(listen(wrong).unwrap_err().contains("127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn tls_listeners_are_named_one_by_one_or_with_commas() {
        assert_eq!(tls_listeners("admin"), Ok(vec![TlsListener::Admin]));
        let two = Ok(vec![TlsListener::Http, TlsListener::Grpc]);
        assert_eq!(tls_listeners("http, grpc"), two);
        for wrong in ["", "all", "http,", "https", "health"] {
            assert!(tls_listeners(wrong).unwrap_err().contains("http, grpc, resp or admin"));
        }
    }

    #[test]
    fn a_host_name_is_a_name_alone() {
        assert!(host_name("Tollgate.example").is_ok());
        for wrong in ["", "https://tollgate.example", "tollgate.example:8080", "*"] {
            assert!(host_name(wrong).unwrap_err().contains("without scheme, port"), "{wrong}");
        }
    }

    #[test]
    fn a_store_is_memory_or_a_url_of_redis() {
        assert!(matches!(store("memory"), Ok(Store::Memory)));
        let url = "redis+cluster://a:1,b:2";
        assert!(matches!(store(url), Ok(Store::Redis(of)) if of == url));
        for wrong in ["", "redis", "localhost:6379", "http://localhost"] {
            let error = store(wrong).err().unwrap();
            assert!(error.contains("redis://127.0.0.1:6379"), "{wrong}");
        }
    }

    #[test]
    fn a_url_that_nobody_could_connect_to_is_refused_without_its_password() {
        for wrong in ["redis://:s3cret@x:bad", "redis://", "redis://:s3cret@h?timeot=5"] {
            let error = store(wrong).err().unwrap_or_else(|| panic!("{wrong} is right"));
            assert!(error.contains("must") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        assert_eq!(token("0123456789abcdef"), Ok("0123456789abcdef".to_owned()));
        for wrong in ["", "hunter2", "with a blank in it", &"x".repeat(257)] {
            assert!(token(wrong).unwrap_err().contains("16 to 256"), "{wrong}");
        }
    }

    #[test]
    fn attributes_need_a_name_and_a_header() {
        let user = header_attribute("user=X-User-Id").unwrap();
        assert_eq!((user.0.as_str(), user.1.as_str()), ("user", "x-user-id"));
        for wrong in ["user", "user=", "=x-user", "user=x user", "user=ü"] {
            assert!(header_attribute(wrong).unwrap_err().contains("user=x-user-id"), "{wrong}");
        }
    }

    #[test]
    fn bounds_are_within_what_the_server_can_bear() {
        assert_eq!((up_to("3", 3, 9), up_to("9", 3, 9)), (Ok(3), Ok(9)));
        for wrong in ["2", "10", "-1", "", "many", "18446744073709551616"] {
            assert!(up_to(wrong, 3, 9).unwrap_err().contains("from 3 to 9"), "{wrong}");
        }
        assert_eq!(brief("1ms"), Ok(Duration::from_millis(1)));
        for wrong in ["0s", "999us", "11s", "soon", ""] {
            assert!(brief(wrong).unwrap_err().contains("from 1ms to 10s"), "{wrong}");
        }
        assert_eq!(wait("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["0s", "99ms", "2h", "soon", ""] {
            assert!(wait(wrong).unwrap_err().contains("from 100ms to 1h"), "{wrong}");
        }
    }

    #[test]
    fn an_interval_is_a_time_or_off() {
        assert_eq!(interval("90s"), Ok(Some(Duration::from_secs(90))));
        for never in ["off", "0", "0s"] {
            assert_eq!(interval(never), Ok(None));
        }
        for wrong in ["", "1ms", "2h", "-1s", "often"] {
            assert!(interval(wrong).unwrap_err().contains("from 100ms to 1h"), "{wrong}");
        }
    }

    #[test]
    fn a_level_is_one_or_one_for_each_part() {
        for right in ["info", "OFF", "warn,tollgate_redis=debug", "tollgate_server=trace"] {
            assert!(log_level(right).is_ok(), "{right}");
        }
        for wrong in ["", "verbose", "tollgate_redis", "tollgate_redis=loud", "info,"] {
            assert!(log_level(wrong).unwrap_err().contains("must be error"), "{wrong}");
        }
    }
}
