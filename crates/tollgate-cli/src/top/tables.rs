//! The tables: rules, the most refused keys, the hottest keys, and what was found.

use super::state::{Found, State};
use super::table::{Cell, Column, Table, Tone, Width, cell, toned};
use super::text::{self, count, harmless, percent, rate, wait};
use super::told::{HotKey, RefusedKey, Sample, ShadowCounts};

const fn column(title: &'static str, width: Width, from: usize) -> Column {
    Column { title, width, is_number: false, from }
}

const fn number(title: &'static str, most: usize, from: usize) -> Column {
    Column { title, width: Width::UpTo(most), is_number: true, from }
}

const REFUSED: [Column; 6] = [
    column("KEY", Width::Rest, 0),
    column("RULE", Width::UpTo(20), 60),
    column("WHY", Width::UpTo(12), 0),
    number("REFUSED", 9, 48),
    number("LIMIT", 9, 68),
    number("RETRY IN", 9, 34),
];

const HOTTEST: [Column; 5] = [
    column("KEY", Width::Rest, 0),
    column("RULE", Width::UpTo(20), 50),
    number("PER SECOND", 10, 0),
    number("DECISIONS", 9, 62),
    number("REFUSED", 9, 34),
];

const RULES: [Column; 6] = [
    column("RULE", Width::Rest, 0),
    number("ALLOWED/S", 9, 0),
    number("REFUSED/S", 9, 0),
    number("DEGRADED/S", 10, 56),
    number("TOTAL", 9, 62),
    number("% REFUSED", 9, 48),
];

const FOUND: [Column; 4] = [
    column("KEY", Width::Rest, 0),
    column("RULE", Width::UpTo(20), 60),
    number("LEFT", 17, 0),
    column("STATE", Width::UpTo(20), 0),
];

/// What people call a rule.
pub(super) fn rule_name(rule: &str) -> String {
    if rule.is_empty() { "no rule".to_owned() } else { harmless(rule) }
}

/// Why something was refused, in a word or two.
pub(super) fn reason(reason: &str) -> String {
    match reason {
        "limits" => "over limit",
        "block" => "blocked",
        "deny_list" => "deny list",
        "allow_list" => "allow list",
        "error" => "not decided",
        "store_away" => "store away",
        "no_rule" => "no rule",
        other => return harmless(other),
    }
    .to_owned()
}

pub(super) fn refused_keys(sample: Option<&Sample>, passed_ms: u64) -> Table {
    let keys = sample.map(|sample| sample.refused.keys.as_slice()).unwrap_or_default();
    let now_ms = sample.map_or(0, |sample| sample.now_ms).saturating_add(passed_ms);
    let rows = keys.iter().map(|of| {
        let (retry, tone) = match retry_in(of, now_ms) {
            None => ("never".to_owned(), Tone::Bad),
            Some(0) => ("now".to_owned(), Tone::Good),
            Some(millis) => (wait(millis), Tone::Bad),
        };
        vec![
            key_cell(&of.key, of.whole),
            cell(rule_name(&of.rule)),
            cell(of.reason.as_deref().map_or("-".to_owned(), reason)),
            cell(about(of.denied, of.over)),
            cell(of.limit.map_or("-".to_owned(), count)),
            toned(retry, tone),
        ]
    });
    Table { columns: &REFUSED, rows: rows.collect() }
}

/// What is left of the wait that the last refusal told; nothing where it never ends.
pub(super) fn retry_in(of: &RefusedKey, now_ms: u64) -> Option<u64> {
    let told = of.last_ms?.saturating_add(of.retry_after_ms?);
    Some(told.saturating_sub(now_ms))
}

pub(super) fn hottest_keys(state: &State) -> Table {
    let hottest = &state.view().hottest;
    let uptime = state.view().history.last().map_or(u64::MAX, |last| last.uptime_ms);
    let rows = hottest.keys.iter().map(|of| {
        let tone = match (of.denied, of.would_deny) {
            (1.., _) => Tone::Bad,
            (0, 1..) => Tone::Warning,
            (0, 0) => Tone::Plain,
        };
        vec![
            key_cell(&of.key, of.whole),
            cell(rule_name(&of.rule)),
            cell(rate(per_second(of, hottest.window_ms.min(uptime)))),
            cell(about(of.seen, of.over)),
            toned(percent(of.denied.saturating_add(of.would_deny), of.seen), tone),
        ]
    });
    Table { columns: &HOTTEST, rows: rows.collect() }
}

/// In thousandths.
pub(super) fn per_second(of: &HotKey, window_ms: u64) -> u64 {
    let thousandths = u128::from(of.seen) * 1_000_000 / u128::from(window_ms.max(1));
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}

pub(super) fn rules(state: &State) -> Table {
    let history = &state.view().history;
    let rules = history.last().map(|last| last.rules.as_slice()).unwrap_or_default();
    let rows = rules.iter().map(|of| {
        let (now, total) = (history.rates(Some(&of.rule)).enforced(), of.total());
        let (shadow, refused, bad) = match of.shadow {
            None => (String::new(), of.requests.denied, Tone::Bad),
            Some(ShadowCounts { would_deny, would_deny_alone, .. }) => {
                let (denied, alone) = (count(would_deny), count(would_deny_alone));
                let note = format!(" (shadow: {denied}, {alone} alone)");
                (note, would_deny, Tone::Warning)
            }
        };
        let when = |number: u64, tone| if number > 0 { tone } else { Tone::Plain };
        vec![
            cell(rule_name(&of.rule) + &shadow),
            cell(rate(now.allowed)),
            toned(rate(now.refused), when(now.refused, bad)),
            toned(rate(now.degraded), when(now.degraded, Tone::Warning)),
            cell(count(total)),
            cell(percent(refused, total)),
        ]
    });
    Table { columns: &RULES, rows: rows.collect() }
}

pub(super) fn found(found: &Found) -> Table {
    let rows = found.keys.iter().map(|of| {
        let (left, state) = match (of.remaining, of.limit, of.retry_after_ms) {
            (Some(remaining), Some(limit), retry) => {
                let state = match (of.blocked_ms, retry.unwrap_or_default()) {
                    (Some(millis), _) => toned(format!("BLOCKED for {}", wait(millis)), Tone::Bad),
                    (None, 0) => toned("OK", Tone::Good),
                    (None, millis) if of.shadow => {
                        toned(format!("shadow, over {}", wait(millis)), Tone::Warning)
                    }
                    (None, millis) => toned(format!("over, next in {}", wait(millis)), Tone::Bad),
                };
                (format!("{} of {}", count(remaining), count(limit)), state)
            }
            _ => ("-".to_owned(), cell("denied recently")),
        };
        let rule = rule_name(of.rule.as_deref().unwrap_or_default());
        vec![key_cell(&of.key, of.whole), cell(rule), cell(left), state]
    });
    Table { columns: &FOUND, rows: rows.collect() }
}

fn key_cell(key: &text::Key, whole: bool) -> Cell {
    match whole {
        true => cell(text::key(key)),
        false => toned(text::key(key), Tone::Quiet),
    }
}

/// A number that may hold some of another key's.
fn about(number: u64, over: u64) -> String {
    if over > 0 { format!("≈{}", count(number)) } else { count(number) }
}
