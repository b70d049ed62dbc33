//! Texts that people see, kept in files next to the tests.

use std::path::Path;

/// The variable that writes golden files instead of comparing them.
const UPDATE: &str = "UPDATE_GOLDEN";

/// Compares `actual` with the file at `path`; with `UPDATE_GOLDEN=1`, writes the file.
///
/// # Panics
/// With the first line that differs, if the two are not equal.
#[track_caller]
pub fn assert_golden(path: &Path, actual: &str) {
    if std::env::var_os(UPDATE).is_some() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("the golden folder can be made");
        }
        std::fs::write(path, actual).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    if golden == actual {
        return;
    }
    let same = golden.lines().zip(actual.lines()).take_while(|(old, new)| old == new).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(the text ends)").to_owned();
    panic!(
        "{} differs at line {}:\n  golden: {}\n  actual: {}\nif the change is intended, run the \
         test with {UPDATE}=1 and review the diff",
        path.display(),
        same + 1,
        line(&golden),
        line(actual)
    );
}
