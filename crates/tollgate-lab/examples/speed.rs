//! How many decisions a simulation makes in a second:
//! `cargo run --release -p tollgate-lab --example speed`.

use std::time::Instant;

use tollgate::Limit;
use tollgate_lab::simulate::Simulation;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for traffic in [
        "poisson 1000/s for 1000s",
        "poisson 1000/s for 1000s from 1000 clients zipf 1.1",
        "storm 2000 for 100s retry every 100ms",
    ] {
        let simulation =
            Simulation::of_limits([Limit::per_second(500)]).traffic([traffic.parse()?]);
        let begun = Instant::now();
        let simulated = simulation.run(|_| {})?;
        let (tries, took) = (simulated.runs[0].tries, begun.elapsed());
        let each = took.as_nanos() / u128::from(tries.max(1));
        println!("{traffic}: {tries} decisions, {each} ns each");
    }
    Ok(())
}
