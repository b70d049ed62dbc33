//! `tollgate simulate --sync`, and what docs/scaling.md says of it.

use std::time::Duration;

use crate::support::{Folder, Said, assert_transcript};
use tollgate::Limit;
use tollgate_lab::simulate::{Fleet, Sharing, SharingOptions, Simulation};

const PAGE: &str = include_str!("../../../../docs/scaling.md");

fn simulate(arguments: &[&str]) -> Said {
    Folder::new().tollgate_with(&[("COLUMNS", "72")], &[&["simulate"], arguments].concat())
}

#[test]
fn the_page_shows_the_table_that_its_command_prints() {
    let command = "tollgate simulate \"1000/s\" --nodes 4 --store-latency 1ms --sync all";
    assert!(PAGE.contains(command));
    let said = simulate(&["1000/s", "--nodes", "4", "--store-latency", "1ms", "--sync", "all"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let table = said.out.split("\n\n").nth(1).expect("the lead, the table, the charts");
    assert!(PAGE.contains(table), "docs/scaling.md should show:\n{table}");
}

/// Calls for each decision of four nodes with leases of a second.
fn calls(limit: Limit, latency: Duration, traffic: &str) -> f64 {
    let mut fleet = Fleet::of(4);
    fleet.latency = latency;
    let options = SharingOptions { ways: vec![Sharing::Leased], ..SharingOptions::default() };
    let simulation = Simulation::of_limits([limit]).fleet(fleet);
    let simulation = simulation.traffic([traffic.parse().expect("it is right")]);
    simulation.share(&options).expect("it can be run").scenes[0].runs[0].calls_per_decision
}

#[test]
fn the_page_says_what_a_lease_saves() {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| decisions a second, on each"));
    let rows: Vec<(u64, &str)> = rows
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].replace(',', "").parse().expect("a rate"), cells[2])
        })
        .collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for (rate, told) in rows {
        let traffic = format!("poisson {}/s for 10s", 4 * rate);
        let calls = calls(Limit::per_second(1_000_000), Duration::from_millis(1), &traffic);
        assert_eq!(format!("{calls:.3}"), told, "at {rate} a second");
    }
}

#[test]
fn the_page_says_what_a_slow_store_costs() {
    let calls = |millis| {
        let latency = Duration::from_millis(millis);
        calls(Limit::per_second(4_000), latency, "poisson 3200/s for 10s")
    };
    let told = format!(
        "{:.3} at 1 ms, {:.3} at 100 ms, and {:.2} at 200 ms",
        calls(1),
        calls(100),
        calls(200)
    );
    assert!(PAGE.contains(&told), "docs/scaling.md should say: {told}");
}

#[test]
fn ways_to_share_are_told_as_figures_too() {
    let arguments = ["5000/s", "--nodes", "3", "--sync", "leased,strict", "--hot-node", "80%"];
    let more = ["--crash", "100ms,200ms", "--lease-ttl", "200ms", "--lease-share", "50%"];
    let traffic = ["--traffic", "poisson 3000/s for 1s", "--json"];
    let said = simulate(&[&arguments[..], &more, &traffic].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("it is JSON");
    let scene = &told["scenes"][0];
    assert_eq!(scene["hot_percent"], 80);
    assert_eq!(scene["crashes_nanos"][1], 200_000_000);
    assert_eq!(told["lease_ttl_nanos"], 200_000_000);
    let ways: Vec<&str> = (0..2).filter_map(|run| scene["runs"][run]["way"].as_str()).collect();
    assert_eq!(ways, ["leased", "strict"], "as they were asked for");
    assert_eq!(scene["runs"][1]["over"], 0);
}

#[test]
fn what_is_wrong_with_ways_to_share_is_said() {
    let said = [
        &["5/s", "--sync", "all"][..],
        &["5/s", "--nodes", "2", "--sync", "lent"],
        &["5/s", "--nodes", "2", "--crash", "1s"],
        &["5/s", "--nodes", "2", "--sync", "all", "--hot-node", "120%"],
        &["5/s sliding_log", "--nodes", "2", "--sync", "leased"],
        &["5/s leaky_bucket queue", "--nodes", "2", "--sync", "all"],
    ]
    .map(|arguments| {
        let said = simulate(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {}", said.err);
        said
    });
    assert_transcript("simulate/wrong_sharing", said);
}
