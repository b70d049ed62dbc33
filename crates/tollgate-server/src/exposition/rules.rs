//! Decisions and requests by rule, and the largest counts of keys.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{escaped, family};
use crate::app::App;
use crate::bounds::TOP_RANKS;
use crate::client_limits::CLIENT_LIMITS;
use crate::metrics::{ByOutcome, OTHERS, OUTCOMES, TRANSPORTS, add_counts};
use crate::top::{By, TopQuery};

/// The rule of all decisions by lists together, if lists are not to be named. No rule is called so.
const LISTS: &str = "(lists)";

/// The family of requests that only a shadow rule would have denied.
const ALONE: &str = "tollgate_shadow_denied_alone_total";

/// The counts of rules and lists of the active policy.
pub(super) fn write(text: &mut String, app: &App) {
    write_decisions(text, app);
    write_requests(text, app);
    write_top(text, app);
}

fn write_decisions(text: &mut String, app: &App) {
    let help = "Decisions by rule, tier, outcome and transport.";
    family(text, "tollgate_decisions_total", "counter", help);
    let names = app.active_names();
    let decisions = app.metrics.decisions.read();
    let mut of_lists = ByOutcome::default();
    if !app.settings.names_lists {
        add_counts(&mut of_lists, decisions.removed_lists());
    }
    // A request that was decided while the policy changed may have counted for a removed rule.
    for (rule, tier, counts) in decisions.iter().filter(|(rule, ..)| names.has_counts(rule)) {
        if !app.settings.names_lists && decisions.is_list(rule) {
            add_counts(&mut of_lists, counts);
            continue;
        }
        for ((_, transport), counts) in TRANSPORTS.iter().zip(counts.iter()) {
            write_outcomes(text, (rule, tier, transport), counts);
        }
    }
    drop(decisions);
    for ((_, transport), counts) in TRANSPORTS.iter().zip(&of_lists) {
        write_outcomes(text, (LISTS, "", transport), counts);
    }
    for ((_, transport), counts) in TRANSPORTS.iter().zip(&app.metrics.client_limits) {
        write_outcomes(text, (CLIENT_LIMITS, "", transport), &counts.0);
    }
}

fn write_outcomes(
    text: &mut String,
    (rule, tier, transport): (&str, &str, &str),
    counts: &[AtomicU64],
) {
    for (outcome, count) in OUTCOMES.iter().zip(counts) {
        let count = count.load(Ordering::Relaxed);
        if count > 0 {
            let (rule, tier) = (escaped(rule), escaped(tier));
            let labels = format!(
                "rule=\"{rule}\",tier=\"{tier}\",outcome=\"{outcome}\",transport=\"{transport}\""
            );
            // Writing to a string does not fail.
            let _ = writeln!(text, "tollgate_decisions_total{{{labels}}} {count}");
        }
    }
}

/// Requests for every rule that they were charged under. Counts that are 0 are written too, so that
/// a rate has a beginning.
fn write_requests(text: &mut String, app: &App) {
    let name = "tollgate_rule_requests_total";
    let help = "Requests by each rule that applied to them, not only by the deciding rule.";
    family(text, name, "counter", help);
    let names = app.active_names();
    let mut alone = String::new();
    for (rule, totals) in app.metrics.decisions.read().requests.iter() {
        let label = escaped(rule);
        let mut write = |outcome: &str, count: u64| {
            let _ = writeln!(text, "{name}{{rule=\"{label}\",outcome=\"{outcome}\"}} {count}");
        };
        if names.is_shadow(rule) || rule == OTHERS {
            totals.shadow().into_iter().for_each(|(outcome, count)| write(outcome, count));
            let count = totals.would_deny_alone;
            let _ = writeln!(alone, "{ALONE}{{rule=\"{label}\"}} {count}");
        }
        if !names.is_shadow(rule) && names.has_counts(rule) {
            totals.enforced().into_iter().for_each(|(outcome, count)| write(outcome, count));
        }
    }
    let help = "Requests that a shadow rule would have denied and nothing else denied.";
    family(text, ALONE, "counter", help);
    text.push_str(&alone);
}

/// How much the keys with the most denials have of them. Who they are is told to operators alone:
/// a key is no label.
fn write_top(text: &mut String, app: &App) {
    let name = "tollgate_top_denials";
    let help = "Denials of the last minutes of the keys that have the most, about; by rank.";
    family(text, name, "gauge", help);
    let names = &app.active_names();
    let query = TopQuery { by: By::Denials, rule: None, most: TOP_RANKS, names };
    let (ranked, _) = app.watched.top.list(query, app.backend.clock().now());
    for rank in 0..TOP_RANKS {
        let denied = ranked.get(rank).map_or(0, |of| of.counts.denied);
        let _ = writeln!(text, "{name}{{rank=\"{}\"}} {denied}", rank + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let mut text = String::new();
        write_outcomes(&mut text, ("a\"b\\c\nd", "e\"f", "http"), &[AtomicU64::new(1)]);
        let labels = r#"{rule="a\"b\\c\nd",tier="e\"f",outcome="allowed","#;
        assert!(text.contains(labels), "{text}");
    }
}
