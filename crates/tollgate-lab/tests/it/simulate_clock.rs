//! What traffic, a comparison and the clock's start come to in a simulation.

use tollgate::{Limit, ManualClock, Timestamp};
use tollgate_lab::simulate::{Decided, Simulation};
use tollgate_lab::traffic::Traffic;

fn simulation(limit: &str, texts: &[&str]) -> Simulation {
    let read = |text: &&str| -> Traffic { text.parse().expect("the test's traffic is valid") };
    Simulation::of_limits([self::limit(limit)]).traffic(texts.iter().map(read))
}

fn limit(text: &str) -> Limit {
    text.parse().expect("the test's limits are valid")
}

#[test]
fn retries_end_with_their_own_traffic() {
    let texts = ["storm 10 for 3s as eve retry every 1s", "steady 1/min for 10s as bob"];
    let simulation = simulation("1/h", &texts);
    let mut of_eve = Vec::new();
    let watch = |decided: &Decided<'_>| {
        of_eve.extend((decided.client == "eve").then_some(decided.at_nanos / 1_000_000_000));
    };
    simulation.run(watch).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((of_eve.iter().max(), of_eve.len()), (Some(&2), 10 + 9 + 9));
}

#[test]
fn an_attack_finds_the_edge_wherever_the_clock_starts() {
    let second = 1_000_000_000;
    for (start, at) in [(0, "0s"), (17, "0s"), (0, "40s"), (59, "30s"), (30, "30s")] {
        let start =
            ManualClock::new().now().as_nanos() / (60 * second) * 60 * second + start * second;
        let text = format!("edge 100 of 1min for 4min at {at}");
        let simulation = simulation("100/min fixed_window", &[&text]);
        let simulated = simulation.start(Timestamp::from_nanos(start)).run(|_| {});
        let run = &simulated.unwrap_or_else(|error| panic!("{error}")).runs[0];
        assert_eq!((run.busiest.units, run.refused), (200, 0), "{start} {at}");
    }
}

#[test]
fn a_comparison_has_the_limit_that_was_given_as_it_is() {
    for text in ["100/min fixed_window align first", "5/day calendar Europe/Paris", "9/min burst 3"]
    {
        let simulated = simulation(text, &["steady 1/s for 10s"]).compare().run(|_| {});
        let runs = simulated.unwrap_or_else(|error| panic!("{error}")).runs;
        let compared: Vec<String> = runs.into_iter().flat_map(|run| run.limits).collect();
        assert!(compared.contains(&limit(text).to_string()), "{text}: {compared:?}");
        assert_eq!(compared.len(), 6);
    }
}
