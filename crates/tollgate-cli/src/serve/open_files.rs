//! The limit of open files of this process: each connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors for everything that is no connection of a client: listeners, threads, files and
/// connections to a store.
const OTHER_FILES: u64 = 256;

/// The limits of a process: the one that counts, and the one up to which it may be raised. `None`
/// for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileLimits {
    soft: Option<u64>,
    hard: Option<u64>,
}

/// Raises the limit of open files to what this number of connections needs, and warns if that is
/// not possible: a connection beyond the limit waits, and is not told why.
pub(super) fn raise_limit(connections: usize) {
    let Rlimit { current: soft, maximum: hard } = getrlimit(Resource::Nofile);
    let limits = FileLimits { soft, hard };
    let needed = needed(connections);
    let mut reached = limits;
    if let Some(raised) = raised(limits, needed) {
        let soft = Some(raised);
        match setrlimit(Resource::Nofile, Rlimit { current: soft, maximum: hard }) {
            Ok(()) => {
                reached.soft = soft;
                tracing::debug!(from = limits.soft, to = raised, "raised the limit of open files");
            }
            Err(error) => {
                tracing::warn!(%error, to = raised, "cannot raise the limit of open files")
            }
        }
    }
    if let Some(limit) = reached.soft.filter(|limit| *limit < needed) {
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is lower than the bounds of connections need: clients beyond \
             it get no answer; raise it (ulimit -n, LimitNOFILE=), or lower bounds.connections and \
             bounds.resp_connections"
        );
    }
}

fn needed(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES)
}

/// The soft limit to set, if it is lower than needed and may be raised.
fn raised(limits: FileLimits, needed: u64) -> Option<u64> {
    let soft = limits.soft.filter(|soft| *soft < needed)?;
    let possible = limits.hard.map_or(needed, |hard| hard.min(needed));
    (possible > soft).then_some(possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_is_raised_to_what_is_needed_and_never_beyond_the_hard_limit() {
        for (soft, hard, expected) in [
            (Some(1024), Some(1_048_576), Some(24_352)),
            (Some(1024), None, Some(24_352)),
            (Some(1024), Some(4096), Some(4096)),
            (Some(4096), Some(4096), None),
            (Some(65_536), Some(65_536), None),
            (None, None, None),
        ] {
            assert_eq!(raised(FileLimits { soft, hard }, needed(24_096)), expected, "{soft:?}");
        }
        assert_eq!(needed(usize::MAX), u64::MAX);
    }
}
