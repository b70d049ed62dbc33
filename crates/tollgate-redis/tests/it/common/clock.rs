//! A runtime for one test, whose clock the test moves: a timeout passes without waiting.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume, timeout};
use tollgate_redis::RedisGate;
use tollgate_testkit::eventually;

/// The precision of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

/// The time that an answer has in [`with_timeouts`], by the machine's clock.
const ANSWER: Duration = Duration::from_millis(20);

/// A runtime on the thread of the test. Its clock is the machine's, until a test pauses it; a paused
/// clock moves only when the test moves it.
pub(crate) struct OwnRuntime {
    /// Ends the task that keeps a paused clock from moving. Dropped before the runtime, which waits
    /// for the task.
    _held: Sender<()>,
    runtime: Runtime,
}

impl OwnRuntime {
    pub(crate) fn new() -> OwnRuntime {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let (held, ends) = channel::<()>();
        // A paused clock does not move by itself while a blocking task runs.
        runtime.spawn_blocking(move || ends.recv());
        OwnRuntime { _held: held, runtime }
    }

    /// A runtime whose clock is paused from the start.
    pub(crate) fn still() -> OwnRuntime {
        let runtime = OwnRuntime::new();
        runtime.block_on(async { pause() });
        runtime
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        // Boxed: the future of a test is large, and the stack of its thread is not.
        self.runtime.block_on(Box::pin(future))
    }
}

impl OwnRuntime {
    /// Waits until `holds`, while the clock moves ahead by a second and no more. `nodes` are the gates
    /// whose background tasks use that clock. It is paused otherwise.
    pub(crate) fn within_a_second(
        &self,
        what: &str,
        nodes: &[RedisGate],
        mut holds: impl AsyncFnMut() -> bool,
    ) {
        self.block_on(async {
            for node in nodes {
                sleeps(node).await;
            }
            advance(Duration::from_secs(1)).await;
        });
        eventually(what, || {
            self.block_on(async {
                run_others().await;
                holds().await
            })
        });
    }
}

/// Returns when the tasks of a gate in the background wait for the clock: answers come in the order of
/// the questions, so that theirs are there before the second of these.
async fn sleeps(node: &RedisGate) {
    for _ in 0..2 {
        node.store().probe().await.expect("the server answers");
        run_others().await;
    }
}

/// Lets the other tasks of the runtime run.
async fn run_others() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Runs a test on its own runtime.
pub(crate) fn alone<T>(future: impl Future<Output = T>) -> T {
    OwnRuntime::new().block_on(future)
}

/// The output of a call that gets no answer. The call waits for `limit` and no longer.
pub(crate) async fn after_timeout<T>(limit: Duration, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    pause();
    tokio::select! {
        biased;
        _ = &mut call => panic!("the call ends before its timeout of {limit:?}"),
        () = advance(limit - TICK) => {}
    }
    let output = tokio::select! {
        biased;
        output = &mut call => output,
        () = longer() => panic!("the call waits longer than its timeout of {limit:?}"),
    };
    resume();
    output
}

/// Moves the clock past the timeout, and lets every task run that the timeout wakes.
async fn longer() {
    advance(TICK * 2).await;
    run_others().await;
}

/// The output of a call that may get no answer, and the number of timeouts that passed meanwhile: the
/// clock moves ahead by `limit` whenever there is no answer for a short time. For tests to which an
/// answer that comes too late is as good as one in time.
pub(crate) async fn with_timeouts<T>(limit: Duration, call: impl Future<Output = T>) -> (T, u32) {
    let mut call = pin!(call);
    for timeouts in 0..100 {
        if let Ok(output) = timeout(ANSWER, &mut call).await {
            return (output, timeouts);
        }
        pass(limit).await;
    }
    panic!("the call does not end");
}

/// Moves the clock ahead by `time`.
pub(crate) async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}
