//! What is counted, in Prometheus' text format. No label has a value that clients choose.

mod rules;
mod snapshots;

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{EnvoyFolder, RejectedFile};
use tollgate_redis::{FallbackCounts, Histogram, LeaseStats};

use crate::app::App;
use crate::bounds::{BOUNDS, Bound, MAX_REASON, MAX_REJECTED_FILES};
use crate::http::cut_to;
use crate::metrics::{Connections, TRANSPORTS, Transport};

/// All that is counted.
pub(crate) fn text(app: &App, holds: usize) -> String {
    let mut text = String::with_capacity(16 << 10);
    rules::write(&mut text, app);
    write_latency(&mut text, app);
    write_store(&mut text, app);
    write_policy(&mut text, app);
    write_certificates(&mut text, app);
    write_connections(&mut text, app);
    write_over(&mut text, app);
    snapshots::write_snapshots(&mut text, &app.metrics.snapshots);
    let metrics = &app.metrics;
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let holds = u64::try_from(holds).unwrap_or(u64::MAX);
    for (name, help, value) in [
        ("holds", "Reservations that are open now.", holds),
        (
            "holds_refused_total",
            "Reservations refused, too many were open.",
            get(&metrics.holds_refused),
        ),
        (
            "bad_requests_total",
            "Requests over HTTP and gRPC that could not be understood.",
            get(&metrics.bad_requests),
        ),
        (
            "untrusted_forwarded_total",
            "Requests whose X-Forwarded-For was ignored, the peer is no trusted proxy.",
            get(&metrics.untrusted),
        ),
        (
            "tls_failed_total",
            "Connections closed since they did not agree on TLS.",
            get(&metrics.tls_failed),
        ),
        (
            "resp_errors_total",
            "Commands of the Redis protocol answered with an error.",
            get(&metrics.resp.errors),
        ),
        (
            "resp_protocol_errors_total",
            "Connections closed since what they sent was no Redis protocol.",
            get(&metrics.resp.protocol_errors),
        ),
        (
            "resp_timed_out_total",
            "Connections of the Redis protocol closed since they kept the server waiting.",
            get(&metrics.resp.timed_out),
        ),
    ] {
        single(&mut text, name, help, value);
    }
    text
}

fn write_latency(text: &mut String, app: &App) {
    let name = "tollgate_request_duration_seconds";
    family(text, name, "histogram", "From a request that has arrived to its answer.");
    for (transport, word) in TRANSPORTS {
        let label = format!("transport=\"{word}\"");
        write_histogram(text, (name, &label), app.metrics.latency(transport));
    }
    if let Some(latency) = app.backend.store_latency() {
        let name = "tollgate_store_duration_seconds";
        family(text, name, "histogram", "Calls to the store that were answered.");
        write_histogram(text, (name, ""), latency);
    }
}

fn write_histogram(text: &mut String, (name, label): (&str, &str), histogram: &Histogram) {
    let comma = if label.is_empty() { "" } else { "," };
    let counts = histogram.counts();
    let mut so_far = 0;
    for (step, count) in Histogram::STEPS.iter().zip(counts) {
        so_far += count;
        let step = Seconds(*step);
        let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"{step}\"}} {so_far}");
    }
    let all: u64 = counts.iter().sum();
    let braced = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "{name}_sum{braced} {}", Seconds(histogram.sum()));
    let _ = writeln!(text, "{name}_count{braced} {all}");
}

fn write_store(text: &mut String, app: &App) {
    let backend = &app.backend;
    if let Some(keys) = backend.live_keys() {
        let keys = u64::try_from(keys).unwrap_or(u64::MAX);
        single(text, "live_keys", "Keys that the store keeps now.", keys);
    }
    let evicted = "Keys forgotten early, the store was full.";
    single(text, "evictions_total", evicted, backend.evictions());
    let dropped = "Automatic blocks dropped early, the store held too many.";
    single(text, "dropped_blocks_total", dropped, backend.dropped_blocks());
    let reclaimed = "Keys forgotten since they were as good as new.";
    single(text, "reclaimed_total", reclaimed, backend.reclaimed());
    let turned_away = "Requests refused, the store was full.";
    single(text, "turned_away_total", turned_away, backend.turned_away());
    let redated = "States re-dated, the clock had moved back.";
    single(text, "redated_states_total", redated, backend.redated());
    let health = backend.health();
    let up = "1 while the store answers, 0 while it is away or was never reached.";
    single(text, "store_up", up, backend.is_up().into());
    if let Some(health) = health {
        single(text, "store_outages_total", "Times that the store was away.", health.outages);
        let failed = "Calls that got no answer because of the store.";
        single(text, "store_failed_calls_total", failed, health.failed_calls);
        let locally = "Requests refused without asking the store, which had just refused them.";
        single(text, "store_denied_locally_total", locally, health.cached_denials);
    }
    if let Some(nodes) = backend.nodes() {
        let help = "Servers that share the store, each with its part of the limits while it is unavailable.";
        single(text, "store_nodes", help, nodes);
    }
    if let Some(report) = backend.store_evictions() {
        let may_evict = "1 if the store evicts keys when it is full, so that limits start anew.";
        single(text, "store_may_evict", may_evict, report.may_evict().into());
        let evicted = "Keys that the store has evicted since it started.";
        single(text, "store_evicted_keys_total", evicted, report.evicted_keys);
    }
    if let Some(counts) = backend.fallback_counts() {
        write_fallback(text, &counts);
    }
    if let Some(counts) = backend.lease_counts() {
        write_leases(text, &counts);
    }
}

fn write_fallback(text: &mut String, counts: &FallbackCounts) {
    let keys = "Keys in memory for the times when the store is unavailable.";
    single(text, "fallback_keys", keys, u64::try_from(counts.keys).unwrap_or(u64::MAX));
    let evicted = "Keys of those that were evicted because memory was full.";
    single(text, "fallback_evictions_total", evicted, counts.evictions);
    let turned_away = "Requests that were denied without the store because memory was full.";
    single(text, "fallback_turned_away_total", turned_away, counts.turned_away);
}

fn write_leases(text: &mut String, counts: &LeaseStats) {
    let calls = "Calls that borrowed units of leased rules from the store, or tried to.";
    single(text, "lease_borrows_total", calls, counts.borrows);
    single(text, "lease_borrowed_units_total", "Units that were borrowed.", counts.borrowed);
    let charges = "Charges that were paid from borrowed units, without asking the store.";
    single(text, "lease_charges_total", charges, counts.charges);
    single(text, "lease_spent_units_total", "Borrowed units that were spent.", counts.spent);
    single(text, "lease_returns_total", "Calls that gave borrowed units back.", counts.returns);
    let returned = "Borrowed units that were given back.";
    single(text, "lease_returned_units_total", returned, counts.returned);
    let in_hand = "Borrowed units that could be spent now.";
    single(text, "lease_units_in_hand", in_hand, counts.available);
}

fn write_policy(text: &mut String, app: &App) {
    let reloads = &app.metrics.reloads;
    let (changed, refused) =
        (reloads.changed.load(Ordering::Relaxed), reloads.refused.load(Ordering::Relaxed));
    let version = "Which policy is in force: 1 at the start, one more with each that replaces it.";
    single(text, "policy_version", version, changed.saturating_add(1));
    let rules = u64::try_from(app.backend.policy().rules.len()).unwrap_or(u64::MAX);
    single(text, "policy_rules", "Rules of the policy in force.", rules);
    let name = "tollgate_policy_reloads_total";
    family(text, name, "counter", "Policies that were put in force or refused while running.");
    let _ = writeln!(text, "{name}{{result=\"changed\"}} {changed}");
    let _ = writeln!(text, "{name}{{result=\"refused\"}} {refused}");
    let last = "1 if the last policy that was given could be put in force, else 0.";
    let rejected = app.operators.envoy_folder().map(EnvoyFolder::rejected);
    let is_good = !reloads.last_refused.load(Ordering::Relaxed)
        && rejected.as_ref().is_none_or(|files| files.is_empty());
    single(text, "policy_last_reload_successful", last, is_good.into());
    if let Some(rejected) = &rejected {
        write_rejected_files(text, rejected);
    }
    let name = "tollgate_policy_info";
    family(
        text,
        name,
        "gauge",
        "The policy in force, by its hash: servers of one policy have one.",
    );
    let hash = app.policy_version.of(&app.backend.policy());
    let _ = writeln!(text, "{name}{{hash=\"{hash}\"}} 1");
    let name = "tollgate_build_info";
    family(text, name, "gauge", "Which Tollgate this is.");
    let _ = writeln!(text, "{name}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
}

/// The files of the Envoy folder that are rejected, with the first error of each.
fn write_rejected_files(text: &mut String, rejected: &[RejectedFile]) {
    let help = "Files of the Envoy folder that are rejected now.";
    let count = u64::try_from(rejected.len()).unwrap_or(u64::MAX);
    single(text, "envoy_files_rejected", help, count);
    let name = "tollgate_envoy_file_rejected";
    family(text, name, "gauge", "1 for each rejected file of the Envoy folder, with its reason.");
    for file in rejected.iter().take(MAX_REJECTED_FILES) {
        let reason = file.findings.first().map_or_else(String::new, |finding| match finding.line {
            0 => finding.message.clone(),
            line => format!("line {line}: {}", finding.message),
        });
        let (file, reason) = (escaped(&file.name), escaped(cut_to(&reason, MAX_REASON)));
        let _ = writeln!(text, "{name}{{file=\"{file}\",reason=\"{reason}\"}} 1");
    }
}

fn write_certificates(text: &mut String, app: &App) {
    let reloads = &app.metrics.tls_reloads;
    let name = "tollgate_tls_reloads_total";
    family(text, name, "counter", "Changed certificates that were put in force or refused.");
    for (result, count) in [("changed", &reloads.changed), ("refused", &reloads.refused)] {
        let _ = writeln!(text, "{name}{{result=\"{result}\"}} {}", count.load(Ordering::Relaxed));
    }
    let last = "1 if the certificates in force are those in the files, else 0.";
    let is_good = !reloads.last_refused.load(Ordering::Relaxed);
    single(text, "tls_last_reload_successful", last, is_good.into());
}

fn write_connections(text: &mut String, app: &App) {
    let mut of_each = |name: &str, help: &str, value: fn(&Connections) -> u64| {
        family(text, name, kind(name), help);
        for (transport, word) in TRANSPORTS {
            let value = value(app.metrics.connections(transport));
            let _ = writeln!(text, "{name}{{transport=\"{word}\"}} {value}");
        }
    };
    let open = "Connections that are open now.";
    of_each("tollgate_connections", open, Connections::open);
    of_each("tollgate_connections_accepted_total", "Connections taken.", |of| {
        of.accepted.load(Ordering::Relaxed)
    });
    let refused = "Connections refused, too many were open.";
    of_each("tollgate_connections_refused_total", refused, |of| of.refused.load(Ordering::Relaxed));
}

/// How often clients have gone over each bound.
fn write_over(text: &mut String, app: &App) {
    let name = "tollgate_over_bounds_total";
    family(text, name, "counter", "Times that a client went over a bound.");
    for (transport, word) in TRANSPORTS {
        for (bound, label) in BOUNDS {
            let count = match (transport, bound) {
                (Transport::Resp, Bound::Waiting) => &app.metrics.resp.timed_out,
                (_, Bound::Limits) => app.limits.too_many(transport),
                _ => app.metrics.over(transport, bound),
            };
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{bound=\"{label}\",transport=\"{word}\"}} {count}");
        }
    }
}

fn single(text: &mut String, name: &str, help: &str, value: u64) {
    let name = format!("tollgate_{name}");
    family(text, &name, kind(&name), help);
    let _ = writeln!(text, "{name} {value}");
}

fn kind(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value, with what would end it escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Seconds as a decimal number.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = format!("{:09}", self.0.subsec_nanos());
        match nanos.trim_end_matches('0') {
            "" => write!(f, "{}", self.0.as_secs()),
            fraction => write!(f, "{}.{fraction}", self.0.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_and_seconds_have_no_rounding() {
        let histogram = Histogram::default();
        for micros in [5, 20, 2_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let mut text = String::new();
        write_histogram(&mut text, ("d", "transport=\"http\""), &histogram);
        for line in [
            "d_bucket{transport=\"http\",le=\"0.00001\"} 1",
            "d_bucket{transport=\"http\",le=\"0.000025\"} 2",
            "d_bucket{transport=\"http\",le=\"1\"} 2",
            "d_bucket{transport=\"http\",le=\"+Inf\"} 3",
            "d_sum{transport=\"http\"} 2.000025",
            "d_count{transport=\"http\"} 3",
        ] {
            assert!(text.lines().any(|of| of == line), "{line} in\n{text}");
        }
    }
}
