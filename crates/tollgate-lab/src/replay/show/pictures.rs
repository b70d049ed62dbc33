//! The pictures of a report.
#![allow(clippy::float_arithmetic, reason = "what is drawn decides nothing")]
#![allow(clippy::cast_precision_loss, reason = "a pixel is not that fine")]

use super::words::{key, share};
use crate::picture::{Chart, Ranking, Series, Tone, Unit, label};
use crate::replay::report::{ClientReport, Report, Suggestion};

/// How many bars a chart over time has at most: more could not be told apart.
const BARS: usize = 120;

/// What passed and what was refused, over time.
pub(super) fn over_time(report: &Report) -> Chart {
    let time = &report.over_time;
    // Neighbours are drawn as one where there are too many.
    let together = time.steps.len().div_ceil(BARS).max(1);
    let seconds = time.step_seconds.saturating_mul(together as u64);
    let groups = || time.steps.chunks(together);
    let points = |of: &dyn Fn(&crate::replay::report::Step) -> u64| {
        let sums = groups().map(|group| (group[0].at, group.iter().map(of).sum::<u64>()));
        sums.map(|(at, sum)| (at as f64, sum as f64)).collect::<Vec<_>>()
    };
    let step = label(Unit::Seconds, seconds as f64);
    let mut chart = Chart::new(format!("requests in each {step}"))
        .describe(format!("{} of all requests refused", share(report.refused, report.requests)))
        .x(Unit::Moment, "UTC")
        .y(Unit::Count, "requests")
        .with(Series::bars("allowed", points(&|step| step.allowed)).tone(Tone::Good));
    let names = time.refused_by.iter().map(|name| format!("refused by {name}"));
    for (at, name) in names.chain(["refused by others".to_owned()]).enumerate() {
        let refused = points(&|step| step.refused.get(at).copied().unwrap_or(0));
        if refused.iter().any(|(_, count)| *count > 0.0) {
            let tone = match at {
                0 => Tone::Bad,
                // The first two of these are the colours of what passed and what was refused.
                _ => Tone::Nth(u8::try_from(at + 1).unwrap_or(u8::MAX)),
            };
            chart = chart.with(Series::bars(name, refused).tone(tone));
        }
    }
    chart
}

/// Who has the most of what `part` says.
pub(super) fn clients(
    title: &str,
    (part, tone): (&str, Tone),
    clients: &[ClientReport],
) -> Ranking {
    let ranking = Ranking::new(title, Unit::Count).part(part, tone);
    let row = |ranking: Ranking, client: &ClientReport| {
        // There is little room: what the attributes are called is in the table.
        let values: Vec<&str> = client.key.iter().map(|(_, value)| value.as_str()).collect();
        let name = if values.is_empty() { key(client) } else { values.join(" ") };
        ranking.row(name, [client.refused as f64])
    };
    clients.iter().fold(ranking, row)
}

/// What other numbers of a limit refuse: each rung one step on, whatever it is.
pub(super) fn suggestion(of: &Suggestion) -> Chart {
    // Where nothing is refused any more, there is nothing to see.
    let shown = of.tried.iter().position(|tried| tried.refused == 0).map_or(0, |at| at + 1);
    let shown = &of.tried[..if shown == 0 { of.tried.len() } else { shown }];
    let percent = |refused: u64| 100.0 * refused as f64 / of.requests.max(1) as f64;
    let curve = shown.iter().map(|tried| (tried.count as f64, percent(tried.refused)));
    let now = of.tried.iter().find(|tried| tried.limit == of.limit);
    let chart = Chart::new(format!("{}: refused by other numbers", of.rule))
        .describe(format!("{} refuses {}", of.limit, share(of.refused, of.requests)))
        .x(Unit::Count, format!("the count of {}", of.limit))
        .y(Unit::Percent, "refused")
        .with(Series::line("refused", curve).tone(Tone::Bad));
    match now {
        Some(now) if shown.iter().any(|tried| tried.count == now.count) => {
            chart.level(percent(now.refused), format!("in force: {}", of.limit))
        }
        _ => chart,
    }
}
