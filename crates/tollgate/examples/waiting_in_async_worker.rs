//! Workers that wait their turn: first come, first served, no thread blocked, and with a deadline.

use std::time::{Duration, Instant};

use tollgate::{AcquireError, Limit, Limiter};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A partner's API takes 50 calls a second, evenly spaced.
    let partner = Limiter::new(Limit::leaky_queue(50, Duration::from_secs(1)))?;

    let begun = Instant::now();
    let workers: Vec<_> = (1..=6)
        .map(|number| {
            let partner = partner.clone();
            tokio::spawn(async move {
                let turn = partner.acquire("partner").timeout(Duration::from_secs(5));
                turn.await.map(|_| (number, begun.elapsed()))
            })
        })
        .collect();
    for worker in workers {
        let (number, after) = worker.await??;
        println!("worker {number} calls after {after:?}");
    }
    assert!(begun.elapsed() >= Duration::from_millis(100), "six turns are five distances of 20 ms");

    // Who cannot be served in time is told at once instead of waiting in vain.
    let hourly = Limiter::new(Limit::per_hour(1))?;
    let _first = hourly.acquire("report").await?;
    let refused = hourly.acquire("report").timeout(Duration::from_secs(1)).await;
    match refused {
        Err(error @ AcquireError::DeadlineExceeded { .. }) => {
            println!("the second report: {error}")
        }
        other => panic!("an hour has not passed: {other:?}"),
    }
    Ok(())
}
