//! Ways for nodes to share a limit: what each lets through, and what it costs.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Limit;
use tollgate_lab::simulate::{Fleet, Shared, SharedRun, Sharing, SharingOptions, Simulation};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn fleet(nodes: u64, latency: Duration) -> Fleet {
    let mut fleet = Fleet::of(nodes);
    fleet.latency = latency;
    fleet
}

/// The four scenes of ours, with leases and another way beside them.
fn scenes(limit: &str, beside: Sharing) -> Shared {
    let limit: Limit = limit.parse().expect("the test's limit is right");
    let ways = vec![Sharing::Leased, beside];
    let options = SharingOptions { ways, lease_ttl: SECOND / 2, ..SharingOptions::default() };
    let simulation = Simulation::of_limits([limit]).fleet(fleet(4, MILLI));
    simulation.share(&options).expect("it can be run")
}

fn run<'a>(shared: &'a Shared, scene: &str, way: Sharing) -> &'a SharedRun {
    let scene = shared.scenes.iter().find(|one| one.name.starts_with(scene));
    scene.and_then(|scene| scene.run_of(way)).expect("all are there")
}

#[test]
fn when_leased_every_scene_uses_the_limit_and_treats_nodes_alike() {
    for limit in [
        "200/s",
        "200/s burst 50",
        "200/s fixed_window",
        "60/s sliding_log",
        "200/s sliding_counter",
    ] {
        let shared = scenes(limit, Sharing::Divided);
        for scene in &shared.scenes {
            let leased = scene.run_of(Sharing::Leased).expect("it is there");
            assert!(leased.used_percent >= 95.0, "{limit}, {}: {leased:?}", scene.name);
            assert!(leased.fairness >= 0.95, "{limit}, {}: {leased:?}", scene.name);
            let most = leased.over_at_most.expect("a lease has a bound");
            assert!(leased.over <= most, "{limit}, {}: {leased:?}", scene.name);
        }
        // With nine of ten requests on one node, the others sit on little.
        let leased = run(&shared, "skewed", Sharing::Leased);
        assert!(leased.stranded <= 20, "{limit}: {leased:?}");
        let divided = run(&shared, "skewed", Sharing::Divided);
        assert!(divided.used_percent < 60.0, "{limit}: {divided:?}");
    }
}

#[test]
fn leases_spare_the_store_most_calls() {
    let simulation = Simulation::of_limits([Limit::per_second(4_000)]).fleet(fleet(4, MILLI));
    let simulation = simulation.traffic(["poisson 3000/s for 3s".parse().expect("right")]);
    let shared = simulation.share(&SharingOptions::default()).expect("it can be run");
    assert_eq!(run(&shared, "traffic", Sharing::Strict).calls_per_decision, 1.0);
    assert_eq!(run(&shared, "traffic", Sharing::Divided).calls, 0);
    let leased = run(&shared, "traffic", Sharing::Leased).calls_per_decision;
    assert!(leased < 1.0 / 50.0, "{leased}");
}

#[test]
fn nodes_that_tell_each_other_now_and_then_go_over_the_limit() {
    for limit in ["200/s", "200/s fixed_window", "60/s sliding_log", "200/s sliding_counter"] {
        let shared = scenes(limit, Sharing::Periodic);
        let periodic = run(&shared, "bursty", Sharing::Periodic);
        assert!(periodic.over > 10, "{limit}: {periodic:?}");
        assert_eq!(periodic.over_at_most, None);
        assert_eq!(run(&shared, "bursty", Sharing::Leased).over, 0, "{limit}");
    }
}

#[test]
fn a_crashed_nodes_lease_is_lost_and_never_spent_twice() {
    let crashes: Vec<Duration> = (1..40).map(|number| number * 100 * MILLI).collect();
    let options = SharingOptions { ways: vec![Sharing::Leased], crashes, ..Default::default() };
    let simulation = Simulation::of_limits([Limit::per_second(1_000)]).fleet(fleet(2, 2 * MILLI));
    let simulation = simulation.traffic(["poisson 900/s for 5s".parse().expect("right")]);
    let shared = simulation.share(&options).expect("it can be run");
    let leased = &shared.scenes[0].runs[0];
    assert!(leased.lost > 0, "{leased:?}");
    assert!(leased.over <= 1_000);
    assert!(leased.used_percent > 90.0 && leased.used_percent <= 100.0, "{leased:?}");
}

#[test]
fn the_same_seed_has_the_same_outcome_with_a_thousand_nodes() {
    let options = SharingOptions { hot_percent: Some(50), ..SharingOptions::default() };
    let shared = |seed| {
        let simulation = Simulation::of_limits([Limit::per_second(4_000)]).seed(seed);
        let simulation = simulation.fleet(fleet(1_000, MILLI));
        let simulation = simulation.traffic(["poisson 4000/s for 1s".parse().expect("right")]);
        serde_json::to_string(&simulation.share(&options).expect("it can be run")).expect("JSON")
    };
    assert_eq!(shared(3), shared(3));
    assert_ne!(shared(3), shared(4));
}

#[test]
fn what_cannot_be_shared_is_said() {
    let said = |limit: &str, fleet: Option<Fleet>, options: SharingOptions| {
        let limit: Limit = limit.parse().expect("the test's limit is right");
        let simulation = Simulation::of_limits([limit]);
        let simulation = match fleet {
            Some(fleet) => simulation.fleet(fleet),
            None => simulation,
        };
        simulation.share(&options).expect_err("it is wrong").to_string()
    };
    let crowd = Simulation::of_limits([Limit::per_second(5)]).fleet(Fleet::of(1_000));
    let crowd = crowd.traffic(["poisson 5/s from 10000 clients for 1s".parse().expect("right")]);
    let said_of_crowd = crowd.share(&SharingOptions::default()).expect_err("too many").to_string();
    let options = SharingOptions::default;
    let two = || Some(Fleet::of(2));
    let mut away = Fleet::of(2);
    away.outage = Some(SECOND..2 * SECOND);
    for (message, right) in [
        (said_of_crowd, "are 10000000, at most 2000000"),
        (said("5/s", None, options()), "such as 4 nodes"),
        (said("5/s leaky_bucket queue", two(), options()), "a queue is always strict"),
        (said("5/s fixed_window align first", two(), options()), "from first"),
        (said("5/s sliding_log", two(), options()), "must be at most 500ms"),
        (said("5/s", Some(away), options()), "leave the outage out"),
        (said("5/s", two(), SharingOptions { ways: vec![], ..options() }), "such as strict,leased"),
        (said("5/s", two(), SharingOptions { every: Duration::ZERO, ..options() }), "1ms or more"),
        (
            said("5/s", Some(Fleet::of(1)), SharingOptions { hot_percent: Some(9), ..options() }),
            "give more with --nodes",
        ),
    ] {
        assert!(message.contains(right), "{message}");
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    let kinds: [fn(u64, Duration) -> Limit; 5] = [
        Limit::token_bucket,
        Limit::leaky_bucket,
        Limit::fixed_window,
        Limit::sliding_log,
        Limit::sliding_counter,
    ];
    (0..kinds.len(), 10..300_u64, 500..3_000_u64, any::<bool>()).prop_map(
        move |(kind, count, millis, small)| {
            let limit = kinds[kind](count, Duration::from_millis(millis));
            if small && kind < 2 { limit.burst(count / 4 + 1) } else { limit }
        },
    )
}

proptest! {
    #![proptest_config(tollgate_testkit::cases(16))]

    #[test]
    fn strict_is_never_over_the_limit_and_leased_never_over_its_bound(
        limit in limits(),
        nodes in 2..40_u64,
        (latency, skew) in (0..40_u32, 0..5_u64),
        (hot_percent, ttl) in (prop::option::of(1..=100_u64), 20..250_u32),
        (shape, tenths, crashes) in (0..4_usize, 5..30_u64, prop::collection::vec(0..4_000_u64, 0..6)),
        seed in any::<u64>(),
    ) {
        let rate = limit.count() * tenths / 10 + 1;
        let millis = limit.period().as_millis();
        let traffic = [
            format!("poisson {rate}/{millis}ms for 4s from 2 clients"),
            format!("bursts {rate} every {millis}ms for 4s"),
            format!("onoff {}/{millis}ms on 200ms off 500ms for 4s", 4 * rate),
            format!("poisson {rate}/{millis}ms for 4s retry after jitter 50ms"),
        ];
        let mut fleet = fleet(nodes, latency * MILLI);
        fleet.skew = Duration::from_secs(skew);
        let options = SharingOptions {
            ways: vec![Sharing::Strict, Sharing::Leased],
            lease_ttl: ttl * MILLI,
            lease_share_percent: 100,
            hot_percent,
            crashes: crashes.into_iter().map(Duration::from_millis).collect(),
            ..SharingOptions::default()
        };
        let simulation = Simulation::of_limits([limit.clone()]).fleet(fleet).seed(seed);
        let shared = simulation.traffic([traffic[shape].parse().expect("right")]).share(&options);
        for run in &shared.expect("it can be run").scenes[0].runs {
            let most = run.over_at_most.expect("both have a bound");
            prop_assert!(run.over <= most, "{}: {:?}", limit, run);
        }
    }
}
