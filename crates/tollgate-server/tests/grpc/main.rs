//! Envoy's rate limit service, asked as Envoy asks it.

// Helpers of tests are not tests to clippy.
#![allow(clippy::unwrap_used)]

mod answers;
mod errors;
mod hits;
mod hostile;
mod json;
mod redis;
mod services;
mod several;
mod support;
