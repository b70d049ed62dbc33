//! The binary, and files for it to read.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// What the command said, and its exit code.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// A folder that goes when the test ends.
pub(crate) struct Folder(PathBuf);

static FOLDERS: AtomicUsize = AtomicUsize::new(0);

impl Folder {
    pub(crate) fn new() -> Folder {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    /// A folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), text).expect("a file can be written there");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect("the file is there")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs the command in this folder.
    pub(crate) fn tollgate(&self, arguments: &[&str]) -> Said {
        tollgate_in(&self.0, arguments)
    }

    /// Runs the command in this folder with these variables.
    pub(crate) fn tollgate_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
        run(command(&self.0, arguments).envs(variables.iter().copied()), arguments)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn tollgate_in(folder: &Path, arguments: &[&str]) -> Said {
    run(&mut command(folder, arguments), arguments)
}

/// The command, with nothing in the environment that would change what it does.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let ours =
        |name: &str| name.starts_with("TOLLGATE_") || name == "RUST_LOG" || name == "NOTIFY_SOCKET";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(folder);
    command
}

fn run(command: &mut Command, arguments: &[&str]) -> Said {
    let output = command.output().expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("what it says is text");
    let said =
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
    assert!(!said.err.contains("panicked"), "{arguments:?}: {}", said.err);
    said
}
