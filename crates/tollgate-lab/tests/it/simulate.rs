//! A simulation says what the limits themselves say, and what the documentation claims of them.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{Limit, ManualClock, OnStoreError, Policy, Rule};
use tollgate_lab::simulate::{Fleet, Picture, Run, Simulated, Simulation};
use tollgate_lab::traffic::Traffic;
use tollgate_testkit::proptest::prelude::*;
use tollgate_testkit::{KeyModel, cases};

use crate::shown::{elements, golden};

fn traffic(texts: &[&str]) -> Vec<Traffic> {
    let read = |text: &&str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    texts.iter().map(read).collect()
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn run(simulation: &Simulation) -> Simulated {
    simulation.run(|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn one(limit_text: &str, texts: &[&str]) -> Run {
    let simulation = Simulation::of_limits([limit(limit_text)]).traffic(traffic(texts));
    run(&simulation).runs.remove(0)
}

fn refused(simulation: &Simulation) -> String {
    simulation.run(|_| {}).map(|_| panic!("it ran")).unwrap_err().to_string()
}

fn limits() -> impl Strategy<Value = Limit> {
    let periods =
        prop_oneof![Just(1_000u64), 7_000..10_000u64, Just(60_000_000), 1..100_000_000u64];
    (0..7usize, 1..9u64, periods, 1..7u64).prop_map(|(algorithm, count, micros, burst)| {
        let period = Duration::from_micros(micros.max(1_000));
        match algorithm {
            0 => Limit::token_bucket(count, period).burst(burst),
            1 => Limit::leaky_bucket(count, period).burst(burst),
            2 => Limit::leaky_queue(count, period).burst(burst - 1),
            3 => Limit::fixed_window(count, period),
            4 => Limit::fixed_window(count, period).starting_at_first_request(),
            5 => Limit::sliding_log(count, period),
            _ => Limit::sliding_counter(count, period),
        }
    })
}

/// Traffic of about three times what a limit lets through, over some of its periods.
fn traffics(limit: &Limit) -> impl Strategy<Value = Vec<Traffic>> + use<> {
    let (count, period) = (limit.count(), limit.period().as_nanos());
    let any = (0..7usize, 1..4u64, 1..4u128, 0..3usize, 0..4usize);
    let one = any.prop_map(move |(shape, times, periods, retry, clients)| {
        let (many, length) = (count * times, period * periods);
        let rate = format!("{many}/{period}ns");
        let shape = match shape {
            0 => format!("steady {rate}"),
            1 => format!("poisson {rate}"),
            2 => format!("bursts {many} every {}ns", (period / 3).max(1)),
            3 => format!("onoff {rate} on {}ns off {}ns", (period / 3).max(1), (period / 5).max(1)),
            4 => format!("ramp 0/s to {rate}"),
            5 => format!("edge {many} of {period}ns"),
            _ => format!("storm {many}"),
        };
        let retry = ["retry never", "retry after", "retry after jitter 3ms"][retry];
        let clients = ["", "from 3 clients", "from 5 clients zipf 1.3", "as eve"][clients];
        let text = format!("{shape} for {length}ns {retry} {clients} tries 4");
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    });
    prop::collection::vec(one, 1..3)
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn every_decision_and_figure_is_the_models(
        (limit, traffic) in limits().prop_flat_map(|limit| (Just(limit.clone()), traffics(&limit))),
        seed in any::<u64>(),
    ) {
        let start = ManualClock::new().now().as_nanos();
        let mut models: HashMap<String, KeyModel> = HashMap::new();
        let (mut wrong, mut admitted, mut tries) = (Vec::new(), 0, 0);
        let simulation = Simulation::of_limits([limit.clone()]).traffic(traffic).seed(seed);
        let simulated = simulation.run(|decided| {
            let model = models.entry(decided.client.to_owned());
            let model = model.or_insert_with(|| KeyModel::new(&limit));
            let answer = model.check_n(start + decided.at_nanos, decided.cost);
            tries += 1;
            admitted += u64::from(answer.is_allowed());
            let of_model =
                (answer.is_allowed(), Some(answer.remaining), answer.retry_after, answer.delay);
            let of_ours = (decided.allowed, decided.remaining, decided.retry_after, decided.wait);
            if of_model != of_ours {
                wrong.push(format!("{decided:?} and not {answer:?}"));
            }
        });
        let simulated = simulated.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(wrong.is_empty(), "{limit}: {}", wrong[0]);
        let run = &simulated.runs[0];
        prop_assert_eq!((run.tries, run.admitted), (tries, admitted));
        prop_assert_eq!(run.refused, tries - admitted);
        prop_assert_eq!(run.slots.iter().map(|slot| slot.admitted).sum::<u64>(), admitted);
        prop_assert_eq!(run.slots.iter().map(|slot| slot.refused).sum::<u64>(), run.refused);
        // A chart shows all clients together, or the first client.
        let most = if simulated.together { &run.busiest } else { &run.busiest_client };
        let highest = run.slots.iter().map(|slot| slot.in_window).max();
        prop_assert!(highest <= Some(most.units));
    }

    #[test]
    fn a_sliding_log_never_lets_more_through_than_it_says(
        count in 1..50u64, seed in any::<u64>(), rate in 1..100u64,
    ) {
        let limit = Limit::sliding_log(count, Duration::from_secs(10));
        let text = format!("poisson {rate}/10s for 1min");
        let simulation = Simulation::of_limits([limit]).traffic(traffic(&[&text])).seed(seed);
        prop_assert!(run(&simulation).runs[0].busiest.units <= count);
    }
}

#[test]
fn the_same_seed_has_the_same_outcome_to_the_byte() {
    let simulation = |seed: u64| {
        let simulation = Simulation::of_limits([limit("100/min burst 20"), limit("5/s")])
            .traffic(traffic(&[
                "poisson 20/s for 30s from 20 clients zipf 1.1 retry after jitter 1s",
                "storm 50 at 10s for 20s",
            ]))
            .seed(seed);
        serde_json::to_string(&run(&simulation)).expect("it is plain data")
    };
    assert_eq!(simulation(1), simulation(1));
    assert_ne!(simulation(1), simulation(2));
}

#[test]
fn at_the_edge_a_fixed_window_lets_twice_its_limit_through_and_no_sliding_one_does() {
    let simulation =
        Simulation::of_limits([limit("100/min")]).traffic(traffic(&["edge 100 of 1min for 4min"]));
    let simulated = run(&simulation.compare());
    let most: Vec<(&str, u64)> =
        simulated.runs.iter().map(|run| (run.name.as_str(), run.busiest.units)).collect();
    assert_eq!(
        most,
        [
            ("token bucket", 101),
            ("leaky bucket, meter", 101),
            ("leaky bucket, queue", 100),
            ("fixed window", 200),
            ("sliding log", 100),
            ("sliding counter", 101),
        ]
    );
    let on_the_clock = simulated.runs[3].busiest_on_the_clock.units;
    assert_eq!(on_the_clock, 100, "in each window of the clock it keeps its word");
}

#[test]
fn a_bucket_keeps_to_its_burst_and_rate_in_any_minute() {
    // 20 at once, 100 a minute: in a minute that is open at its end, 119 and no more.
    let run = one("100/min burst 20", &["steady 50/s for 3min"]);
    assert_eq!(run.busiest.units, 119);
    assert_eq!(run.admitted, 20 + 299);
}

#[test]
fn a_storm_that_honours_retry_after_ends_sooner_and_asks_less() {
    let storm =
        |retry: &str| one("100/min fixed_window", &[&format!("storm 450 for 20min retry {retry}")]);
    let (honoured, blind, backoff) = (storm("after"), storm("every 7s"), storm("backoff 1s"));
    let end = |run: &Run| {
        assert_eq!((run.admitted, run.unserved), (450, 0), "{}", run.name);
        run.last_nanos.expect("all were admitted") / 1_000_000_000
    };
    assert_eq!((end(&honoured), end(&blind), end(&backoff)), (240, 245, 255));
    assert_eq!(honoured.tries, 450 + 350 + 250 + 150 + 50, "each asks once a window");
    assert!(blind.tries > 5 * honoured.tries, "{}", blind.tries);
}

#[test]
fn nothing_ends_a_storm_sooner_than_honouring_retry_after() {
    for text in ["10/s burst 5", "40/10s sliding_log", "40/10s sliding_counter", "7/s leaky_bucket"]
    {
        let end = |retry: &str| {
            let run = one(text, &[&format!("storm 90 for 5min retry {retry}")]);
            assert_eq!(run.unserved, 0, "{text} {retry}");
            run.last_nanos
        };
        for other in ["every 1s", "every 50ms", "every 3s", "backoff 200ms"] {
            assert!(end("after") <= end(other), "{text} {other}");
        }
    }
}

#[test]
fn a_queue_tells_how_long_everybody_waits() {
    let run = one("10/s leaky_bucket queue burst 20", &["bursts 21 every 1min for 1min"]);
    assert_eq!((run.admitted, run.refused, run.delayed), (21, 0, 20));
    assert_eq!(run.waits.longest_nanos, 2_000_000_000);
    assert_eq!(run.waits.median_nanos, 1_000_000_000);
    assert_eq!(run.busiest.units, 10, "never more than 10 in a second, counted as they leave");
}

#[test]
fn what_remains_of_several_limits_is_the_least() {
    let limits = [limit("5/s fixed_window"), limit("30/min fixed_window")];
    let simulation = Simulation::of_limits(limits).traffic(traffic(&["bursts 2 every 1s for 10s"]));
    let simulated = run(&simulation);
    assert_eq!(simulated.slot_nanos, 100_000_000);
    // After nine bursts 12 of 30 are left of the minute, a smaller part than the 3 of 5.
    assert_eq!(simulated.runs[0].slots[85].remaining, Some(3));
}

#[test]
fn each_client_has_a_limit_of_its_own_unless_all_are_counted_together() {
    let texts = ["steady 10/s for 10s as ana", "steady 1/s for 10s as ben"];
    let simulation = Simulation::of_limits([limit("20/10s")]).traffic(traffic(&texts));
    let apart = run(&simulation).runs.remove(0);
    let ben = apart.hit_hardest.iter().find(|client| client.name == "ben").unwrap();
    assert_eq!((ben.offered, ben.admitted, ben.refused), (10, 10, 0));
    assert!(apart.fairness < 1.0, "{}", apart.fairness);
    let together = run(&simulation.together()).runs.remove(0);
    assert_eq!(together.busiest.units, together.admitted.min(39));
    assert!(together.admitted < apart.admitted);
}

#[test]
fn a_policy_decides_by_the_attributes_of_the_traffic() {
    let policy = Policy::new()
        .rule(
            Rule::new("search")
                .matches("route", tollgate::Condition::Equals("/search".into()))
                .key(["user"])
                .limit(limit("2/min fixed_window")),
        )
        .rule(Rule::new("all").key(["user"]).limit(limit("5/min fixed_window")));
    let texts = [
        "steady 10/s for 1s as ana with user={client} route=/search",
        "steady 10/s for 1s as ana with user={client} route=/",
    ];
    let simulated = run(&Simulation::of_policy(policy.clone()).traffic(traffic(&texts)));
    let run_of = &simulated.runs[0];
    assert_eq!(run_of.admitted, 5);
    let by: Vec<&str> = run_of.refused_by.iter().map(|by| by.rule.as_str()).collect();
    assert_eq!(by, ["search", "all"]);
    assert!(simulated.notes.is_empty());
    let aimless = run(&Simulation::of_policy(policy).traffic(traffic(&["steady 1/s"])));
    golden("simulate-notes.txt", &(aimless.notes.join("\n") + "\n"));
}

fn fleet(limit_text: &str, texts: &[&str], fleet: Fleet) -> [Run; 3] {
    let simulation = Simulation::of_limits([limit(limit_text)]).traffic(traffic(texts));
    run(&simulation.fleet(fleet)).runs.try_into().expect("a fleet has three ways")
}

#[test]
fn a_fleet_with_a_store_holds_the_limit_and_one_without_multiplies_it() {
    let texts = ["poisson 40/s for 3min"];
    let [store, parts, whole] = fleet("100/min fixed_window", &texts, Fleet::of(4));
    assert_eq!(store.busiest_on_the_clock.units, 100);
    assert_eq!(parts.busiest_on_the_clock.units, 100);
    assert_eq!(whole.busiest_on_the_clock.units, 400);
}

#[test]
fn clocks_that_differ_harm_windows_of_nodes_and_not_those_of_the_store() {
    let texts = ["poisson 40/s for 4min"];
    let skewed = Fleet { skew: Duration::from_secs(20), ..Fleet::of(4) };
    let [store, parts, _] = fleet("100/min fixed_window", &texts, skewed);
    assert_eq!(store.busiest_on_the_clock.units, 100, "time is the store's");
    assert!(parts.busiest_on_the_clock.units > 100, "{}", parts.busiest_on_the_clock.units);
    let [same, _, _] = fleet("100/min fixed_window", &texts, Fleet::of(4));
    assert_eq!(
        serde_json::to_string(&store).unwrap(),
        serde_json::to_string(&same).unwrap(),
        "as if the clocks agreed"
    );
}

#[test]
fn in_an_outage_a_fleet_does_as_it_was_told() {
    let admitted_in_outage = |choice: OnStoreError| {
        let outage = Some(Duration::from_secs(60)..Duration::from_secs(120));
        let on_store_error = Some(choice);
        let settings = Fleet { outage, on_store_error, ..Fleet::of(4) };
        let [store, ..] = fleet("100/min sliding_log", &["steady 10/s for 3min"], settings);
        assert_eq!(store.degraded, 600, "{choice:?}");
        store.slots.iter().map(|slot| slot.degraded).sum::<u64>()
    };
    assert_eq!(admitted_in_outage(OnStoreError::Local), 100);
    assert_eq!(admitted_in_outage(OnStoreError::Allow), 600);
    assert_eq!(admitted_in_outage(OnStoreError::Deny), 0);
}

#[test]
fn the_latency_of_the_store_is_waited_for_and_changes_no_limit() {
    let slow = Fleet { latency: Duration::from_millis(2), ..Fleet::of(3) };
    let texts = ["steady 50/s for 10s"];
    let [store, parts, _] = fleet("10/s burst 10", &texts, slow);
    let [at_once, ..] = fleet("10/s burst 10", &texts, Fleet::of(3));
    assert_eq!(store.waits.median_nanos, 2_000_000);
    assert_eq!(parts.waits.longest_nanos, 0);
    assert_eq!(store.admitted, at_once.admitted);
}

#[test]
fn what_cannot_be_simulated_is_said_before_anything_is() {
    let of = |texts: &[&str]| Simulation::of_limits([limit("5/s")]).traffic(traffic(texts));
    let limits = |texts: [&str; 2]| Simulation::of_limits(texts.map(limit));
    let backwards = Duration::from_secs(9)..Duration::from_secs(3);
    let outage = Fleet { outage: Some(backwards), ..Fleet::of(2) };
    let simulations = [
        of(&["steady 1000000000/s for 1000s"]),
        of(&["steady 1/s cost 6"]),
        of(&[]).window(Duration::ZERO),
        limits(["5/s", "5/s"]),
        limits(["5/s", "6/s"]).compare(),
        of(&[]).fleet(Fleet::of(0)),
        of(&[]).fleet(outage),
        of(&["storm 50 retry every 1ms for 10h"]).at_most(1_000),
        Simulation::of_policy(Policy::new()),
    ];
    let messages = simulations.iter().map(|simulation| refused(simulation) + "\n");
    golden("simulate-mistakes.txt", &messages.collect::<String>());
}

#[test]
fn without_traffic_there_is_twice_as_much_as_the_limit_allows() {
    let simulated = run(&Simulation::of_limits([limit("100/min")]));
    assert_eq!(simulated.traffic, ["poisson 200/min for 180s"]);
    let odd = run(&Simulation::of_limits([limit("3/1500ms")]));
    assert_eq!(odd.length_nanos, 4_500_000_000);
}

#[test]
fn every_picture_of_every_kind_of_simulation_can_be_drawn() {
    let storm = traffic(&["storm 50 for 1min", "poisson 3/s from 10 clients for 1min as other"]);
    let alone = Simulation::of_limits([limit("20/10s")]).traffic(storm);
    let outage = Some(Duration::from_secs(20)..Duration::from_secs(30));
    let kinds = [
        alone.clone(),
        alone.clone().compare(),
        alone.fleet(Fleet { outage, latency: Duration::from_millis(2), ..Fleet::of(3) }),
    ];
    for simulation in kinds {
        let simulated = run(&simulation);
        for picture in Picture::ALL {
            let charts = simulated.charts(picture);
            assert!(!charts.is_empty(), "{picture:?}");
            assert!(charts.iter().all(|chart| chart.svg().contains("</svg>")));
        }
        let page = simulated.report("tollgate simulate", &Picture::ALL).html();
        let clients = simulated.ranking().map(|ranking| elements(&ranking.svg(), "title"));
        assert_eq!(elements(&page, "title").last(), clients.expect("many clients").first());
        assert_eq!(simulated.runs[0].clients, 11);
        assert!(!simulated.table().text().is_empty());
    }
}

#[test]
fn a_client_with_a_hostile_name_is_text_everywhere() {
    let texts = ["steady 1/s as <img/src=x/onerror=alert(1)>\u{1b}[31m", "steady 2/s as ana"];
    let simulated = run(&Simulation::of_limits([limit("5/min")]).traffic(traffic(&texts)));
    let page = simulated.report("tollgate simulate <img>", &Picture::ALL).html();
    assert!(page.contains("&lt;img/src=x") && !page.contains("<img"), "{page}");
    let ranking = simulated.ranking().expect("there are two clients");
    let screen = tollgate_lab::picture::Screen::plain(80);
    assert!(!(page + &ranking.terminal(screen)).contains('\u{1b}'));
}

#[test]
fn enormous_costs_are_added_up_as_far_as_can_be() {
    for text in ["9007199254740992/s", "9007199254740992/s fixed_window"] {
        let (huge, most) = (9_007_199_254_740_992u64, u64::MAX);
        let run = one(text, &[&format!("steady 1/s for 1min cost {huge}")]);
        assert_eq!(run.busiest.units, huge, "{text}");
        let simulation = Simulation::of_limits([limit(text)])
            .traffic(traffic(&[&format!("steady 1/s for 1h cost {huge}")]))
            .window(Duration::from_secs(3_600));
        assert_eq!(self::run(&simulation).runs[0].busiest.units, most, "{text}");
    }
}
