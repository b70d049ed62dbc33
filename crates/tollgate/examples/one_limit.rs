//! One limit: how much may pass, and what the answer says.

use tollgate::{Limit, LimitError, Limiter};

fn main() -> Result<(), LimitError> {
    // 100 per minute in the long run, at most 3 of them at once.
    let limiter = Limiter::new(Limit::per_minute(100).burst(3))?;

    let mut allowed = 0;
    for number in 1..=5 {
        let decision = limiter.check("");
        if decision.is_allowed() {
            allowed += 1;
            println!("request {number}: allowed, {} left", decision.remaining());
        } else {
            let wait = decision.retry_after().unwrap_or_default();
            println!("request {number}: denied, the same request passes in {wait:?}");
        }
    }
    assert_eq!(allowed, 3, "600 ms have not passed since the first");
    Ok(())
}
