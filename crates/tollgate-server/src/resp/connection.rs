//! One connection: reads what there is, answers it as a whole, writes once.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::buffers::{Input, give_back_output, take_output};
use super::{Resp, RespBounds};
use crate::metrics::{Transport, add};
use crate::resp::bounds::{MAX_COMMAND, SHORT_ANSWERS};

/// Why a connection ended before its client said so.
#[derive(Debug)]
enum Ended {
    TimedOut,
    Broken,
}

/// Serves a connection until its client leaves, breaks a bound, or `stop` comes.
pub(super) async fn run<S>(
    mut stream: S,
    (resp, peer): (Resp, Option<IpAddr>),
    stop: impl Future<Output = ()>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(Ended::TimedOut) = converse(&mut stream, (&resp, peer), stop).await {
        add(&resp.0.counters().timed_out);
    }
    // The client may be gone: then there is nobody to say goodbye to.
    let _ = timeout(resp.0.bounds.unread, stream.shutdown()).await;
}

async fn converse<S>(
    stream: &mut S,
    (resp, peer): (&Resp, Option<IpAddr>),
    stop: impl Future<Output = ()>,
) -> Result<(), Ended>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (bounds, mut session) = (&resp.0.bounds, resp.session_of(peer));
    let mut input = Input::default();
    let mut patience = Patience::new(bounds.first_byte);
    tokio::pin!(stop);
    loop {
        let read = tokio::select! {
            biased;
            read = poll_fn(|context| input.poll_fill(stream, context)) => {
                read.map_err(|_| Ended::Broken)?
            }
            () = patience.end() => return Err(Ended::TimedOut),
            () = &mut stop => return Ok(()),
        };
        if read == 0 {
            return Ok(());
        }
        let is_full = input.is_full();
        let mut output = take_output();
        let mut answered = false;
        let mut now;
        loop {
            let began = Instant::now();
            now = began;
            let used = session.answer(input.bytes(), &mut output);
            input.used(used);
            if session.waits_for_store() {
                session.ask_store(&mut output).await;
            }
            answered |= used > 0;
            if output.is_empty() {
                break;
            }
            now = Instant::now();
            resp.0.app.metrics.latency(Transport::Resp).record(now - began);
            let_others_read(&mut input, &output).await;
            now = write(stream, &mut output, bounds).await?.unwrap_or(now);
            if input.bytes().is_empty() {
                break;
            }
            if session.is_in_exec() {
                yield_now().await;
            }
        }
        if session.is_over() {
            linger(stream, bounds).await;
            return Ok(());
        }
        patience.renew((&input, answered), now, bounds);
        input.tidy();
        give_back_output(output);
        if is_full {
            // There may be more, and others of this thread wait: they are next.
            yield_now().await;
            // Who always has more would never let the end be looked for above.
            if poll_fn(|context| Poll::Ready(stop.as_mut().poll(context).is_ready())).await {
                linger(stream, bounds).await;
                return Ok(());
            }
        }
    }
}

/// Lets the others of this thread go first that are ready, where the answers are short and all there was to
/// read is answered. So all that came at once is read and
/// answered before the first answer goes out: written one by one, each would wake a client that
/// finds only its own, and to wake and to wait costs both sides more than the decision.
async fn let_others_read(input: &mut Input, output: &[u8]) {
    if !input.bytes().is_empty() || output.len() > SHORT_ANSWERS {
        return;
    }
    input.tidy();
    let mut went = false;
    poll_fn(|context| {
        if std::mem::replace(&mut went, true) {
            return Poll::Ready(());
        }
        // Behind all that are ready now; a yield of the runtime would look for more first.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// When the answers had gone out, if that had to be waited for.
async fn write<S>(
    stream: &mut S,
    output: &mut Vec<u8>,
    bounds: &RespBounds,
) -> Result<Option<Instant>, Ended>
where
    S: AsyncWrite + Unpin,
{
    let mut written = pin!(async {
        stream.write_all(output).await?;
        // TLS keeps what the client was too slow to take until it is told to write it.
        stream.flush().await
    });
    // Nearly always all goes out at once: then no timer is made.
    let at_once = poll_fn(|context| Poll::Ready(written.as_mut().poll(context))).await;
    let (written, waited) = match at_once {
        Poll::Ready(written) => (written, None),
        Poll::Pending => {
            let written = timeout(bounds.unread, written).await.map_err(|_| Ended::TimedOut)?;
            (written, Some(Instant::now()))
        }
    };
    written.map_err(|_| Ended::Broken)?;
    output.clear();
    Ok(waited)
}

/// Closes after the last word and reads on for a moment: a system that closes on unread bytes resets the
/// connection, and the client would lose the answer that says why.
async fn linger<S>(stream: &mut S, bounds: &RespBounds)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let drain = async {
        let _ = stream.shutdown().await;
        let mut unread = [0; 1024];
        let mut left = MAX_COMMAND;
        while let Ok(read @ 1..) = stream.read(&mut unread).await {
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    };
    let _ = timeout(bounds.unread.min(Duration::from_millis(200)), drain).await;
}

/// When the server has waited long enough. The timer is moved only when it has gone off or must
/// go off earlier, so that a busy connection never touches it.
struct Patience {
    timer: Pin<Box<Sleep>>,
    due: Instant,
    /// Whether part of a command is there: then the rest has a time of its own.
    begun: bool,
}

impl Patience {
    fn new(wait: Duration) -> Patience {
        let due = Instant::now() + wait;
        Patience { timer: Box::pin(sleep_until(due)), due, begun: false }
    }

    async fn end(&mut self) {
        loop {
            self.timer.as_mut().await;
            if Instant::now() >= self.due {
                return;
            }
            self.timer.as_mut().reset(self.due);
        }
    }

    /// Gives more time for what was done. The rest of a command gets none for coming in pieces.
    fn renew(&mut self, (input, answered): (&Input, bool), now: Instant, bounds: &RespBounds) {
        let partial = !input.bytes().is_empty();
        if partial && self.begun && !answered {
            return;
        }
        self.begun = partial;
        self.due = now + if partial { bounds.rest_of_command } else { bounds.idle };
        if self.due < self.timer.deadline() {
            self.timer.as_mut().reset(self.due);
        }
    }
}

#[cfg(test)]
mod tests;
