//! What the server says while it runs: on stderr, so that what it prints can be read by itself.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use super::config::{Log, LogFormat};

/// Starts the log. Where somebody else has started one, that is used.
pub(super) fn start(log: &Log) {
    let writer = fmt::layer().with_writer(std::io::stderr);
    let registry = registry().with(log.level.clone());
    let _ = match log.format {
        LogFormat::Text => registry.with(writer.with_target(false).with_ansi(is_seen())).try_init(),
        LogFormat::Json => registry.with(writer.json().flatten_event(true)).try_init(),
    };
}

/// Whether colours would be seen.
fn is_seen() -> bool {
    use std::io::IsTerminal;
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stderr().is_terminal()
}
