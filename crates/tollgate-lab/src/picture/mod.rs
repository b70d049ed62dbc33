//! Pictures: charts as SVG and for a terminal, tables, and a report as one page of HTML.
//!
//! A [`Chart`] is data: series of points over an axis, levels to hold them against, spans of time
//! that are marked. [`Chart::svg`] makes a picture of it that follows the reader's light or dark
//! mode, [`Chart::terminal`] one of characters. [`Ranking`] is who is first, as bars that lie.
//! A [`Report`] is a page with all of them that asks nobody for anything.
//!
//! Every text may come from a stranger: it is escaped where it is written.
//!
//! ```
//! use tollgate_lab::picture::{Chart, Screen, Series, Tone, Unit};
//!
//! let admitted = [(0.0, 20.0), (1.0, 2.0), (2.0, 1.0)];
//! let refused = [(0.0, 0.0), (1.0, 18.0), (2.0, 19.0)];
//! let chart = Chart::new("20 a second against 100/min burst 20")
//!     .x(Unit::Seconds, "time")
//!     .y(Unit::Count, "requests a second")
//!     .with(Series::bars("admitted", admitted).tone(Tone::Good))
//!     .with(Series::bars("refused", refused).tone(Tone::Bad));
//! assert!(chart.svg().starts_with("<svg "));
//! println!("{}", chart.terminal(Screen::plain(72)));
//! ```
#![allow(clippy::float_arithmetic, reason = "what is drawn decides nothing")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "places on a picture are small and not negative: they are clamped to it"
)]

mod chart;
mod escape;
mod html;
mod label;
mod ranking;
mod scale;
mod svg;
mod table;
mod terminal;

pub use chart::{Chart, Series, Shape, Tone, Unit};
pub use html::{Figure, Report};
pub use label::{label, label_between};
pub use ranking::Ranking;
pub use svg::{STYLE, panels};
pub use table::{Column, Table};
pub use terminal::{Screen, printable};
