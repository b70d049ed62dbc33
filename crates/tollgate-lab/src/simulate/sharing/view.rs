//! The outcome for people: a table, charts, a page.
#![allow(clippy::float_arithmetic, reason = "what is drawn decides nothing")]

use super::result::{Scene, Shared, SharedRun};
use crate::picture::{Chart, Column, Ranking, Report, Series, Shape, Table, Tone, Unit, label};

const NANOS: f64 = 1e9;

impl Shared {
    /// The figures of each way, scene by scene.
    pub fn table(&self) -> Table {
        let crashes = self.scenes.iter().any(|scene| !scene.crashes_nanos.is_empty());
        let columns = [
            ("", Column::Words, true),
            ("offered", Column::Figures, true),
            ("admitted", Column::Figures, true),
            ("used", Column::Figures, true),
            ("calls/decision", Column::Figures, true),
            ("over", Column::Figures, true),
            ("bound", Column::Figures, true),
            ("stranded", Column::Figures, true),
            ("lost", Column::Figures, crashes),
            ("fairness", Column::Figures, true),
        ];
        let shown = columns.map(|(.., shown)| shown);
        let names = columns.into_iter().filter(|(.., shown)| *shown);
        let mut table = Table::new(names.map(|(name, column, _)| (name.to_owned(), column)));
        for scene in &self.scenes {
            if self.scenes.len() > 1 {
                let empty = shown.iter().filter(|shown| **shown).skip(1).map(|_| String::new());
                table.push(std::iter::once(scene.name.clone()).chain(empty));
            }
            for run in &scene.runs {
                let cells = cells(run, self.scenes.len() > 1).into_iter().zip(shown);
                table.push(cells.filter(|(_, shown)| *shown).map(|(cell, _)| cell));
            }
        }
        table
    }

    /// What went ahead in the last window, for each scene.
    pub fn charts(&self) -> Vec<Chart> {
        let charts: Vec<Chart> = self.scenes.iter().map(|scene| self.chart(scene)).collect();
        let highest = charts.iter().map(Chart::highest).fold(0.0, f64::max);
        charts.into_iter().map(|chart| chart.at_least(highest)).collect()
    }

    fn chart(&self, scene: &Scene) -> Chart {
        let window = seconds(self.window_nanos);
        let length = scene.length_nanos as f64 / NANOS;
        let told = scene
            .runs
            .iter()
            .map(|run| format!("{}: {} over the limit at worst", run.way.name(), run.over));
        let mut chart = Chart::new(scene.name.clone())
            .describe(told.collect::<Vec<_>>().join(", "))
            .x(Unit::Seconds, "")
            .y(Unit::Count, format!("went ahead in the last {window}"))
            .span(0.0, length);
        for (tone, run) in (0u8..).map(Tone::Nth).zip(&scene.runs) {
            let slot = scene.slot_nanos as f64 / NANOS;
            let points = run.in_window.iter().enumerate();
            let points =
                points.map(|(number, units)| ((number as f64 + 1.0) * slot, *units as f64));
            chart = chart.with(Series::new(run.way.name(), Shape::Steps, points).tone(tone));
        }
        for at in &scene.crashes_nanos {
            let at = *at as f64 / NANOS;
            chart = chart.band(at, at + length / 400.0, "");
        }
        chart.level(self.count as f64, format!("{} per {window}", self.count))
    }

    /// How often each way calls the store, for each scene.
    pub fn rankings(&self) -> Vec<Ranking> {
        let ranking = |scene: &Scene| {
            let ranking = Ranking::new(scene.name.clone(), Unit::Count)
                .part("calls in a hundred decisions", Tone::Nth(0));
            scene.runs.iter().fold(ranking, |ranking, run| {
                ranking.row(run.way.name(), [100.0 * run.calls_per_decision])
            })
        };
        self.scenes.iter().map(ranking).collect()
    }

    /// A page with all of it; `made_by` is the command that makes it again.
    pub fn report(&self, made_by: &str) -> Report {
        Report::new(format!("{} shared by {} nodes", self.subject, self.nodes), self.lead())
            .table(&self.table())
            .charts(self.charts())
            .heading("How often the store is called")
            .rankings(self.rankings())
            .heading("Make it again")
            .verbatim(made_by)
    }

    /// What was simulated, in a sentence.
    pub fn lead(&self) -> String {
        let Shared { subject, nodes, seed, lease_share_percent: share, .. } = self;
        let [ttl, every, latency] =
            [self.lease_ttl_nanos, self.every_nanos, self.latency_nanos].map(seconds);
        let traffic = match self.scenes.as_slice() {
            [only] => format!("Traffic: {}. ", only.traffic.join(" + ")),
            _ => String::new(),
        };
        format!(
            "{subject} shared by {nodes} nodes. {traffic}Leases of {ttl}, at most {share}% of the limit; \
             periodic: every {every}; an answer of the store takes {latency}. Fake time, seed {seed}: \
             the same every time."
        )
    }
}

fn cells(run: &SharedRun, indented: bool) -> [String; 10] {
    let name = run.way.name();
    [
        if indented { format!("  {name}") } else { name.to_owned() },
        run.offered.to_string(),
        run.admitted.to_string(),
        format!("{:.1}%", run.used_percent),
        format!("{:.4}", run.calls_per_decision),
        run.over.to_string(),
        run.over_at_most.map_or("-".to_owned(), |most| most.to_string()),
        run.stranded.to_string(),
        run.lost.to_string(),
        format!("{:.3}", run.fairness),
    ]
}

fn seconds(nanos: u64) -> String {
    label(Unit::Seconds, nanos as f64 / NANOS)
}
