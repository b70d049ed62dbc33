//! The terminal: taken over while it is drawn on, and given back however that ends.

use std::io;

use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event};
use ratatui::crossterm::execute;
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::Sender;

use super::state::Message;

/// Gives the terminal back when it is dropped. A panic gives it back before it says what is wrong,
/// so that this is seen.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn enter() -> io::Result<Screen> {
        let screen = Screen(ratatui::try_init()?);
        // So that a text that is pasted is not taken for keys that are pressed: an `r` and a `y`
        // in it would reset somebody.
        execute!(io::stdout(), EnableBracketedPaste)?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is there to be told if there is no terminal any more.
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = ratatui::try_restore();
    }
}

/// Tells what is pressed, from a thread of its own: it waits for the terminal until the process
/// ends.
pub(super) fn listen(tell: Sender<Message>) -> io::Result<()> {
    let listening = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) => Message::Pressed(key),
                Ok(Event::Paste(text)) => Message::Pasted(text),
                // The next picture has the new size.
                Ok(_) => Message::Tick,
                Err(_) => Message::Ended,
            };
            let ended = matches!(message, Message::Ended);
            if tell.blocking_send(message).is_err() || ended {
                return;
            }
        }
    });
    listening.map(|_| ())
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "run by the test below, in a terminal"]
    fn panics_on_the_screen() {
        let mut screen = Screen::enter().unwrap();
        screen.draw(|frame| frame.render_widget("picture", frame.area())).unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        let ourselves = std::env::current_exe().unwrap();
        let name = "top::screen::tests::panics_on_the_screen";
        let line = format!(
            "stty sane rows 24 cols 80; {} --ignored --exact {name} --nocapture; stty -a",
            ourselves.display()
        );
        let output = Command::new("script").args(["-qec", &line, "/dev/null"]).output();
        let output = output.expect("script, of the package bsdutils");
        let said = String::from_utf8_lossy(&output.stdout);
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("no {text:?} in {said}"));
        assert!(at("\u{1b}[?1049h") < at("picture"), "{said}");
        assert!(at("\u{1b}[?1049l") < at("on purpose"), "{said}");
        assert!(said.contains("\u{1b}[?25h"), "the cursor is there again: {said}");
        assert!(said.contains("\u{1b}[?2004l"), "what is pasted is typed again: {said}");
        let settings = &said[said.rfind("speed").unwrap()..];
        assert!(settings.contains(" icanon") && settings.contains(" echo "), "{settings}");
    }
}
