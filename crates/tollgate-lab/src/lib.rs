//! What people look at before they decide on a limit: traffic, simulation, pictures.
//!
//! - [`traffic`] is who asks and when, the same for a seed on every machine.
//! - [`simulate`] runs it against limits, a policy or a fleet, under a clock of its own.
//! - [`picture`] draws: charts as SVG and for a terminal, and a report as one page of HTML.

pub mod picture;
pub mod simulate;
pub mod traffic;
