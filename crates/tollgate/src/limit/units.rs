//! The units of time people write.

use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
pub(super) const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
