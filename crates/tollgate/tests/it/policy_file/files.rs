//! Files that cannot be read.

use std::fs;
use std::path::PathBuf;

use tollgate::Policy;

/// A place of its own for each test; what was there is gone.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[track_caller]
fn refuses(path: &PathBuf, message: &str) {
    let error = Policy::load(path).expect_err("it cannot be read");
    assert_eq!(error.to_string(), format!("{}{message}", path.display()));
    assert_eq!(error.diagnostics.len(), 1);
}

#[test]
fn a_file_is_loaded_and_its_mistakes_carry_its_name() {
    let path = folder("good").join("limits.toml");
    fs::write(&path, "[[rule]]\nname = \"a\"\nkey = [\"user\"]\nlimit = \"1/s\"\n").unwrap();
    assert_eq!(Policy::load(&path).unwrap().policy.rules.len(), 1);
    fs::write(&path, "x = 1").unwrap();
    let error = Policy::load(&path).unwrap_err();
    assert_eq!(error.diagnostics[0].file, path.display().to_string());
}

#[test]
fn a_missing_file_says_so() {
    refuses(&folder("missing").join("limits.toml"), ": there is no such file");
}

#[test]
fn a_directory_says_so() {
    refuses(&folder("directory"), ": is a directory, name a file in it");
}

#[test]
fn a_file_of_100_mb_is_refused_without_reading_it() {
    let path = folder("large").join("limits.toml");
    // Sparse: it takes no room and no time to make.
    fs::File::create(&path).unwrap().set_len(100_000_000).unwrap();
    refuses(&path, ": is larger than 64 MiB, a policy must be smaller");
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    refuses(&PathBuf::from("/dev/zero"), ": is larger than 64 MiB, a policy must be smaller");
}

#[test]
fn text_that_is_not_utf_8_says_in_which_line() {
    let path = folder("latin").join("limits.toml");
    fs::write(&path, b"# one\n# two\nname = \"caf\xe9\"\n").unwrap();
    refuses(&path, ":3: not UTF-8, save the file in that encoding");
}
