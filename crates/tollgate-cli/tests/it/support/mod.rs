//! The binary, files for it to read, and golden files of its output.

#[cfg(unix)]
mod output;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod server;
mod transcript;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

#[cfg(unix)]
pub(crate) use output::{event, events, log_text};
#[cfg(unix)]
pub(crate) use report::{line_of_rate, without_figures, without_reason_of_end, without_times};
#[cfg(unix)]
pub(crate) use server::{TestServer, read_answer, signal};
pub(crate) use transcript::{Transcript, assert_golden, assert_transcript};

/// The output of a command and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    /// The command line, as a shell takes it.
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// A temporary folder, removed when it is dropped.
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

    /// Writes a file, and the folder it is in.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        let parent = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(parent).expect("a folder can be made there");
        std::fs::write(path, text).expect("a file can be written there");
    }

    /// Writes a file in one step: a server that watches it never reads half of it.
    pub(crate) fn replace(&self, name: &str, text: impl AsRef<[u8]>) {
        // Outside the folder: a server that watches the whole folder does not see it.
        let mut new = self.0.clone().into_os_string();
        new.push(".new");
        std::fs::write(&new, text).expect("a file can be written there");
        std::fs::rename(&new, self.0.join(name)).expect("a file can be replaced");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect("the file is there")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs the command in this folder.
    pub(crate) fn tollgate(&self, arguments: &[&str]) -> Said {
        self.tollgate_with(&[], arguments)
    }

    /// Runs the command in this folder with these variables.
    pub(crate) fn tollgate_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
        run(&self.0, variables, arguments)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn tollgate_in(folder: &Path, arguments: &[&str]) -> Said {
    run(folder, &[], arguments)
}

/// The command, with nothing in the environment that changes its output.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    const OTHERS: [&str; 8] = [
        "COLUMNS",
        "NOTIFY_SOCKET",
        "REDIS_URL",
        "RUNTIME_ROOT",
        "RUNTIME_SUBDIRECTORY",
        "RUST_LOG",
        "SHADOW_MODE",
        "WATCHDOG_USEC",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let ours = |name: &str| name.starts_with("TOLLGATE_") || OTHERS.contains(&name);
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(folder);
    command
}

fn run(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let output = command(folder, arguments).envs(variables.iter().copied()).output();
    let output = output.expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    let line = transcript::command_line(variables, arguments);
    let (code, out, err) = (output.status.code(), text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{line}: {err}");
    Said { line, code, out, err }
}
