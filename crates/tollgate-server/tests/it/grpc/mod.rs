//! Envoy's rate limit service, asked as Envoy asks it.

mod answers;
mod errors;
mod hits;
mod hostile;
mod json;
mod redis;
mod services;
mod several;
pub(crate) mod support;
