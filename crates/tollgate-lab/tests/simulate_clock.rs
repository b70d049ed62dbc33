//! What traffic, a comparison and the clock's start come to in a simulation.

use tollgate::Limit;
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
