//! What limits would do to traffic that is made up, under a clock of its own: no key is touched.

use serde::Deserialize;
use serde_json::json;
use tollgate::Limit;
use tollgate_lab::simulate::{Run, Simulation, Slot};
use tollgate_lab::traffic::Traffic;

use super::call::{Answer, Call, Reply, wrong};
use crate::bounds::{
    MAX_SIMULATED, MAX_SIMULATED_CLIENTS, MAX_SIMULATED_LIMITS, MAX_SIMULATED_TRAFFIC,
    MAX_SIMULATION,
};
use crate::http::{Problem, cut, parse};
use crate::operate::blocking;

pub(super) const EXAMPLE: &str =
    r#"{"limits": ["100/min burst 20"], "traffic": ["poisson 4/s for 2min"], "compare": false}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    limits: Vec<String>,
    traffic: Vec<String>,
    #[serde(default)]
    compare: bool,
    #[serde(default)]
    seed: Option<u64>,
}

pub(super) async fn simulate(mut call: Call) -> Answer {
    let body = call.bytes(MAX_SIMULATION).await?;
    let asked: Asked = parse(&body, EXAMPLE)?;
    let simulation = asked.simulation().map_err(|problem| problem.example(EXAMPLE))?;
    // One at a time: it takes a core for up to a second.
    let Ok(_only) = call.app.operators.simulating.try_lock() else {
        let detail = "another simulation is running, try again in a moment";
        return Err(Problem::new(http::StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let simulated = blocking(move || simulation.run(|_| {})).await?;
    let simulated = simulated.map_err(|error| wrong(error.to_string()).example(EXAMPLE))?;
    Ok(Reply::Told(json!({
        "length_ms": simulated.length_nanos / 1_000_000,
        "slot_ms": simulated.slot_nanos.div_ceil(1_000_000),
        "window_ms": simulated.window_nanos / 1_000_000,
        "notes": simulated.notes,
        "runs": simulated.runs.iter().map(shown).collect::<Vec<_>>(),
    })))
}

fn shown(run: &Run) -> serde_json::Value {
    let of = |value: fn(&Slot) -> u64| run.slots.iter().map(value).collect::<Vec<_>>();
    json!({
        "name": run.name,
        "limits": run.limits,
        "offered": run.offered,
        "tries": run.tries,
        "admitted": run.admitted,
        "refused": run.refused,
        "unserved": run.unserved,
        "most_in_window": run.busiest_client.units,
        "wait_p50_ms": run.waits.median_nanos.div_ceil(1_000_000),
        "wait_p99_ms": run.waits.p99_nanos.div_ceil(1_000_000),
        "admitted_by_slot": of(|slot| slot.admitted),
        "refused_by_slot": of(|slot| slot.refused),
        "remaining_by_slot": run.slots.iter().map(|slot| slot.remaining).collect::<Vec<_>>(),
    })
}

impl Asked {
    fn simulation(&self) -> Result<Simulation, Problem> {
        for (name, given, most) in [
            ("limits", self.limits.len(), MAX_SIMULATED_LIMITS),
            ("traffic", self.traffic.len(), MAX_SIMULATED_TRAFFIC),
        ] {
            if given == 0 || given > most {
                return Err(wrong(format!("{name:?} must have from 1 to {most} entries")));
            }
        }
        let limit = |text: &String| {
            let refuse = |error| wrong(format!("the limit {:?}: {error}", cut(text)));
            text.parse::<Limit>().map_err(refuse)
        };
        let limits: Vec<Limit> = self.limits.iter().map(limit).collect::<Result<_, _>>()?;
        let traffic: Vec<Traffic> =
            self.traffic.iter().map(|text| traffic(text)).collect::<Result<_, _>>()?;
        let simulation = Simulation::of_limits(limits).traffic(traffic).at_most(MAX_SIMULATED);
        let simulation = simulation.seed(self.seed.unwrap_or(1));
        Ok(if self.compare { simulation.compare() } else { simulation })
    }
}

fn traffic(text: &str) -> Result<Traffic, Problem> {
    let refuse = |why: String| wrong(format!("the traffic {:?}: {why}", cut(text)));
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        // A client costs memory before it asks for anything.
        if word.eq_ignore_ascii_case("from")
            && let Some(clients) = words.next().and_then(|many| many.parse::<u64>().ok())
            && clients > MAX_SIMULATED_CLIENTS
        {
            return Err(refuse(format!(
                "at most {MAX_SIMULATED_CLIENTS} clients are simulated here"
            )));
        }
    }
    text.parse::<Traffic>().map_err(|error| refuse(error.to_string()))
}
