//! The Redis protocol: frames byte for byte, real clients, hostile ones.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod clients;
mod commands;
mod guesses;
mod hostile;
mod splits;
mod support;
