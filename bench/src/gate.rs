//! The gate: a policy's three charges beside the same three by hand, and what replacing a large
//! policy costs those who check meanwhile.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tollgate::{
    Client, Condition, Gate, Limit, Limiter, MemoryStore, Override, Policy, Request, Rule,
    check_all,
};

use crate::measure::{Pace, interleave, quantile};
use crate::peers::Run;
use crate::report::threads_name;
use crate::rows::THREADS;
use crate::stream::{RequestKey, Spread, Stream};

const KEYS: usize = 1000;
const RULES: [usize; 3] = [10, 100, 10_000];
const OVERRIDES: usize = 100_000;

/// Checks of a round whose tail is looked at: a hundred lie above the last quantile.
const CALLS: usize = 100_000;

/// What the rules that do not apply ask for.
#[derive(Clone, Copy)]
enum Shape {
    /// Another route each.
    Exact,
    /// The method that every request has, and another beginning of the route each.
    SharedMethod,
}

pub(crate) fn run(pace: &Pace) {
    for threads in THREADS {
        charges(threads, pace);
    }
    replacing(pace.rounds);
}

/// Never dry in a run, and never full again.
fn limit() -> Limit {
    Limit::per_second(1).burst(1_000_000_000)
}

fn store() -> MemoryStore {
    MemoryStore::builder().max_keys(100_000).build().expect("the bound is possible")
}

/// `rules` rules, of which three apply to every request of the stream.
fn policy(rules: usize, shape: Shape) -> Policy {
    let mut policy = Policy::new()
        .rule(Rule::new("per-user").key(["user"]).limit(limit()).matches("route", "/search"))
        .rule(Rule::new("per-tenant").key(["tenant", "user"]).limit(limit()))
        .rule(Rule::new("everybody").limit(limit()).matches("method", "POST"));
    for number in 3..rules {
        let rule = Rule::new(format!("rule-{number}")).key(["user"]).limit(limit());
        policy = policy.rule(match shape {
            Shape::Exact => rule.matches("route", format!("/other/{number}")),
            Shape::SharedMethod => {
                let beginning = Condition::Prefix(vec![format!("/other/{number}/")]);
                rule.matches("method", "POST").matches("route", beginning)
            }
        });
    }
    policy
}

fn request(user: &str) -> Request<'_> {
    let (tenant, route, method) = (("tenant", "acme"), ("route", "/search"), ("method", "POST"));
    [("user", user), tenant, route, method].into_iter().collect()
}

/// A gate, and the requests it is asked about: they are given, as a server has them at hand.
struct Asked {
    gate: Gate,
    requests: Vec<Request<'static>>,
}

impl Asked {
    fn new(rules: usize, shape: Shape, users: &'static [String]) -> Asked {
        let gate = Gate::with_store(store(), policy(rules, shape)).expect("the policy is right");
        Asked { gate, requests: users.iter().map(|user| request(user)).collect() }
    }
}

impl Run for Asked {
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        for user in &u64::of(stream)[range] {
            black_box(self.gate.check(&self.requests[*user as usize]).is_allowed());
        }
    }
}

/// The same three charges without a policy.
struct ByHand([Limiter; 3], &'static [String]);

impl ByHand {
    fn new(users: &'static [String]) -> ByHand {
        let store = store();
        let limiter = |name| store.limiter(name, limit()).expect("the limit is possible");
        ByHand(["per-user", "per-tenant", "everybody"].map(limiter), users)
    }
}

impl Run for ByHand {
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        let ByHand([per_user, per_tenant, everybody], users) = self;
        for user in &u64::of(stream)[range] {
            let user = users[*user as usize].as_str();
            let both = ("acme", user);
            let charges = [per_user.charge(&user), per_tenant.charge(&both), everybody.charge("")];
            black_box(check_all(&charges).is_allowed());
        }
    }
}

/// Prints what a check costs beside the same charges by hand.
fn charges(threads: usize, pace: &Pace) {
    let stream = Stream::new(KEYS, Spread::Uniform);
    let users: &'static [String] = Vec::leak((0..KEYS).map(String::nth).collect());
    let by_hand = ByHand::new(users);
    let shapes =
        [("another route each", Shape::Exact), ("one method for all", Shape::SharedMethod)];
    let mut gates = Vec::new();
    for (name, shape) in shapes {
        for rules in RULES {
            gates.push((format!("{rules} rules, {name}"), Asked::new(rules, shape, users)));
        }
    }
    let mut runs: Vec<&dyn Run> = vec![&by_hand];
    runs.extend(gates.iter().map(|(_, gate)| gate as &dyn Run));
    let nanos = interleave(&runs, &stream, threads, pace);
    println!("Three charges of a policy beside the same by hand, {}", threads_name(threads));
    println!("{:<34} {:>7} {:>8} {:>12}", "", "ns", "x hand", "p10-90");
    let names = gates.iter().map(|(name, _)| name.as_str());
    for (name, rounds) in std::iter::once("by hand").chain(names).zip(&nanos) {
        let ratios: Vec<f64> = rounds.iter().zip(&nanos[0]).map(|(it, hand)| it / hand).collect();
        let [p10, median, p90] = [0.1, 0.5, 0.9].map(|share| quantile(&ratios, share));
        let spread = format!("{p10:.2}-{p90:.2}");
        println!("{name:<34} {:>7.1} {median:>8.2} {spread:>12}", quantile(rounds, 0.5));
    }
    println!();
}

/// Ten thousand rules and a hundred thousand clients with numbers of their own.
fn large() -> Policy {
    let mut policy = policy(10_000, Shape::Exact);
    policy.overrides.extend((0..OVERRIDES).map(|number| {
        let client = Client::from([("user".to_owned(), format!("client-{number}"))]);
        Override::of(client).limits("per-user", Limit::per_hour(1 + number as u64 % 1000))
    }));
    policy
}

/// What another thread does while checks are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Replaces the policy of a gate that nobody asks: what a busy neighbour costs by itself.
    ReplacesElsewhere,
    Replaces,
}

/// Prints how long a large policy takes to replace, and the tail of checks meanwhile.
fn replacing(rounds: usize) {
    let policy = large();
    let began = Instant::now();
    let gate = Gate::with_store(store(), policy.clone()).expect("the policy is right");
    println!("10,000 rules and 100,000 overrides: new in {:.0?}", began.elapsed());
    let elsewhere = Gate::with_store(store(), policy.clone()).expect("the policy is right");
    let times: Vec<f64> = (0..5)
        .map(|_| {
            let copy = policy.clone();
            let began = Instant::now();
            gate.replace(copy).expect("the policy is right");
            began.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    println!("replaced in {:.0} ms (median of {})", quantile(&times, 0.5), times.len());
    let rows = [
        ("nothing", Meanwhile::Nothing),
        ("replaces another gate's policy", Meanwhile::ReplacesElsewhere),
        ("replaces this gate's policy", Meanwhile::Replaces),
    ];
    let mut tails = rows.map(|_| Vec::new());
    for _ in 0..rounds.min(15) {
        for ((_, meanwhile), tails) in rows.iter().zip(&mut tails) {
            tails.push(tail((&gate, &elsewhere), &policy, *meanwhile));
        }
    }
    println!(
        "{:<34} {:>9} {:>9} {:>9}",
        "another thread meanwhile", "p99.9 ns", "x nothing", "max us"
    );
    for ((name, _), rounds) in rows.iter().zip(&tails) {
        let ratios = rounds.iter().zip(&tails[0]).map(|(it, first)| it.0 / first.0);
        let ratio = quantile(&ratios.collect::<Vec<f64>>(), 0.5);
        let tail = quantile(&rounds.iter().map(|round| round.0).collect::<Vec<f64>>(), 0.5);
        let most = quantile(&rounds.iter().map(|round| round.1).collect::<Vec<f64>>(), 0.5);
        println!("{name:<34} {tail:>9.0} {ratio:>9.2} {:>9.0}", most / 1000.0);
    }
}

/// The last quantile and the longest of some checks, in nanoseconds.
fn tail((gate, elsewhere): (&Gate, &Gate), policy: &Policy, meanwhile: Meanwhile) -> (f64, f64) {
    let clock = quanta::Clock::new();
    let stop = AtomicBool::new(false);
    let stream = Stream::sample(KEYS, CALLS);
    let mut nanos = Vec::with_capacity(CALLS);
    thread::scope(|scope| {
        let target = match meanwhile {
            Meanwhile::Nothing => None,
            Meanwhile::ReplacesElsewhere => Some(elsewhere),
            Meanwhile::Replaces => Some(gate),
        };
        if let Some(target) = target {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    target.replace(policy.clone()).expect("the policy is right");
                }
            });
        }
        let began = Instant::now();
        // As long as some replacements take.
        while nanos.len() < CALLS || began.elapsed().as_millis() < 1000 {
            for user in String::of(&stream) {
                let start = clock.raw();
                black_box(gate.check(&request(user)).is_allowed());
                nanos.push(clock.delta_as_nanos(start, clock.raw()) as f64);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    (quantile(&nanos, 0.999), quantile(&nanos, 1.0))
}
