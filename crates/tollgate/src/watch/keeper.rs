//! The watch's thread: waits, looks, and reports what is new.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::xxh3_128;

use super::ReloadEvent;
use super::eyes::FileNotifier;
use super::places::places;
use super::pulse::{FileEvent, PollStep, PollTimer};
use crate::policy::{Diagnostic, Policy, PolicyFileError, read};

/// How often to look where the system tells of changes: it may not tell of those on another
/// machine's disk, or of a directory above that was renamed.
const SELDOM: Duration = Duration::from_secs(10);

/// How often to look where it does not.
const OFTEN: Duration = Duration::from_secs(1);

/// How often a file that never rests is read in the hope that nobody writes just then.
const TRIES: usize = 20;

/// How long to wait for a writer to close the file.
const GRACE: Duration = Duration::from_millis(5);

/// How long to wait for the system's word that nobody wrote to the file while it was read. Only
/// Linux gives it; elsewhere this is how long it may take to tell of writing.
const WORD: Duration =
    if cfg!(target_os = "linux") { Duration::from_secs(1) } else { Duration::from_millis(10) };

/// Looks after one file.
pub(super) struct ReloadState {
    path: PathBuf,
    /// What errors call it.
    file: String,
    eyes: FileNotifier,
    pulse: Arc<PollTimer>,
    on_reload: Box<dyn FnMut(ReloadEvent) + Send>,
    /// What was reported last.
    known: Option<FileDigest>,
    /// How many signs of writing there had been when there was nothing in the file. Most often
    /// somebody has just begun to write it then, which the system tells a moment later; taken for
    /// a policy, it would lift every limit.
    empty_at: Option<u64>,
    /// The directory that the file itself is in.
    dir: PathBuf,
    /// How long to wait without a sign.
    patience: Duration,
}

/// What a file holds, or why it cannot be read, as a hash.
type FileDigest = (bool, u128);

impl ReloadState {
    pub(super) fn new(
        path: PathBuf,
        file: String,
        eyes: FileNotifier,
        pulse: Arc<PollTimer>,
        on_reload: Box<dyn FnMut(ReloadEvent) + Send>,
    ) -> ReloadState {
        ReloadState {
            path,
            file,
            eyes,
            pulse,
            on_reload,
            known: None,
            empty_at: None,
            dir: PathBuf::new(),
            patience: OFTEN,
        }
    }

    pub(super) fn run(&mut self) {
        self.turn(PollStep::Nothing);
        self.look();
        loop {
            let beat = self.pulse.wait(self.patience);
            if beat == PollStep::Stop {
                return;
            }
            self.turn(beat);
            match beat {
                PollStep::Rested => self.look(),
                PollStep::Restless => self.glance(),
                PollStep::Nothing | PollStep::Stop => self.check(),
            }
        }
    }

    /// Watches the places that the path leads over now; those it has watched before only anew if
    /// nothing goes on, or one of them is gone. What happens meanwhile is told of by nobody.
    fn turn(&mut self, beat: PollStep) {
        let mut anew = self.pulse.take_moved() || beat == PollStep::Nothing;
        let mut found = places(&self.path);
        // A link that is turned in between leads over places that are not watched yet.
        for _ in 0..3 {
            self.pulse.listen_for(&found);
            self.patience = if self.eyes.turn_to(&found, anew) { SELDOM } else { OFTEN };
            self.dir = found.last().map(|place| place.dir.clone()).unwrap_or_default();
            let now = places(&self.path);
            if now == found {
                return;
            }
            (found, anew) = (now, false);
        }
        self.pulse.remind(FileEvent::Touch);
    }

    /// Reads a file that rests, and reports it if it is new.
    fn look(&mut self) {
        let parts = self.pulse.parts();
        let text = self.read_whole(parts);
        let stays_empty = self.empty_at.take() == Some(parts);
        match text {
            Some(Ok(text)) if text.is_empty() && !stays_empty => {
                self.pulse.remind(FileEvent::Part);
                self.empty_at = Some(parts + 1);
            }
            Some(text) => self.report_new(text),
            None => self.pulse.remind(FileEvent::Part),
        }
    }

    /// Reads a file that does not rest. What is no policy may be half of one, and waits.
    fn glance(&mut self) {
        let mut tries = 0..TRIES;
        let text = tries.find_map(|_| {
            let parts = self.pulse.parts_when_finished(GRACE)?;
            self.read_whole(parts)?.ok().filter(|text| !text.is_empty())
        });
        if let Some(text) =
            text.filter(|text| Policy::of_file(&self.path, &self.file, text).is_ok())
        {
            self.report_new(Ok(text));
        }
        self.pulse.remind(FileEvent::Touch);
    }

    /// What the file holds, unless somebody wrote to it meanwhile. `parts` is how many signs of
    /// writing there were before.
    fn read_whole(&self, parts: u64) -> Option<Result<String, PolicyFileError>> {
        let before = self.trace();
        let text = self.read();
        let word = if self.patience == SELDOM { WORD } else { GRACE };
        (self.trace() == before && self.pulse.is_still(parts, &self.dir, word)).then_some(text)
    }

    /// Looks for a change that nobody told of; a writer may be in the middle of it.
    fn check(&mut self) {
        if self.is_new(&self.read()) {
            self.pulse.remind(FileEvent::Part);
        }
    }

    fn read(&self) -> Result<String, PolicyFileError> {
        let is_other = |about: std::fs::Metadata| !about.is_file() && !about.is_dir();
        if std::fs::metadata(&self.path).is_ok_and(is_other) {
            // Reading a pipe would wait for its writer, and dropping the watch for that.
            let message = "is a pipe or a device, must be a plain file".to_owned();
            let finding = Diagnostic { file: self.file.clone(), line: 0, rule: None, message };
            return Err(PolicyFileError { diagnostics: vec![finding] });
        }
        read(&self.path, &self.file)
    }

    fn is_new(&self, text: &Result<String, PolicyFileError>) -> bool {
        self.known != Some(content(text))
    }

    fn report_new(&mut self, text: Result<String, PolicyFileError>) {
        if !self.is_new(&text) {
            return;
        }
        self.known = Some(content(&text));
        let loaded = text.and_then(|text| Policy::of_file(&self.path, &self.file, &text));
        (self.on_reload)(match loaded {
            Ok(loaded) => ReloadEvent::Loaded(loaded),
            Err(error) => ReloadEvent::Rejected(error),
        });
    }

    /// What changes when the file is written to.
    fn trace(&self) -> Option<(u64, Option<SystemTime>)> {
        let about = std::fs::metadata(&self.path).ok()?;
        Some((about.len(), about.modified().ok()))
    }
}

fn content(text: &Result<String, PolicyFileError>) -> FileDigest {
    match text {
        Ok(text) => (true, xxh3_128(text.as_bytes())),
        Err(error) => (false, xxh3_128(error.to_string().as_bytes())),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn same_content_is_read_and_not_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("limits.toml");
        let (events, reloads) = mpsc::channel();
        let on_reload = Box::new(move |reload| events.send(reload).unwrap());
        let (file, pulse) = ("limits.toml".to_owned(), Arc::new(PollTimer::new()));
        let mut keeper =
            ReloadState::new(path.clone(), file, FileNotifier::closed(), pulse, on_reload);
        keeper.turn(PollStep::Nothing);
        for (rule, reports) in [("a", 1), ("a", 0), ("b", 1), ("b", 0), ("a", 1)] {
            let text = format!("[[rule]]\nname = \"{rule}\"\nlimit = \"1/s\"\n");
            std::fs::write(&path, text).unwrap();
            keeper.look();
            assert_eq!(reloads.try_iter().count(), reports, "{rule}");
        }
    }
}
