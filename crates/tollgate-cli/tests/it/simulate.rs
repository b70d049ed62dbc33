//! `tollgate simulate`, as somebody at a terminal or a script sees it.

use std::path::Path;

use crate::support::{Folder, Said, assert_golden, assert_transcript};

const PAGE: &str = include_str!("../../../../docs/simulate.md");

/// How nodes share a limit.
const SCALING: &str = include_str!("../../../../docs/scaling.md");

fn simulate(arguments: &[&str]) -> Said {
    Folder::new().tollgate_with(&[("COLUMNS", "72")], &[&["simulate"], arguments].concat())
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let said = simulate(arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    said.out
}

#[track_caller]
fn fails(arguments: &[&str]) -> Said {
    let said = simulate(arguments);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {}", said.err);
    said
}

/// The words of a command line; quotes hold words together.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    let split = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![part.to_owned()],
    });
    split.collect()
}

#[test]
fn a_simulation_is_a_table_and_a_chart() {
    let said = succeeds(&["10/min burst 3", "--traffic", "steady 1/s for 1min"]);
    assert_golden("simulate/table", &said);
    assert!(said.lines().all(|line| line.chars().count() <= 72), "{said}");
}

#[test]
fn the_same_seed_prints_the_same() {
    let said = |seed: &str| {
        let traffic = "poisson 5/s from 9 clients zipf 1";
        succeeds(&["20/10s", "--traffic", traffic, "--json", "--seed", seed])
    };
    assert_eq!(said("3"), said("3"));
    assert_ne!(said("3"), said("4"));
}

#[test]
fn algorithms_are_put_side_by_side_on_the_same_traffic() {
    let said =
        simulate(&["100/min", "--compare", "--traffic", "edge 100 of 1min for 2min", "--json"]);
    let runs = said.json()["runs"].as_array().cloned().unwrap_or_default();
    let most: Vec<(&str, u64)> = runs
        .iter()
        .filter_map(|run| Some((run["name"].as_str()?, run["busiest"]["units"].as_u64()?)))
        .collect();
    assert_eq!(most.len(), 6, "{most:?}");
    assert!(most.contains(&("fixed window", 200)), "{most:?}");
    assert!(most.contains(&("sliding log", 100)), "{most:?}");
}

#[test]
fn a_policy_is_asked_with_the_attributes_of_the_traffic() {
    let policy = "[[rule]]\nname = \"api\"\nkey = [\"user\"]\nlimit = \"10/min\"\n";
    let folder = Folder::with(&[("tollgate.toml", policy)]);
    let traffic = "steady 1/s for 1min with user={client}";
    let said =
        folder.tollgate(&["simulate", "--policy", "tollgate.toml", "--traffic", traffic, "--json"]);
    let json = said.json();
    assert_eq!(json["runs"][0]["refused_by"][0]["rule"], "api", "{}{}", said.out, said.err);
    let aimless = ["simulate", "--policy", "tollgate.toml"];
    let aimless = folder.tollgate_with(&[("COLUMNS", "72")], &aimless);
    assert_golden("simulate/no_rule_applied", &aimless.out);
}

#[test]
fn files_are_written_and_one_that_cannot_be_is_named() {
    let folder = Folder::new();
    let limits = ["simulate", "5/s", "--svg", "a.svg", "--html", "a.html"];
    assert_eq!(folder.tollgate(&limits).code, Some(0));
    assert!(folder.read("a.svg").starts_with("<svg "));
    let page = folder.read("a.html");
    assert!(page.contains("tollgate simulate 5/s --svg a.svg --html a.html"), "{page}");
    let said = folder.tollgate(&["simulate", "5/s", "--svg", "no/such/folder.svg"]);
    assert_eq!(said.code, Some(1));
    assert_transcript("simulate/cannot_write", [said]);
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let traffic = |text: &'static str| fails(&["5/s", "--traffic", text]);
    let mut said = vec![
        traffic("steady 20/s for 0s"),
        traffic("steady 1000000000/s for 1000s"),
        traffic("steady 0/s"),
        fails(&["100/mni"]),
        fails(&["100/min", "burst", "20"]),
        fails(&["5/s", "--window", "0s"]),
        fails(&["5/s", "--nodes", "2", "--store-outage", "30s"]),
        fails(&["5/s", "--nodes", "2", "--store-outage", "9s..3s"]),
        fails(&["5/s", "--skew", "3s"]),
        fails(&["--policy", "absent.toml"]),
        fails(&[]),
    ];
    let folder = Folder::with(&[("bad.toml", "[[rule]]\nname = \"api\"\nlimit = \"5/x\"\n")]);
    said.push(folder.tollgate(&["simulate", "--policy", "bad.toml"]));
    assert_eq!(said[11].code, Some(2));
    assert_transcript("simulate/wrong_arguments", said);
}

/// Every command of the pages that draws into `docs/pictures`, with what it draws.
fn pictures() -> Vec<(Vec<String>, String)> {
    let commands = PAGE.lines().chain(SCALING.lines());
    let commands = commands.filter_map(|line| line.strip_prefix("tollgate "));
    let drawing = commands.filter_map(|command| {
        let words = words(command);
        let file = words.iter().find(|word| word.starts_with("docs/pictures/"))?.clone();
        Some((words, file))
    });
    drawing.collect()
}

#[test]
fn the_pictures_of_the_documentation_are_what_its_commands_draw() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pictures = pictures();
    assert!(pictures.len() >= 4, "{pictures:?}");
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("docs/pictures")).expect("a folder can be made");
    for (words, file) in &pictures {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = folder.tollgate(&words);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{words:?}");
        let drawn = folder.read(file);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(root.join(file), &drawn).expect("docs/pictures is there");
        }
        let shown = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(shown == drawn, "{file} is drawn otherwise now, see docs/simulate.md");
    }
    let known = std::fs::read_dir(root.join("docs/pictures")).expect("docs/pictures is there");
    for entry in known {
        let name = entry.expect("a folder can be read").file_name();
        let file = format!("docs/pictures/{}", name.to_string_lossy());
        assert!(pictures.iter().any(|(_, drawn)| *drawn == file), "no command draws {file}");
    }
}

#[test]
fn every_command_of_the_page_runs() {
    let policy = "[[rule]]\nname = \"api\"\nkey = [\"user\"]\nlimit = \"10/min\"\n";
    let folder = Folder::with(&[("tollgate.toml", policy)]);
    std::fs::create_dir_all(folder.path().join("docs/pictures")).expect("a folder can be made");
    let commands = PAGE.lines().filter_map(|line| line.strip_prefix("tollgate "));
    for command in commands {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = folder.tollgate(&words);
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
    }
}

#[test]
fn the_page_shows_what_its_first_command_prints() {
    let command = r#"tollgate simulate "100/min burst 20" --traffic "poisson 5/s for 3min""#;
    assert!(PAGE.contains(command));
    let words = words(&command["tollgate ".len()..]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let printed = Folder::new().tollgate_with(&[("COLUMNS", "80")], &words).out;
    assert!(PAGE.contains(&printed), "docs/simulate.md should show:\n{printed}");
}
