//! What the system tells of changes in directories.

use std::path::PathBuf;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::places::WatchedPath;
use super::pulse::{FileEvent, PollTimer};

/// The system's word on changes, where it gives one.
pub(super) struct FileNotifier {
    watcher: Option<RecommendedWatcher>,
    dirs: Vec<PathBuf>,
}

impl FileNotifier {
    /// Passes on what the system says.
    pub(super) fn open(pulse: &Arc<PollTimer>) -> FileNotifier {
        let pulse = Arc::clone(pulse);
        let pass_on = move |event: notify::Result<Event>| match event {
            Ok(Event { kind: EventKind::Access(AccessKind::Open(_)), paths, .. }) => {
                pulse.opened(&paths);
            }
            Ok(event) => {
                if let Some(sign) = sign(&event.kind) {
                    pulse.sign(sign, &event.paths);
                }
            }
            Err(_) => pulse.sign(FileEvent::Touch, &[]),
        };
        FileNotifier { watcher: notify::recommended_watcher(pass_on).ok(), dirs: Vec::new() }
    }

    /// Hears nothing, as where the system has no more to give.
    #[cfg(all(test, not(loom)))]
    pub(super) fn closed() -> FileNotifier {
        FileNotifier { watcher: None, dirs: Vec::new() }
    }

    /// Turns to the directories of `places`; whether all of them can be watched. What changes
    /// after this is told of. Those that were watched stay so unless it is `anew`: a directory
    /// that was removed and made again has the same path and is another.
    pub(super) fn turn_to(&mut self, places: &[WatchedPath], anew: bool) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let is_wanted = |dir: &PathBuf| places.iter().any(|place| place.dir == *dir);
        for dir in self.dirs.extract_if(.., |dir| anew || !is_wanted(dir)) {
            // It is no longer there, or no longer watched: just as well.
            let _ = watcher.unwatch(&dir);
        }
        let mut sees_all = true;
        for place in places {
            if self.dirs.contains(&place.dir) {
                continue;
            }
            match watcher.watch(&place.dir, RecursiveMode::NonRecursive) {
                Ok(()) => self.dirs.push(place.dir.clone()),
                Err(_) => sees_all = false,
            }
        }
        sees_all
    }
}

/// What an event means for a file; nothing where it was only read, as the watch itself does.
fn sign(kind: &EventKind) -> Option<FileEvent> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Remove(_) => Some(FileEvent::Whole),
        EventKind::Access(_) => None,
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => {
            Some(FileEvent::Part)
        }
        _ => Some(FileEvent::Touch),
    }
}
