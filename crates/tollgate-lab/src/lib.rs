//! What people look at before they decide on a limit: pictures.
//!
//! - [`picture`] draws: charts as SVG and for a terminal, and a report as one page of HTML.

pub mod picture;
