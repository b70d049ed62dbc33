//! When to look at a file that somebody is writing to.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::places::WatchedPath;

/// How long a file must rest before it is read.
const QUIET: Duration = Duration::from_millis(100);

/// How long it must rest while its writer has not closed it, which some systems never tell.
const UNFINISHED: Duration = Duration::from_secs(1);

/// After how long it is read although it does not rest.
const LONGEST: Duration = Duration::from_secs(2);

/// What somebody did to one of the places a file is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileEvent {
    /// It is there or gone as a whole: renamed, removed, closed after writing.
    Whole,
    /// It was written to, or made: more may follow.
    Part,
    /// Something else, such as its permissions.
    Touch,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollStep {
    /// The watch was dropped.
    Stop,
    /// There were signs, and then none for long enough.
    Rested,
    /// There have been signs for too long.
    Restless,
    /// There were no signs.
    Nothing,
}

/// Signs since somebody last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnsettledFile {
    since: Instant,
    last: Instant,
    unfinished: bool,
}

impl UnsettledFile {
    fn new(now: Instant) -> UnsettledFile {
        UnsettledFile { since: now, last: now, unfinished: false }
    }

    fn take(&mut self, sign: FileEvent, now: Instant) {
        self.last = now;
        match sign {
            FileEvent::Whole => self.unfinished = false,
            FileEvent::Part => self.unfinished = true,
            FileEvent::Touch => {}
        }
    }

    /// When to look, and what for.
    fn due(&self) -> (Instant, PollStep) {
        let rested = self.last + if self.unfinished { UNFINISHED } else { QUIET };
        let longest = self.since + LONGEST;
        if rested <= longest { (rested, PollStep::Rested) } else { (longest, PollStep::Restless) }
    }
}

/// The signs that the system's thread gives and the watch's thread waits for.
#[derive(Debug)]
pub(super) struct PollTimer {
    state: Mutex<PollState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PollState {
    stopped: bool,
    unrest: Option<UnsettledFile>,
    /// How many signs of writing there were so far.
    parts: u64,
    /// Whether the last sign was one of them.
    unfinished: bool,
    /// How often one of the directories was opened.
    opens: u64,
    /// Whether one of the directories was removed or renamed.
    has_moved: bool,
    dirs: HashSet<PathBuf>,
    names: HashSet<OsString>,
}

impl PollTimer {
    pub(super) fn new() -> PollTimer {
        PollTimer { state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// From now on signs count that are about these places.
    pub(super) fn listen_for(&self, places: &[WatchedPath]) {
        let mut state = self.state.lock();
        state.dirs = places.iter().map(|place| place.dir.clone()).collect();
        state.names = places.iter().map(|place| place.name.clone()).collect();
    }

    /// A sign, if it is about one of the places.
    pub(super) fn sign(&self, sign: FileEvent, paths: &[PathBuf]) {
        let mut state = self.state.lock();
        let is_dir = paths.iter().any(|path| state.dirs.contains(path));
        let is_name =
            |path: &PathBuf| path.file_name().is_some_and(|name| state.names.contains(name));
        // Without a path it is about everything: the system lost count.
        if is_dir || paths.is_empty() || paths.iter().any(is_name) {
            state.has_moved |= paths.is_empty() || is_dir && sign == FileEvent::Whole;
            state.take(sign, Instant::now());
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Somebody opened something.
    pub(super) fn opened(&self, paths: &[PathBuf]) {
        let mut state = self.state.lock();
        if paths.iter().any(|path| state.dirs.contains(path)) {
            state.opens += 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Whether one of the directories was removed or renamed since this was last asked.
    pub(super) fn take_moved(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_moved)
    }

    /// A sign of what the watch found out for itself.
    pub(super) fn remind(&self, sign: FileEvent) {
        self.state.lock().take(sign, Instant::now());
    }

    /// Waits until it is time to look; at most for `most` while there are no signs.
    pub(super) fn wait(&self, most: Duration) -> PollStep {
        let nothing_until = Instant::now() + most;
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return PollStep::Stop;
            }
            let due = state.unrest.as_ref().map(UnsettledFile::due);
            let (until, beat) = due.unwrap_or((nothing_until, PollStep::Nothing));
            if Instant::now() >= until {
                state.unrest = None;
                return beat;
            }
            self.changed.wait_until(&mut state, until);
        }
    }

    /// Waits until nobody seems to be in the middle of writing, at most for `most`. How many
    /// signs of writing there were, or nothing if somebody still is.
    pub(super) fn parts_when_finished(&self, most: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        let until = Instant::now() + most;
        while state.unfinished && !state.stopped {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        (!state.unfinished).then_some(state.parts)
    }

    /// How many signs of writing there were.
    pub(super) fn parts(&self) -> u64 {
        self.state.lock().parts
    }

    /// Whether there was no sign of writing beyond `parts` up to now, nor an end. `dir` is one of
    /// the directories: it is opened, and the system tells of that after all that came before.
    /// Where it does not, nothing must have come for `most`.
    pub(super) fn is_still(&self, parts: u64, dir: &Path, most: Duration) -> bool {
        let opens = self.state.lock().opens;
        let opened = std::fs::File::open(dir);
        let until = Instant::now() + most;
        let mut state = self.state.lock();
        // Also where it is known to be in vain: the word must not be taken for that of the next.
        while state.opens == opens && !state.stopped {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        drop(opened);
        state.parts == parts && !state.stopped
    }
}

impl PollState {
    fn take(&mut self, sign: FileEvent, now: Instant) {
        self.unrest.get_or_insert_with(|| UnsettledFile::new(now)).take(sign, now);
        match sign {
            FileEvent::Part => (self.parts, self.unfinished) = (self.parts + 1, true),
            FileEvent::Whole => self.unfinished = false,
            FileEvent::Touch => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn after(start: Instant, signs: &[(u64, FileEvent)]) -> (Duration, PollStep) {
        let mut unrest = UnsettledFile::new(start);
        for (millis, sign) in signs {
            unrest.take(*sign, start + Duration::from_millis(*millis));
        }
        let (until, beat) = unrest.due();
        (until - start, beat)
    }

    #[test]
    fn a_file_is_read_when_it_has_rested() {
        let start = Instant::now();
        let signs = [(0, FileEvent::Part), (10, FileEvent::Part), (20, FileEvent::Whole)];
        assert_eq!(after(start, &signs), (Duration::from_millis(120), PollStep::Rested));
    }

    #[test]
    fn a_file_that_is_not_closed_must_rest_longer() {
        let start = Instant::now();
        let signs = [(0, FileEvent::Whole), (20, FileEvent::Part), (30, FileEvent::Touch)];
        assert_eq!(after(start, &signs), (Duration::from_millis(1030), PollStep::Rested));
    }

    #[test]
    fn a_file_that_never_rests_is_read_all_the_same() {
        let start = Instant::now();
        let signs: Vec<_> = (0..1000).map(|step| (step * 50, FileEvent::Whole)).collect();
        assert_eq!(after(start, &signs), (LONGEST, PollStep::Restless));
    }
}
