//! Following what goes on, and beginning again by itself whenever that ends.

use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::client::{Client, Problem};
use super::state::Message;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Who is turned away tries seldom: ten wrong tokens in a minute, and a server refuses the right
/// one, too.
const TURNED_AWAY: Duration = Duration::from_secs(30);

/// Tells everything that comes until nobody listens.
pub(super) async fn watch(client: Client, tell: Sender<Message>) {
    let mut wait = FIRST_WAIT;
    loop {
        let Err(problem) = follow(&client, &tell, &mut wait).await else { return };
        let pause = if problem.turns_away() { TURNED_AWAY } else { wait };
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if tell.send(Message::Lost(problem, millis)).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        wait = (wait * 5 / 3).min(LONGEST_WAIT);
    }
}

/// One connection, to its end; `Ok` where nobody listens any more.
async fn follow(
    client: &Client,
    tell: &Sender<Message>,
    wait: &mut Duration,
) -> Result<(), Problem> {
    let who = client.get("info").await?;
    let mut events = client.events().await?;
    if tell.send(Message::Connected(who)).await.is_err() {
        return Ok(());
    }
    loop {
        let sample = events.next().await?;
        *wait = FIRST_WAIT;
        if tell.send(Message::Sample(sample.into())).await.is_err() {
            return Ok(());
        }
    }
}
