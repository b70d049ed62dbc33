//! Waiting: how long 1000 tasks take to get one unit each of one key, at a rate and with a burst of 1.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate::{Limit, Limiter};

use crate::measure::quantile;

const TASKS: u32 = 1000;
const RATES: [u32; 4] = [500, 1000, 5000, 10_000];
const GOAL: f64 = 1.1;
const KEY: &str = "partner";

pub(crate) fn run(rounds: usize) {
    let runtime = Runtime::new().expect("a runtime can be made");
    println!("{TASKS} tasks wait for one unit each of one key, burst 1: elapsed / ideal");
    println!("{rounds} rounds in turn: median, and the worst round in parentheses");
    println!("  {:>8}  {:>16}  {:>16}", "rate", "acquire", "until_key_ready");
    for rate in RATES {
        let ideal = f64::from(TASKS - 1) / f64::from(rate);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(runtime.block_on(acquire(rate)).as_secs_f64() / ideal);
            theirs.push(runtime.block_on(until_key_ready(rate)).as_secs_f64() / ideal);
        }
        let shown =
            |ratios: &[f64]| format!("{:.3} ({:.3})", quantile(ratios, 0.5), quantile(ratios, 1.0));
        let verdict = if quantile(&ours, 0.5) <= GOAL { "reached" } else { "missed" };
        println!(
            "  {rate:>6}/s  {:>16}  {:>16}  goal {GOAL}: {verdict}",
            shown(&ours),
            shown(&theirs)
        );
    }
}

/// Ours. A wait that is refused fails the run.
async fn acquire(rate: u32) -> Duration {
    let limit = Limit::per_second(u64::from(rate)).burst(1);
    let limiter = Limiter::new(limit).expect("the limit is valid");
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.acquire(KEY).await.expect("no deadline is set") });
    }
    tasks.join_all().await;
    start.elapsed()
}

async fn until_key_ready(rate: u32) -> Duration {
    let rate = NonZeroU32::new(rate).expect("no rate is 0");
    let quota = Quota::per_second(rate).allow_burst(NonZeroU32::MIN);
    let limiter: Arc<DefaultKeyedRateLimiter<&str>> = Arc::new(RateLimiter::keyed(quota));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let limiter = Arc::clone(&limiter);
        tasks.spawn(async move { limiter.until_key_ready(&KEY).await });
    }
    tasks.join_all().await;
    start.elapsed()
}
