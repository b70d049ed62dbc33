//! Every setting of the server, once. Flags, variables, the file, the schema, `--print-config` and
//! the table in docs/server.md all come from this list: another setting is a row here and a field
//! of `Config`.

use tollgate::WhenFull;
use tollgate_server::ProxyHeaders;

use super::LogFormat;
use super::readers::{
    admin, brief, flag, header_attribute, host_name, interval, listen, log_level, network, path,
    secret, store, threads, time, tls_listeners, token, up_to, wait, whole,
};
use super::setting::{Setting, Shape};

const DIALECTS: &[&str] = &["draft-11", "draft-07", "draft-06", "x-epoch", "x-delta", "off"];
const VERBOSITIES: &[&str] = &["full", "minimal", "none"];
const FAMILIES: &[&str] = &["x-forwarded", "x-original", "x-original-url"];
const WHEN_FULL: &[&str] = &["evict", "deny_new", "allow_new"];
const FORMATS: &[&str] = &["text", "json"];

/// In the order in which they are shown.
pub(crate) static SETTINGS: &[Setting] = &[
    Setting::new(
        ("policy", "policy", "FILE"),
        Shape::Path,
        "What to enforce; read again whenever it changes, refused as a whole where it is wrong",
        |config, text| path(text).map(|file| config.policy = Some(file)),
    )
    .otherwise("the rules of the configuration file; without any, a built-in policy"),
    Setting::new(
        ("http", "http", "ADDRESS"),
        Shape::Text,
        "Where to listen for HTTP, or off",
        |config, text| listen(text).map(|at| config.http = at),
    )
    .default("127.0.0.1:8080"),
    Setting::new(
        ("grpc", "grpc", "ADDRESS"),
        Shape::Text,
        "Where to listen for Envoy's rate limit service, or off",
        |config, text| listen(text).map(|at| config.grpc = at),
    )
    .default("127.0.0.1:8081"),
    Setting::new(
        ("resp", "resp", "ADDRESS"),
        Shape::Text,
        "Where to listen for the Redis protocol, or off",
        |config, text| listen(text).map(|at| config.resp = at),
    )
    .default("127.0.0.1:6380"),
    Setting::new(
        ("resp_password", "resp-password", "PASSWORD"),
        Shape::Secret,
        "What clients of the Redis protocol must say first; better not on a command line",
        |config, text| secret(text).map(|password| config.resp_password = Some(password)),
    ),
    Setting::new(
        ("resp_threads", "resp-threads", "THREADS"),
        Shape::Whole,
        "How many threads of their own answer the Redis protocol; 0 for none",
        |config, text| threads(text).map(|threads| config.resp_threads = Some(threads)),
    )
    .otherwise("half the cores"),
    Setting::new(
        ("health", "health", "ADDRESS"),
        Shape::Text,
        "Where to answer /healthz and /readyz alone, always without TLS, for probes without a certificate; or off",
        |config, text| listen(text).map(|at| config.health = at),
    )
    .default("off"),
    Setting::new(
        ("admin", "admin", "ADDRESS"),
        Shape::Text,
        "Where operators are answered: same (as http), an address, or off",
        |config, text| admin(text).map(|at| config.admin = at),
    )
    .default("same"),
    Setting::new(
        ("admin_tokens", "admin-tokens", "FILE"),
        Shape::Path,
        "Who may operate it: lines of a name, read or write, and a token; read again when it changes",
        |config, text| path(text).map(|file| config.admin_tokens = Some(file)),
    ),
    Setting::new(
        ("admin_token_read", "admin-token-read", "TOKEN"),
        Shape::Secret,
        "A token of somebody who may look; better not on a command line",
        |config, text| token(text).map(|token| config.admin_token_read = Some(token)),
    ),
    Setting::new(
        ("admin_token_write", "admin-token-write", "TOKEN"),
        Shape::Secret,
        "A token of somebody who may change things; better not on a command line",
        |config, text| token(text).map(|token| config.admin_token_write = Some(token)),
    ),
    Setting::new(
        ("insecure_admin", "insecure-admin", "BOOL"),
        Shape::Flag,
        "Whether everybody on this machine may operate it, without a token",
        |config, text| flag(text).map(|insecure| config.insecure_admin = insecure),
    )
    .default("false"),
    Setting::new(
        ("allowed_hosts", "allowed-host", "NAME"),
        Shape::Texts,
        "The only host names under which to answer HTTP, beside IP addresses and localhost; /v1/authorize, /v1/ext_authz and health checks are answered under any",
        |config, text| host_name(text).map(|name| config.allowed_hosts.push(name)),
    )
    .otherwise("any; none for the dashboard and the admin API without a token")
    .many(|config| config.allowed_hosts.clear()),
    Setting::new(
        ("audit", "audit", "FILE"),
        Shape::Path,
        "Where every change by an operator is appended",
        |config, text| path(text).map(|file| config.audit = Some(file)),
    ),
    Setting::new(
        ("envoy_config", "envoy-config", "DIR"),
        Shape::Path,
        "A folder of Envoy's ratelimit files, to be enforced instead of a policy; read again whenever one changes",
        |config, text| path(text).map(|folder| config.envoy_config = Some(folder)),
    ),
    Setting::new(
        ("strict", "strict", "BOOL"),
        Shape::Flag,
        "Whether one wrong file rejects the whole Envoy folder, at the start and at every change, instead of that file alone",
        |config, text| flag(text).map(|strict| config.strict = strict),
    )
    .default("false"),
    Setting::new(
        ("postpaid", "postpaid", "BOOL"),
        Shape::Flag,
        "Whether Envoy's costs that are known afterwards are charged also where they are too much",
        |config, text| flag(text).map(|postpaid| config.postpaid = postpaid),
    )
    .default("false"),
    Setting::new(
        ("store", "store", "STORE"),
        Shape::Url,
        "Where state is kept: memory, or the URL of a Redis or Valkey that several servers share",
        |config, text| store(text).map(|store| config.store = store),
    )
    .default("memory"),
    Setting::new(
        ("store_timeout", "store-timeout", "TIME"),
        Shape::Text,
        "How long a decision waits for Redis at most, before it does what its rules say while Redis is away",
        |config, text| brief(text).map(|most| config.store_timeout = most),
    )
    .default("50ms"),
    Setting::new(
        ("nodes", "nodes", "SERVERS"),
        Shape::Whole,
        "How many servers share a Redis, at least: while it is unavailable, each has its part of the limits",
        |config, text| whole(text).map(|nodes| config.nodes = nodes.try_into().unwrap_or(u64::MAX)),
    )
    .default("1"),
    Setting::new(
        ("namespace", "namespace", "NAME"),
        Shape::Text,
        "Keeps state in Redis apart from that of other names",
        |config, text| {
            config.namespace = text.to_owned();
            Ok(())
        },
    ),
    Setting::new(
        ("snapshot", "snapshot", "FILE"),
        Shape::Path,
        "Where state in memory is written while the server runs and at the end, and read at the start",
        |config, text| path(text).map(|file| config.snapshot = Some(file)),
    ),
    Setting::new(
        ("snapshot_interval", "snapshot-interval", "TIME"),
        Shape::Text,
        "How long a changed state waits to be written to the snapshot; off: only when the server stops",
        |config, text| interval(text).map(|every| config.snapshot_interval = every),
    )
    .default("1m"),
    Setting::new(
        ("max_keys", "max-keys", "KEYS"),
        Shape::Whole,
        "How many keys to keep in memory, at most; with a Redis, while it is unavailable",
        |config, text| whole(text).map(|keys| config.max_keys = keys),
    )
    .default("1000000"),
    Setting::new(
        ("when_full", "when-full", "CHOICE"),
        Shape::Word(WHEN_FULL),
        "What becomes of a new key when so many are in use: the one closest to new makes room for it, it is denied, or it is allowed and not counted",
        |config, text| {
            config.when_full = match text {
                "deny_new" => WhenFull::DenyNewKeys,
                "allow_new" => WhenFull::AllowUncounted,
                _ => WhenFull::Evict,
            };
            Ok(())
        },
    )
    .default("evict"),
    Setting::new(
        ("headers", "headers", "DIALECT"),
        Shape::Word(DIALECTS),
        "The RateLimit fields of answers",
        |config, text| {
            text.parse().map(|dialect| config.headers = dialect).map_err(|wrong| format!("{wrong}"))
        },
    )
    .default("draft-11"),
    Setting::new(
        ("tell", "tell", "HOW_MUCH"),
        Shape::Word(VERBOSITIES),
        "How much clients are told; minimal is only when to try again",
        |config, text| {
            text.parse().map(|tell| config.tell = tell).map_err(|wrong| format!("{wrong}"))
        },
    )
    .default("full"),
    Setting::new(
        ("proxy_headers", "proxy-headers", "FAMILY"),
        Shape::Word(FAMILIES),
        "Which headers of a proxy say what its client asks for",
        |config, text| {
            config.proxy_headers = match text {
                "x-original" => ProxyHeaders::XOriginal,
                "x-original-url" => ProxyHeaders::XOriginalUrl,
                _ => ProxyHeaders::XForwarded,
            };
            Ok(())
        },
    )
    .default("x-forwarded"),
    Setting::new(
        ("trusted_proxies", "trusted-proxy", "NETWORK"),
        Shape::Texts,
        "Networks whose X-Forwarded-For is believed",
        |config, text| network(text).map(|network| config.trusted_proxies.push(network)),
    )
    .default("127.0.0.0/8,::1/128")
    .many(|config| config.trusted_proxies.clear()),
    Setting::new(
        ("attributes", "attribute", "NAME=HEADER"),
        Shape::Pairs,
        "Headers that a proxy hands on, as attributes",
        |config, text| header_attribute(text).map(|pair| config.attributes.push(pair)),
    )
    .many(|config| config.attributes.clear()),
    Setting::new(
        ("tls.cert", "tls-cert", "FILE"),
        Shape::Path,
        "The certificate chain, PEM; read again when it changes",
        |config, text| path(text).map(|file| config.tls_cert = Some(file)),
    ),
    Setting::new(
        ("tls.key", "tls-key", "FILE"),
        Shape::Path,
        "The private key of the certificate, PEM",
        |config, text| path(text).map(|file| config.tls_key = Some(file)),
    ),
    Setting::new(
        ("tls.client_ca", "tls-client-ca", "FILE"),
        Shape::Path,
        "Who signs the certificates that clients must show, PEM",
        |config, text| path(text).map(|file| config.tls_client_ca = Some(file)),
    )
    .otherwise("clients need none"),
    Setting::new(
        ("tls.listeners", "tls-listeners", "LISTENERS"),
        Shape::Texts,
        "The listeners that speak TLS, of http, grpc, resp and admin; the others speak plaintext",
        |config, text| {
            let all = config.tls_listeners.get_or_insert_default();
            tls_listeners(text).map(|listeners| all.extend(listeners))
        },
    )
    .otherwise("all of them")
    .many(|config| config.tls_listeners = Some(Vec::new())),
    Setting::new(
        ("bounds.connections", "max-connections", "CONNECTIONS"),
        Shape::Whole,
        "Connections of HTTP, of gRPC, and of operators where they have a port of their own, that are open at once, each; one more is turned away",
        |config, text| whole(text).map(|connections| config.max_connections = connections),
    )
    .default("10000"),
    Setting::new(
        ("bounds.resp_connections", "max-resp-connections", "CONNECTIONS"),
        Shape::Whole,
        "The same of the Redis protocol",
        |config, text| whole(text).map(|connections| config.max_resp_connections = connections),
    )
    .default("4096"),
    Setting::new(
        ("bounds.head", "max-head", "BYTES"),
        Shape::Whole,
        "The head of a request over HTTP",
        |config, text| up_to(text, 4096, 1 << 20).map(|most| config.bounds.head = most),
    )
    .default("65536"),
    Setting::new(
        ("bounds.body", "max-body", "BYTES"),
        Shape::Whole,
        "A body over HTTP",
        |config, text| up_to(text, 1024, 64 << 20).map(|most| config.bounds.body = most),
    )
    .default("1048576"),
    Setting::new(
        ("bounds.message", "max-message", "BYTES"),
        Shape::Whole,
        "A message over gRPC",
        |config, text| up_to(text, 1024, 4 << 20).map(|most| config.bounds.message = most),
    )
    .default("65536"),
    Setting::new(
        ("bounds.attributes", "max-attributes", "NUMBER"),
        Shape::Whole,
        "Attributes of a request",
        |config, text| up_to(text, 3, 256).map(|most| config.bounds.attributes = most),
    )
    .default("64"),
    Setting::new(
        ("bounds.key_length", "max-key-length", "BYTES"),
        Shape::Whole,
        "A key, and the value of an attribute",
        |config, text| up_to(text, 1, 64 << 10).map(|most| config.bounds.key_length = most),
    )
    .default("4096"),
    Setting::new(
        ("bounds.batch", "max-batch", "REQUESTS"),
        Shape::Whole,
        "Requests of one batch over HTTP",
        |config, text| up_to(text, 1, 4096).map(|most| config.bounds.batch = most),
    )
    .default("256"),
    Setting::new(
        ("bounds.descriptors", "max-descriptors", "NUMBER"),
        Shape::Whole,
        "Descriptors of one request of Envoy's",
        |config, text| up_to(text, 1, 1024).map(|most| config.bounds.descriptors = most),
    )
    .default("64"),
    Setting::new(
        ("bounds.pipeline", "max-pipeline", "COMMANDS"),
        Shape::Whole,
        "Commands of one connection of the Redis protocol that wait for a store in Redis at once",
        |config, text| up_to(text, 1, 4096).map(|most| config.bounds.pipeline = most),
    )
    .default("64"),
    Setting::new(
        ("bounds.first_byte", "max-first-byte", "TIME"),
        Shape::Text,
        "How long a new connection may say nothing",
        |config, text| wait(text).map(|most| config.bounds.first_byte = most),
    )
    .default("10s"),
    Setting::new(
        ("bounds.body_time", "max-body-time", "TIME"),
        Shape::Text,
        "How long a body, a message or the rest of a command may take",
        |config, text| wait(text).map(|most| config.bounds.body_time = most),
    )
    .default("10s"),
    Setting::new(
        ("bounds.idle", "max-idle", "TIME"),
        Shape::Text,
        "How long a connection may be idle; over HTTP, also how long a head may take",
        |config, text| wait(text).map(|most| config.bounds.idle = Some(most)),
    )
    .otherwise("1m over HTTP, 10m over the Redis protocol, 15m over gRPC"),
    Setting::new(
        ("bounds.drain", "drain", "TIME"),
        Shape::Text,
        "How long requests in flight have to end when the server stops",
        |config, text| time(text).map(|within| config.drain = within),
    )
    .default("10s"),
    Setting::new(
        ("metrics.list_names", "metrics-list-names", "BOOL"),
        Shape::Flag,
        "Whether /metrics names allow and deny lists; if not, their decisions are counted together as (lists)",
        |config, text| flag(text).map(|names| config.list_names = names),
    )
    .default("true"),
    Setting::new(
        ("log.format", "log-format", "FORMAT"),
        Shape::Word(FORMATS),
        "How the log on stderr is written",
        |config, text| {
            config.log.format = if text == "json" { LogFormat::Json } else { LogFormat::Text };
            Ok(())
        },
    )
    .default("text"),
    Setting::new(
        ("log.level", "log-level", "LEVEL"),
        Shape::Text,
        "How much is logged: error, warn, info, debug, trace or off, also by part as in info,tollgate_redis=debug",
        |config, text| log_level(text).map(|level| config.log.level = level),
    )
    .default("info"),
    Setting::new(
        ("log.keys", "log-keys", "BOOL"),
        Shape::Flag,
        "Whether the log may name clients: their keys and addresses",
        |config, text| flag(text).map(|keys| config.log.keys = keys),
    )
    .default("false"),
];

#[cfg(test)]
mod tests;
