//! What must be reached, beside governor with `String` keys unless another is named.

use crate::peers::Who;
use crate::report::{Report, Row, Section, keys_name, threads_name};
use crate::rows::THREADS;

/// A bound, and how far from it the worst of its rows is.
struct Goal {
    what: String,
    bound: Bound,
    worst: Option<(f64, String)>,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn new(what: String, bound: Bound, measured: impl Iterator<Item = (f64, String)>) -> Goal {
        let by_value = |a: &(f64, String), b: &(f64, String)| a.0.total_cmp(&b.0);
        let worst = match bound {
            Bound::AtLeast(_) => measured.min_by(by_value),
            Bound::AtMost(_) => measured.max_by(by_value),
        };
        Goal { what, bound, worst }
    }

    fn is_missed(&self) -> bool {
        match (&self.worst, &self.bound) {
            (Some((value, _)), Bound::AtLeast(bound)) => value < bound,
            (Some((value, _)), Bound::AtMost(bound)) => value > bound,
            (None, _) => false,
        }
    }

    fn line(&self) -> String {
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!(">= {bound}"),
            Bound::AtMost(bound) => format!("<= {bound}"),
        };
        let (value, verdict) = match &self.worst {
            Some((value, at)) => {
                let verdict = if self.is_missed() { "MISS" } else { "pass" };
                (format!("{value:>7.2}"), format!("{verdict}     {at}"))
            }
            None => ("      -".to_owned(), "not run".to_owned()),
        };
        format!("{:<34} {bound:<6} {value}  {verdict}", self.what)
    }
}

/// Prints the goals; whether a measured one was missed.
pub(crate) fn print(report: &Report) -> bool {
    let goals = goals(report);
    println!("Must reach (the worst row of each; ratios are governor / ours)");
    goals.iter().for_each(|goal| println!("{}", goal.line().trim_end()));
    goals.iter().any(Goal::is_missed)
}

fn goals(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (keys, least) in
        [(1, 1.0), (1000, 1.0), (100_000, 3.0), (1_000_000, 3.0), (10_000_000, 3.0)]
    {
        for threads in THREADS {
            let rows = rows(report, Section::Decisions, threads);
            let rows = rows.filter(|row| row.scenario.keys == keys);
            let what = format!("{}, {}", keys_label(keys), threads_name(threads));
            goals.push(Goal::new(
                what,
                Bound::AtLeast(least),
                ratios(rows, Who::Governor, Who::Ours),
            ));
        }
    }
    for threads in THREADS {
        let rows = rows(report, Section::Batch, threads);
        let what = format!("batch of 256, 1M keys, {}", threads_name(threads));
        goals.push(Goal::new(
            what,
            Bound::AtLeast(8.0),
            ratios(rows, Who::Governor, Who::OursBatch),
        ));
    }
    for (who, most) in [(Who::Ours, 64.0), (Who::OursNameless, 40.0)] {
        let what = format!("bytes per key, {}", who.name());
        goals.push(Goal::new(what, Bound::AtMost(most), bytes(report, who)));
    }
    for threads in THREADS {
        let rows = rows(report, Section::Three, threads);
        let what = format!("three limits / one, {}", threads_name(threads));
        goals.push(Goal::new(what, Bound::AtMost(3.0), ratios(rows, Who::OursThree, Who::Ours)));
    }
    let tails = rows(report, Section::Tails, 2).filter(|row| row.quantile == Some("p99.9"));
    let what = "p99.9 of a hot key, 2 threads".to_owned();
    goals.push(Goal::new(what, Bound::AtLeast(1.0), ratios(tails, Who::Governor, Who::Ours)));
    goals
}

fn keys_label(keys: usize) -> String {
    if keys == 1 { "one hot key".to_owned() } else { format!("{} keys", keys_name(keys)) }
}

fn rows(report: &Report, section: Section, threads: usize) -> impl Iterator<Item = &Row> {
    let rows = report.rows.iter();
    rows.filter(move |row| row.section == section && row.scenario.threads == threads)
}

fn ratios<'a>(
    rows: impl Iterator<Item = &'a Row>,
    peer: Who,
    ours: Who,
) -> impl Iterator<Item = (f64, String)> {
    rows.filter_map(move |row| Some((row.pair(peer, ours)?.ratio().median, row.name.clone())))
}

/// As allocated: what is resident depends on the allocator too.
fn bytes(report: &Report, who: Who) -> impl Iterator<Item = (f64, String)> {
    let all = report.bytes.iter().filter(move |bytes| bytes.who == who.name());
    all.map(|bytes| (bytes.heap, format!("{} keys", keys_name(bytes.keys))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_row_decides() {
        let measured = || [(3.5, "a".to_owned()), (2.9, "b".to_owned())].into_iter();
        let goal = Goal::new(String::new(), Bound::AtLeast(3.0), measured());
        assert!(goal.is_missed() && goal.line().ends_with("MISS     b"));
        let goal = Goal::new(String::new(), Bound::AtMost(3.5), measured());
        assert!(!goal.is_missed() && goal.line().ends_with("pass     a"));
    }

    #[test]
    fn what_was_not_run_is_not_missed() {
        let goal = Goal::new(String::new(), Bound::AtLeast(3.0), std::iter::empty());
        assert!(!goal.is_missed() && goal.line().ends_with("not run"));
    }
}
