//! The reference models under the contract they are there to check: a model that is wrong about
//! itself cannot say that others are.

use tollgate::ManualClock;
use tollgate_testkit::{NANO, Reference, store_contract};

store_contract!(|clock: ManualClock| Reference::new(clock), NANO, cases: 8);
