//! The policy engine: no I/O, no lock and no clock. The gate over the memory store and a store elsewhere
//! both stand on it.

mod evaluate;

pub(crate) use evaluate::{Evaluation, EvaluationMode, RuleObservation, evaluate};
