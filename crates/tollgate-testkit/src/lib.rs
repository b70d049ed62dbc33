//! What Tollgate's tests share: slow and obvious models, the contract of a store, and traffic.
//!
//! - [`Reference`] answers as the specification says, from models that keep rationals and plain
//!   lists and find every wait by trying moments.
//! - [`store_contract!`] holds anything that implements [`StoreUnderTest`] to the eleven
//!   properties of the specification.
//! - [`RedisServer`] is a real `redis-server` of one's own, [`RedisCluster`] several that form a Cluster,
//!   [`RedisSentinel`] one that watches another.
//! - [`FaultProxy`] stands between a client and a server, and breaks what passes.
//! - [`within_lease_bound`] holds what a fleet admitted against what it may admit with leases.
//! - [`eventually`] polls until something holds: the only polling loop of the tests.
//! - [`assert_golden`] compares a text that people see with a file.
//! - [`fuzz`] runs a function on seeds and changes of them.
//! - [`monotone`] and its siblings are random traffic for random limits, the awkward ones among them.

mod answer;
mod cluster;
pub mod contract;
mod fault_proxy;
mod fuzz;
mod fuzz_input;
mod golden;
mod lease_bound;
mod manual;
mod model;
mod ports;
mod redis;
mod reference;
mod sentinel;
mod traffic;
#[cfg(test)]
mod type_names;
mod under_test;
mod wait;

pub use answer::Answer;
pub use cluster::{RedisCluster, command};
pub use fault_proxy::{Fault, FaultProxy};
pub use fuzz::fuzz;
pub use fuzz_input::FuzzInput;
pub use golden::assert_golden;
pub use lease_bound::{Admission, within_lease_bound};
pub use manual::{admitted, manual};
pub use model::KeyModel;
pub use ports::free_port;
pub use proptest;
pub use redis::RedisServer;
pub use reference::{Reference, ReferenceLimiter};
pub use sentinel::RedisSentinel;
pub use traffic::{
    Act, ChangingTrace, Move, NANO, Step, Trace, any_limits, calendars, cases, changing,
    changing_counts, changing_with_clock_steps, monotone, one_limit_of_each, with_clock_steps,
    with_reclaims, with_refunds, with_rewinds,
};
pub use under_test::{LimiterUnderTest, StoreUnderTest};
pub use wait::{DEADLINE, Poll, eventually, eventually_async};
