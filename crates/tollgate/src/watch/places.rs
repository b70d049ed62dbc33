//! Where a file is reached: the names whose change makes its path lead elsewhere.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links a path may lead over: as many as Linux follows.
const MAX_LINKS: usize = 40;

/// A name in a directory, which itself is reached over no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedPath {
    pub(super) dir: PathBuf,
    pub(super) name: OsString,
}

/// The file of an absolute path and every symbolic link on the way, or as far as the way goes: a
/// name that is not there is the last.
pub(super) fn places(path: &Path) -> Vec<WatchedPath> {
    let mut places = Vec::new();
    let mut links = 0;
    let mut dir = PathBuf::new();
    let mut rest = parts(path);
    while let Some(part) = rest.pop() {
        let PathPart::Name(name) = part else {
            part.apply(&mut dir);
            continue;
        };
        let here = dir.join(&name);
        let target = std::fs::read_link(&here).ok();
        let is_there = std::fs::symlink_metadata(&here).is_ok();
        if target.is_some() || !is_there || rest.is_empty() {
            places.push(WatchedPath { dir: dir.clone(), name });
        }
        match target {
            Some(target) if links < MAX_LINKS => {
                links += 1;
                rest.extend(parts(&target));
            }
            None if is_there => dir = here,
            _ => break,
        }
    }
    places
}

/// A step of a path that no longer borrows it.
enum PathPart {
    /// To the root, or on Windows the drive.
    From(OsString),
    /// To the directory above.
    Up,
    /// To what has this name.
    Name(OsString),
}

impl PathPart {
    fn apply(&self, dir: &mut PathBuf) {
        match self {
            PathPart::From(start) | PathPart::Name(start) => dir.push(start),
            PathPart::Up => {
                dir.pop();
            }
        }
    }
}

/// The steps of a path, the first of them last.
fn parts(path: &Path) -> Vec<PathPart> {
    let part = |component: Component<'_>| match component {
        Component::Prefix(_) | Component::RootDir => {
            Some(PathPart::From(component.as_os_str().to_owned()))
        }
        Component::CurDir => None,
        Component::ParentDir => Some(PathPart::Up),
        Component::Normal(name) => Some(PathPart::Name(name.to_owned())),
    };
    path.components().rev().filter_map(part).collect()
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// The places below `root`, each as a relative path.
    fn below(root: &Path, path: &str) -> Vec<PathBuf> {
        let full = |place: WatchedPath| place.dir.join(place.name);
        let relative = |path: PathBuf| path.strip_prefix(root).map(Path::to_owned);
        places(&root.join(path)).into_iter().map(full).flat_map(relative).collect()
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn every_link_on_the_way_is_a_place() {
        let temp = tempfile::tempdir().unwrap();
        let root = &temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("config/..1")).unwrap();
        fs::write(root.join("config/..1/file"), "").unwrap();
        symlink("..1", root.join("config/..data")).unwrap();
        symlink("..data/file", root.join("config/file")).unwrap();
        symlink(root.join("config"), root.join("link")).unwrap();
        assert_eq!(below(root, "config/..1/file"), paths(&["config/..1/file"]));
        let through = paths(&["link", "config/file", "config/..data", "config/..1/file"]);
        assert_eq!(below(root, "link/file"), through);
        assert_eq!(below(root, "link/../config/./file"), through);
    }

    #[test]
    fn the_way_ends_at_what_is_not_there() {
        let temp = tempfile::tempdir().unwrap();
        let root = &temp.path().canonicalize().unwrap();
        assert_eq!(below(root, "a/b/file"), paths(&["a"]));
        symlink("nowhere", root.join("file")).unwrap();
        assert_eq!(below(root, "file"), paths(&["file", "nowhere"]));
    }

    #[test]
    fn links_in_a_circle_come_to_an_end() {
        let temp = tempfile::tempdir().unwrap();
        let root = &temp.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(below(root, "a").len(), MAX_LINKS + 1);
    }
}
