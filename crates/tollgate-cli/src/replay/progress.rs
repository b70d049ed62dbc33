//! How far it is, for who watches.

use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_lab::replay::{Log, Order, Progress};

/// A bar on standard error, where that is a terminal.
pub(super) struct Bar {
    bar: ProgressBar,
    order: Order,
}

impl Bar {
    pub(super) fn new(logs: &[Log], order: Order) -> Bar {
        let length = logs.iter().map(Log::length).sum::<Option<u64>>();
        // It draws nothing unless standard error is a terminal.
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(8));
        let template = match length {
            Some(_) => "{wide_bar} {percent:>3}%  {msg}  {bytes_per_sec}  {eta} left",
            None => "{spinner} {bytes}  {msg}  {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Bar { bar, order }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let seconds = self.bar.elapsed().max(Duration::from_millis(1)).as_millis();
        let rate = u128::from(progress.lines) * 1000 / seconds;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (lines, rate) = (HumanCount(progress.lines), HumanCount(rate));
        let message = match self.order {
            // All of it is read before the first is decided.
            Order::Sorted if progress.decided > 0 => {
                format!("{lines} lines in order, {} decided", HumanCount(progress.decided))
            }
            _ => format!("{lines} lines, {rate}/s"),
        };
        self.bar.set_message(message);
        self.bar.set_position(progress.bytes);
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// How wide a terminal is; 80 columns where there is none.
pub(super) fn columns() -> usize {
    let (_, columns) = console::Term::stdout().size();
    usize::from(columns)
}
