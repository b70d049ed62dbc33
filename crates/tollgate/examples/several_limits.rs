//! Several limits on one request, all or nothing: what one denies is charged to none.

use std::time::Duration;

use tollgate::{Limit, LimitError, MemoryStore, check_all};

fn main() -> Result<(), LimitError> {
    // Limiters of one store share its memory, its clock and its snapshot.
    let store = MemoryStore::builder().build()?;
    let per_user = store.limiter("per user", Limit::sliding_log(3, Duration::from_secs(60)))?;
    let everybody = store.limiter("everybody", Limit::per_hour(4))?;

    for user in ["ana", "ana", "ana", "ana", "ben", "cleo"] {
        let decisions = check_all(&[per_user.charge(user), everybody.charge("")]);
        let (by, decision) = decisions.deciding().expect("there are two charges");
        match decisions.is_allowed() {
            true => println!("{user}: allowed, nearest to its end is {by:?}"),
            false => println!(
                "{user}: denied by {by:?}, passes in {:?}",
                decision.retry_after().unwrap_or_default()
            ),
        }
    }

    // Ana's fourth request and Cleo's were denied by one limit and cost nothing at the other.
    assert_eq!(per_user.status("ana").used(), 3);
    assert!(per_user.status("cleo").is_fresh());
    assert_eq!(everybody.status("").remaining(), 0);
    Ok(())
}
