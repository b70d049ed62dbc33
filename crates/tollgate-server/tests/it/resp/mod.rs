//! The Redis protocol: frames byte for byte, real clients, hostile ones.

mod clients;
mod commands;
mod guesses;
mod hostile;
mod splits;
mod support;
mod transactions;
