//! The help of every command.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Folder, assert_golden};

fn succeeds(arguments: &[&str]) -> String {
    let said = Folder::new().tollgate_with(&[("COLUMNS", "100")], arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    said.out
}

/// The commands that a help text lists, without `help` itself.
fn listed(help: &str) -> Vec<&str> {
    let rest = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let lines = rest.lines().take_while(|line| !line.is_empty());
    // The first word of a line; a line that is further to the right continues the one before.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").collect()
}

/// Compares the help of a command and of its subcommands, and adds the names of the golden files.
fn assert_help(command: &[&str], names: &mut BTreeSet<String>) {
    let name = if command.is_empty() { "tollgate".to_owned() } else { command.join("_") };
    let long = succeeds(&[command, &["--help"]].concat());
    assert_golden(&format!("help/{name}"), &long);
    let short = succeeds(&[command, &["-h"]].concat());
    assert_golden(&format!("help/{name}.short"), &short);
    names.extend([format!("{name}.txt"), format!("{name}.short.txt")]);
    for subcommand in listed(&long) {
        assert_help(&[command, &[subcommand]].concat(), names);
    }
}

#[test]
fn help_of_every_command_is_in_a_golden_file() {
    let mut names = BTreeSet::new();
    assert_help(&[], &mut names);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
    let files = std::fs::read_dir(folder).expect("the golden folder is there");
    let files = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    assert_eq!(files.collect::<BTreeSet<_>>(), names, "each file belongs to a command");
}

#[test]
fn help_lists_every_command_and_shows_examples_of_each() {
    let help = succeeds(&["--help"]);
    let commands = listed(&help);
    for command in
        ["check", "simulate", "validate", "test", "explain", "diff", "replay", "top", "schema"]
    {
        assert!(commands.contains(&command), "{command} in {commands:?}");
    }
    for command in commands {
        let long = succeeds(&[command, "--help"]);
        assert!(long.lines().any(|line| line == "Examples:"), "{command}");
        assert_eq!(succeeds(&["help", command]), long);
    }
}
