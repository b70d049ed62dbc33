//! Tiers by hand: each plan has its own numbers, and an upgrade forgets nothing.

use tollgate::{Limit, LimitError, Limiter, MemoryStore};

struct Tiers {
    free: Limiter,
    pro: Limiter,
}

impl Tiers {
    fn new(store: &MemoryStore) -> Result<Tiers, LimitError> {
        // The same name over the same store: the same keys, under other numbers.
        Ok(Tiers {
            free: store.limiter("api", Limit::per_hour(10))?,
            pro: store.limiter("api", Limit::per_hour(1000))?,
        })
    }

    fn of(&self, plan: &str) -> &Limiter {
        if plan == "pro" { &self.pro } else { &self.free }
    }
}

fn main() -> Result<(), LimitError> {
    let store = MemoryStore::builder().build()?;
    let tiers = Tiers::new(&store)?;

    let decision = tiers.of("free").check_n("ana", 7);
    println!("free: {} of {} left", decision.remaining(), decision.limit());
    assert_eq!((decision.remaining(), decision.limit()), (3, 10));

    // Ana upgrades. What she has used keeps its proportion: 70 % then, 70 % now.
    let decision = tiers.of("pro").check("ana");
    println!("pro:  {} of {} left", decision.remaining(), decision.limit());
    assert!(
        (299..=300).contains(&decision.remaining()),
        "three tenths, but for the one just taken"
    );
    assert_eq!(decision.limit(), 1000);
    Ok(())
}
