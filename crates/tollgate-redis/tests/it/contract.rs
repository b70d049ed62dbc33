//! The Redis store under the contract of every store, on a real server with injected time.

use crate::common::{MICRO, injected};
use tollgate_testkit::store_contract;

store_contract!(injected, MICRO, cases: 24);
