//! A run from its first connection to its last answer.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::load::{Asker, Connection, Load};
use super::plan::Plan;
use super::progress::Bar;
use super::records::Records;
use super::report::{Report, Span};
use super::schedule::Schedule;
use crate::signals::Signals;

/// Connections that are made at once: more would only wait in the server's queue.
const DIALLED_AT_ONCE: usize = 32;

const TICK: Duration = Duration::from_millis(125);

/// Loads the server as the plan says. What keeps it from beginning is told as text.
pub(super) async fn run(plan: &Plan, asker: Asker, mut signals: Signals) -> Result<Report, String> {
    let asker = Arc::new(asker);
    asker.probe().await?;
    let connections = connect(plan, &asker).await?;
    let begin = Instant::now();
    let from = begin + plan.warmup;
    let load = Arc::new(Load {
        asker,
        schedule: Schedule::new(begin, plan.rate, plan.warmup, plan.requests),
        records: Records::new(),
    });
    let pacing = Arc::clone(&load);
    let pacer = thread::spawn(move || pacing.schedule.keep_pace());
    let mut working = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        let load = Arc::clone(&load);
        working.spawn(async move { load.run(number, connection).await });
    }
    let bar = Bar::new(plan);
    let ended = watch(plan, &load, (&mut working, &mut signals), &bar).await;
    load.schedule.stop();
    let stopped = Instant::now();
    signals.exit_at_next();
    while working.join_next().await.is_some() {}
    bar.end();
    // It has ended by itself, since the schedule has.
    let _ = pacer.join();
    let span = Span { from, stopped, interrupted: matches!(ended, End::Interrupted) };
    Ok(Report::new(plan, &load, span))
}

/// All connections, or why one of them could not be made.
async fn connect(plan: &Plan, asker: &Arc<Asker>) -> Result<Vec<Connection>, String> {
    let dialled = stream::iter(0..plan.connections).map(|_| asker.connect());
    dialled.buffer_unordered(DIALLED_AT_ONCE).try_collect().await
}

enum End {
    /// Its time is up, all requests were sent, or no connection is left.
    Over,
    Interrupted,
}

/// Waits for the end, and shows how far it is.
async fn watch(
    plan: &Plan,
    load: &Load,
    (working, signals): (&mut JoinSet<()>, &mut Signals),
    bar: &Bar,
) -> End {
    let begin = Instant::now();
    let warm = sleep_until((begin + plan.warmup).into());
    let end = sleep_until((begin + plan.warmup + plan.duration).into());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tokio::pin!(warm, end);
    let mut is_warm = plan.warmup.is_zero();
    loop {
        tokio::select! {
            () = &mut end, if plan.requests.is_none() => return End::Over,
            () = &mut warm, if !is_warm => {
                is_warm = true;
                load.schedule.measure();
            }
            () = signals.next() => return End::Interrupted,
            left = working.join_next() => if left.is_none() { return End::Over },
            _ = tick.tick() => bar.show(load, begin),
        }
    }
}
