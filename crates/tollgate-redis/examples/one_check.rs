//! One check on a server: `cargo run -p tollgate-redis --example one_check -- redis://127.0.0.1`.

use tollgate::Limit;
use tollgate_redis::{RedisStore, StoreError};

#[tokio::main]
async fn main() -> Result<(), StoreError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".to_owned());
    let store = RedisStore::connect(&url).await?;
    let limiter = store.limiter("example", Limit::per_minute(10).burst(3))?;
    let decision = limiter.check("ana").await?;
    println!("{:?}, {} left of {}", decision.outcome(), decision.remaining(), decision.limit());
    Ok(())
}
