//! One limit, many clients: each key is counted by itself.

use std::net::IpAddr;

use tollgate::{Limit, Limiter, WhenFull};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A limit may come from a configuration file. Memory is bounded, whoever knocks.
    let limit: Limit = "2/h burst 2".parse()?;
    let limiter = Limiter::builder(limit).max_keys(100_000).when_full(WhenFull::Evict).build()?;

    // A key is text, a number, an address, or several of them; parts never run into each other.
    let address: IpAddr = "203.0.113.9".parse()?;
    for _ in 0..3 {
        let decision = limiter.check(("acme", address));
        println!("acme from {address}: allowed {}", decision.is_allowed());
    }
    assert!(!limiter.check(("acme", address)).is_allowed());
    assert!(limiter.check(("other", address)).is_allowed(), "another key, another count");

    println!("\nwho has used something:");
    let mut keys: Vec<_> = limiter.keys().collect();
    keys.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, status) in keys {
        println!("  {name}: {} of {} used", status.used(), status.limit());
    }
    assert_eq!(limiter.len(), 2);

    // An operator forgives: the key is new again.
    limiter.reset(("acme", address));
    assert!(limiter.status(("acme", address)).is_fresh());
    Ok(())
}
