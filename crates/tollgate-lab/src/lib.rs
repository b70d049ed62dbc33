//! What people look at before they decide on a limit: traffic, simulation, logs, pictures.
//!
//! - [`traffic`] is who asks and when, the same for a seed on every machine.
//! - [`simulate`] runs it against limits, a policy or a fleet, under a clock of its own.
//! - [`picture`] draws: charts as SVG and for a terminal, and a report as one page of HTML.
//! - `replay`, with the feature of that name, decides the lines of a log by a policy.

pub mod picture;
#[cfg(feature = "replay")]
pub mod replay;
pub mod simulate;
pub mod traffic;
