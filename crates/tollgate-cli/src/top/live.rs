//! The loop: something happens, the state changes, what it asks for is done, and it is drawn.

use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Clock;
use super::client::Client;
use super::draw::{Looks, draw};
use super::screen::{Screen, listen};
use super::state::{Command, Message, State};
use super::{watch, work};
use crate::Failure;
use crate::signals::Signals;

/// Waits are counted down by the second.
const TICK: Duration = Duration::from_secs(1);

/// Who tells more waits until what was told before is drawn.
const WAITING: usize = 256;

pub(super) async fn run(
    client: Client,
    mut state: State,
    clock: &Clock,
    looks: Looks,
) -> Result<(), Failure> {
    let (tell, mut told) = channel(WAITING);
    let mut tasks = JoinSet::new();
    let mut signals = Signals::new()?;
    tasks.spawn(watch::watch(client.clone(), tell.clone()));
    let useless = |error| Failure::Start(format!("cannot use this terminal: {error}"));
    let mut screen = Screen::enter().map_err(useless)?;
    listen(tell.clone()).map_err(useless)?;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|frame| draw(&state, looks, frame))?;
        let message = tokio::select! {
            Some(message) = told.recv() => message,
            () = signals.next() => Message::Ended,
            _ = tick.tick() => Message::Tick,
        };
        let mut commands = state.update(message, clock.now_ms());
        // Everything that has happened meanwhile is in one picture.
        while let Ok(message) = told.try_recv() {
            commands.extend(state.update(message, clock.now_ms()));
        }
        for command in commands {
            if command == Command::Leave {
                return Ok(());
            }
            tasks.spawn(carry_out(client.clone(), command, tell.clone()));
        }
        while let Some(ended) = tasks.try_join_next() {
            if let Err(broken) = ended
                && broken.is_panic()
            {
                std::panic::resume_unwind(broken.into_panic());
            }
        }
    }
}

async fn carry_out(client: Client, command: Command, tell: Sender<Message>) {
    let message = match command {
        Command::Hottest(of) => Message::Hottest(work::hottest(&client, &of).await),
        Command::Status(asked) => {
            let standing = work::standing(&client, &asked).await;
            Message::Standing(asked, standing)
        }
        Command::Find(text) => {
            let found = work::find(&client, &text).await;
            Message::Found(text, found)
        }
        Command::Others(key, rule) => {
            let others = work::others(&client, &key, rule.as_deref()).await;
            Message::Others(key, others)
        }
        Command::Change(change) => Message::Changed(work::change(&client, &change).await),
        Command::Leave => Message::Ended,
    };
    // Nobody listens any more when it is left.
    let _ = tell.send(message).await;
}
