//! What README.md shows is what the command prints.

use crate::support::Folder;

const README: &str = include_str!("../../../../README.md");
const COMMAND: &str =
    r#"cargo run --release -- check "100/min burst 20" --requests 30 --every 100ms"#;

#[test]
fn the_readme_shows_what_the_command_prints() {
    assert!(README.contains(COMMAND), "the command this test runs");
    let arguments = ["check", "100/min burst 20", "--requests", "30", "--every", "100ms"];
    let printed = Folder::new().tollgate(&arguments).out;
    assert!(README.contains(&printed), "README.md should show:\n{printed}");
}

#[test]
fn every_link_to_a_file_leads_somewhere() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let pages = [
        ("README.md", README),
        ("CONTRIBUTING.md", include_str!("../../../../CONTRIBUTING.md")),
        ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
        ("docs/library.md", include_str!("../../../../docs/library.md")),
        ("docs/algorithms.md", include_str!("../../../../docs/algorithms.md")),
        ("docs/bench.md", include_str!("../../../../docs/bench.md")),
        ("docs/choosing.md", include_str!("../../../../docs/choosing.md")),
        ("docs/replay.md", include_str!("../../../../docs/replay.md")),
        ("docs/scaling.md", include_str!("../../../../docs/scaling.md")),
        ("docs/simulate.md", include_str!("../../../../docs/simulate.md")),
        ("docs/testing-limits.md", include_str!("../../../../docs/testing-limits.md")),
        ("docs/envoy.md", include_str!("../../../../docs/envoy.md")),
        ("docs/server.md", include_str!("../../../../docs/server.md")),
        ("docs/admin.md", include_str!("../../../../docs/admin.md")),
        ("docs/top.md", include_str!("../../../../docs/top.md")),
        ("docs/proxies.md", include_str!("../../../../docs/proxies.md")),
        ("deploy/README.md", include_str!("../../../../deploy/README.md")),
        ("docs/hot-reload.md", include_str!("../../../../docs/hot-reload.md")),
    ];
    for (page, text) in pages {
        let folder = std::path::Path::new(root).join(page);
        let folder = folder.parent().expect("a page is in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                assert!(folder.join(file).exists(), "{page} links to {link}");
            }
        }
    }
}
