//! The outcome for people: a table, charts, a page.
#![allow(clippy::float_arithmetic, reason = "what is drawn decides nothing")]

use super::result::{Run, Simulated, Slot};
use crate::picture::{
    Chart, Column, Figure, Ranking, Report, Series, Shape, Table, Tone, Unit, label,
};

/// What a chart of a simulation shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Picture {
    /// What was offered, admitted and refused over time, for each run.
    Requests,
    /// How much went ahead within a window, all the time.
    Window,
    /// What could still be taken.
    Remaining,
    /// How long requests waited.
    Waits,
}

impl Picture {
    /// All of them.
    pub const ALL: [Picture; 4] =
        [Picture::Requests, Picture::Window, Picture::Remaining, Picture::Waits];
}

const NANOS: f64 = 1e9;

impl Simulated {
    /// The figures of each run.
    pub fn table(&self) -> Table {
        let window = seconds(self.window_nanos);
        let (retries, waits, many, degraded) = (
            self.runs.iter().any(|run| run.tries > run.offered),
            self.runs.iter().any(|run| run.waits.longest_nanos > 0),
            self.runs.iter().any(|run| run.clients > 1),
            self.runs.iter().any(|run| run.degraded > 0),
        );
        let most = if self.together { "most in any" } else { "most of one client in any" };
        let columns = [
            (String::new(), Column::Words, true),
            ("offered".to_owned(), Column::Figures, true),
            ("tries".to_owned(), Column::Figures, retries),
            ("admitted".to_owned(), Column::Figures, true),
            ("refused".to_owned(), Column::Figures, true),
            ("degraded".to_owned(), Column::Figures, degraded),
            (format!("{most} {window}"), Column::Figures, true),
            ("wait median".to_owned(), Column::Figures, waits),
            ("99 %".to_owned(), Column::Figures, waits),
            ("all done at".to_owned(), Column::Figures, retries),
            ("fairness".to_owned(), Column::Figures, many),
        ];
        let shown = columns.each_ref().map(|(.., shown)| *shown);
        let names = columns.into_iter().filter(|(.., shown)| *shown);
        let mut table = Table::new(names.map(|(name, column, _)| (name, column)));
        for run in &self.runs {
            let cells = self.cells(run).into_iter().zip(shown);
            table.push(cells.filter(|(_, shown)| *shown).map(|(cell, _)| cell));
        }
        table
    }

    fn cells(&self, run: &Run) -> [String; 11] {
        let done = match run.last_nanos {
            Some(at) if run.unserved == 0 => seconds(at),
            _ => format!("{} left", run.unserved),
        };
        [
            run.name.clone(),
            run.offered.to_string(),
            run.tries.to_string(),
            format!("{} ({})", run.admitted, percent(run.admitted, run.offered)),
            run.refused.to_string(),
            run.degraded.to_string(),
            self.most(run).to_string(),
            seconds(run.waits.median_nanos),
            seconds(run.waits.p99_nanos),
            done,
            format!("{:.2}", run.fairness),
        ]
    }

    /// The most in any window: of everybody where all are counted together.
    fn most(&self, run: &Run) -> u64 {
        if self.together { run.busiest.units } else { run.busiest_client.units }
    }

    /// The charts of one kind: for each run, or one for all. None where there is nothing to see.
    pub fn charts(&self, picture: Picture) -> Vec<Chart> {
        match picture {
            Picture::Requests => self.requests(),
            Picture::Window => vec![self.window()],
            Picture::Remaining => self.remaining().into_iter().collect(),
            Picture::Waits => self.waits().into_iter().collect(),
        }
    }

    fn requests(&self) -> Vec<Chart> {
        let draw = |run: &Run| {
            let level = |slot: &Slot| slot.admitted.saturating_sub(slot.degraded);
            let mut chart = self
                .over_time(&run.name, &format!("requests in {}", seconds(self.slot_nanos)))
                .describe(format!(
                    "{} of {} requests admitted, {} tries refused, at most {} in any {}",
                    run.admitted,
                    run.offered,
                    run.refused,
                    self.most(run),
                    seconds(self.window_nanos)
                ))
                .with(self.bars("admitted", run, level).tone(Tone::Good));
            if run.degraded > 0 {
                let without = self.bars("admitted without the store", run, |slot| slot.degraded);
                chart = self.with_outage(chart.with(without.tone(Tone::Note)));
            }
            chart = chart.with(self.bars("refused", run, |slot| slot.refused).tone(Tone::Bad));
            if run.tries > run.offered {
                // Without retries the bars together are what was offered.
                let offered = self.line("offered", run, |slot| Some(slot.offered));
                chart = chart.with(offered.tone(Tone::Quiet));
            }
            if run.delayed > 0 {
                let ahead = self.line("goes ahead", run, |slot| Some(slot.went_ahead));
                chart = chart.with(ahead.tone(Tone::Nth(5)));
            }
            match self.level_of(run) {
                Some((level, name)) => chart.level(level, name),
                None => chart,
            }
        };
        let charts: Vec<Chart> = self.runs.iter().map(draw).collect();
        let highest = charts.iter().map(Chart::highest).fold(0.0, f64::max);
        charts.into_iter().map(|chart| chart.at_least(highest)).collect()
    }

    /// What a limit lets through in one slot, where that is at least something.
    fn level_of(&self, run: &Run) -> Option<(f64, String)> {
        let (count, period) = run.rate.filter(|_| self.together)?;
        let level = count as f64 * self.slot_nanos as f64 / period as f64;
        let name = format!("{count} per {}", seconds(period));
        (level >= 1.0 && period >= self.slot_nanos).then_some((level, name))
    }

    fn window(&self) -> Chart {
        let whose = if self.together { "" } else { ", first client" };
        let window = seconds(self.window_nanos);
        let mut chart = self
            .over_time(&format!("went ahead in the last {window}{whose}"), "units")
            .describe("how much went ahead within the window that ends at each moment");
        for (number, run) in self.numbered() {
            chart = chart.with(self.line(&run.name, run, |slot| Some(slot.in_window)).tone(number));
        }
        chart = self.with_outage(chart);
        match self.runs.first().and_then(|run| run.rate) {
            Some((count, period)) if period == self.window_nanos => {
                chart.level(count as f64, format!("limit: {count}"))
            }
            _ => chart,
        }
    }

    fn remaining(&self) -> Option<Chart> {
        let whose = if self.together { "" } else { ", first client" };
        let known = |run: &Run| run.slots.iter().any(|slot| slot.remaining.is_some());
        if !self.runs.iter().any(known) {
            return None;
        }
        let mut chart = self
            .over_time(&format!("remaining{whose}"), "units")
            .describe("what could still be taken at each moment");
        for (number, run) in self.numbered() {
            chart = chart.with(self.line(&run.name, run, |slot| slot.remaining).tone(number));
        }
        Some(chart)
    }

    fn waits(&self) -> Option<Chart> {
        if self.runs.iter().all(|run| run.waits.by_percent_nanos.is_empty()) {
            return None;
        }
        let mut chart = Chart::new("how long requests waited")
            .describe("the share of the admitted requests that waited no longer")
            .x(Unit::Percent, "of the admitted requests waited no longer")
            .y(Unit::Seconds, "wait")
            .span(0.0, 100.0);
        for (number, run) in self.numbered() {
            let waits = run.waits.by_percent_nanos.iter().enumerate();
            let points = waits.map(|(percent, wait)| (percent as f64, *wait as f64 / NANOS));
            let points: Vec<_> = match run.waits.by_percent_nanos.is_empty() {
                true => vec![(0.0, 0.0), (100.0, 0.0)],
                false => points.collect(),
            };
            chart = chart.with(Series::line(run.name.clone(), points).tone(number));
        }
        Some(chart)
    }

    /// The clients that were refused most, for the first run; none where there is one client.
    pub fn ranking(&self) -> Option<Ranking> {
        let run = self.runs.first().filter(|run| run.clients > 1)?;
        let ranking = Ranking::new(format!("hit hardest, of {} clients", run.clients), Unit::Count)
            .part("admitted", Tone::Good)
            .part("refused", Tone::Bad);
        Some(run.hit_hardest.iter().fold(ranking, |ranking, client| {
            ranking.row(client.name.clone(), [client.admitted as f64, client.refused as f64])
        }))
    }

    /// A page with these pictures; `made_by` is the command that makes it again.
    pub fn report(&self, made_by: &str, pictures: &[Picture]) -> Report {
        let title = match self.runs.as_slice() {
            [_] => format!("What passes {}", self.subject),
            runs => format!("{}: {} ways side by side", self.subject, runs.len()),
        };
        let mut report = Report::new(title, self.lead());
        for note in &self.notes {
            report = report.text(&format!("Note: {note}."));
        }
        report = match self.runs.as_slice() {
            [run] => report.figures(self.figures(run)),
            _ => report.table(&self.table()),
        };
        report = report.charts(pictures.iter().flat_map(|picture| self.charts(*picture)));
        if let Some(ranking) = self.ranking() {
            report = report.heading("Clients").rankings([ranking]);
        }
        if let Some(run) = self.runs.first().filter(|run| run.refused_by.len() > 1) {
            let columns = [("rule", Column::Words), ("refused", Column::Figures)];
            let table = run.refused_by.iter().fold(Table::new(columns), |table, by| {
                table.row([by.rule.clone(), by.refused.to_string()])
            });
            report = report.heading("Which rule refused").table(&table);
        }
        report.heading("Make it again").verbatim(made_by)
    }

    /// What was simulated, in a sentence.
    pub fn lead(&self) -> String {
        let traffic = self.traffic.join(" + ");
        format!("Traffic: {traffic}. Fake time, seed {}: the same every time.", self.seed)
    }

    fn figures(&self, run: &Run) -> Vec<Figure> {
        let of = |part: u64, whole: u64| format!("{} of {whole}", percent(part, whole));
        let mut figures = vec![
            Figure::new("offered", run.offered.to_string()),
            Figure::new("admitted", run.admitted.to_string()).note(of(run.admitted, run.offered)),
            Figure::new("refused", run.refused.to_string()).note(of(run.refused, run.tries)),
            Figure::new(
                format!("most in any {}", seconds(self.window_nanos)),
                self.most(run).to_string(),
            )
            .note(match self.together {
                true => format!("on the clock {}", run.busiest_on_the_clock.units),
                false => "of one client".to_owned(),
            }),
        ];
        if run.waits.longest_nanos > 0 {
            let longest = format!("longest {}", seconds(run.waits.longest_nanos));
            figures.push(Figure::new("median wait", seconds(run.waits.median_nanos)).note(longest));
        }
        figures
    }

    fn numbered(&self) -> impl Iterator<Item = (Tone, &Run)> {
        (0u8..).map(Tone::Nth).zip(&self.runs)
    }

    fn over_time(&self, title: &str, of: &str) -> Chart {
        Chart::new(title)
            .x(Unit::Seconds, "")
            .y(Unit::Count, of)
            .span(0.0, self.length_nanos as f64 / NANOS)
    }

    /// The same with the store's outage marked.
    fn with_outage(&self, chart: Chart) -> Chart {
        match self.outage_nanos {
            Some((from, to)) if from < self.length_nanos => {
                let to = to.min(self.length_nanos);
                chart.band(from as f64 / NANOS, to as f64 / NANOS, "store away")
            }
            _ => chart,
        }
    }

    fn bars(&self, name: &str, run: &Run, value: impl Fn(&Slot) -> u64) -> Series {
        let slots = run.slots.iter().enumerate();
        Series::bars(name, slots.map(|(number, slot)| (self.begin(number), value(slot) as f64)))
    }

    /// A value for each slot, level from its beginning to its end.
    fn line(&self, name: &str, run: &Run, value: impl Fn(&Slot) -> Option<u64>) -> Series {
        let slots = run.slots.iter().enumerate();
        let mut points: Vec<(f64, f64)> = slots
            .filter_map(|(number, slot)| Some((self.begin(number), value(slot)? as f64)))
            .collect();
        if let Some((_, last)) = points.last().copied() {
            points.push((self.length_nanos as f64 / NANOS, last));
        }
        Series::new(name, Shape::Steps, points)
    }

    fn begin(&self, slot: usize) -> f64 {
        slot as f64 * self.slot_nanos as f64 / NANOS
    }
}

fn seconds(nanos: u64) -> String {
    label(Unit::Seconds, nanos as f64 / NANOS)
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "0%".to_owned()
    } else {
        label(Unit::Percent, part as f64 * 100.0 / whole as f64)
    }
}
