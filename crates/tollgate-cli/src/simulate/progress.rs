//! How far a long simulation is, on standard error, where somebody looks at it.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tollgate_lab::simulate::Decided;

/// What takes no longer than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two looks at the clock, so that looking costs nothing.
const DECISIONS: u32 = 16_384;

pub(super) struct Progress {
    begun: Instant,
    heard: u32,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { begun: Instant::now(), heard: 0, bar: None }
    }

    pub(super) fn on(&mut self, decided: &Decided<'_>) {
        self.heard += 1;
        if self.heard < DECISIONS {
            return;
        }
        self.heard = 0;
        let (run, runs) = (decided.run.0 as u64, decided.run.1 as u64);
        if self.bar.is_none() && self.begun.elapsed() > PATIENCE {
            // It draws on standard error, and only if that is a terminal.
            let bar = ProgressBar::new(runs * 1000);
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}%, {eta} left") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(run * 1000 + decided.progress);
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
