//! Traffic, simulation, replay and charts.

#[cfg(feature = "replay")]
mod fuzz_log_line;
mod pictures;
#[cfg(feature = "replay")]
mod replay;
mod sharing;
mod shown;
mod simulate;
mod simulate_clock;
mod simulate_pictures;
mod traffic;
