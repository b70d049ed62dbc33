//! How far a run is, on standard error, where somebody looks at it.

use std::time::Instant;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::load::Load;
use super::plan::Plan;

pub(super) struct Bar {
    bar: ProgressBar,
    by_requests: bool,
}

impl Bar {
    pub(super) fn new(plan: &Plan) -> Bar {
        let time = (plan.warmup + plan.duration).as_millis();
        let length = plan.requests.unwrap_or(u64::try_from(time).unwrap_or(u64::MAX));
        // It draws nothing unless standard error is a terminal.
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3}%  {msg}") {
            bar.set_style(style);
        }
        Bar { bar, by_requests: plan.requests.is_some() }
    }

    pub(super) fn show(&self, load: &Load, begin: Instant) {
        if self.bar.is_hidden() {
            return;
        }
        let (answers, errors) = (load.records.answers(), load.records.errors());
        let passed = begin.elapsed().as_millis();
        let rate = u128::from(answers) * 1000 / passed.max(1);
        let rate = HumanCount(u64::try_from(rate).unwrap_or(u64::MAX));
        let wrong = match errors {
            0 => String::new(),
            errors => format!(", {} errors", HumanCount(errors)),
        };
        self.bar.set_message(format!("{} decisions, {rate}/s{wrong}", HumanCount(answers)));
        let done = answers + errors - load.records.warm().min(answers + errors);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.bar.set_position(if self.by_requests { done } else { passed });
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
