//! Snapshots: how long one of a million keys takes, and the tail of checks while it is written.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Limit, Limiter, MemoryStore};

use crate::measure::{order, quantile};
use crate::stream::{RequestKey, Stream};

const KEYS: usize = 1_000_000;

/// Checks between two looks at the time.
const CALLS: usize = 10_000;

/// The time for which checks are measured in each round: at least a thousand lie above the last
/// quantile.
const SLICE: Duration = Duration::from_secs(1);

/// What another thread does while checks are timed.
#[derive(Clone, Copy)]
enum OtherThread {
    Nothing,
    /// Writes snapshots of a store without checks: the cost of a busy thread alone.
    WritesOther,
    /// Writes snapshots of the store that is checked.
    WritesThis,
}

/// Of the checks of a round, in nanoseconds.
#[derive(Default)]
struct Tail {
    p999: f64,
    most: f64,
    /// The snapshots that were written meanwhile.
    snapshots: usize,
}

/// A store in which no key is ever fresh during a run.
fn full() -> Limiter {
    let store = MemoryStore::builder().max_keys(KEYS + KEYS / 4).build();
    let store = store.expect("the bound is possible");
    let limit = Limit::per_hour(6).burst(5_000_000);
    let limiter = store.limiter("api", limit).expect("the limit is possible");
    for key in 0..KEYS {
        assert!(limiter.check(&String::nth(key)).is_allowed());
    }
    limiter
}

/// Writes a snapshot as the server does. Returns its size.
fn write(store: &MemoryStore, path: &Path) -> u64 {
    let file = File::create(path).expect("the folder can be written to");
    store.snapshot(BufWriter::new(&file)).expect("the disk has room");
    file.sync_all().expect("the disk works");
    file.metadata().expect("the file is open").len()
}

pub(crate) fn run(rounds: usize) {
    let (this, other) = (full(), full());
    let path = std::env::temp_dir().join(format!("tollgate-bench-{}", std::process::id()));
    let millis = |work: &dyn Fn()| {
        let times: Vec<f64> = (0..rounds)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        quantile(&times, 0.5)
    };
    let bytes = write(this.store(), &path);
    let written = millis(&|| _ = write(this.store(), &path));
    let compared = millis(&|| _ = black_box(this.store().snapshot(io::sink())));
    println!("A snapshot of {KEYS} keys: {} MB, written in {written:.0} ms", bytes / 1_000_000);
    println!("compared with the one before in {compared:.0} ms (median of {rounds})");

    let rows = [
        ("nothing", OtherThread::Nothing),
        ("writes snapshots of another store", OtherThread::WritesOther),
        ("writes snapshots of this store", OtherThread::WritesThis),
    ];
    let stream = Stream::sample(KEYS, 1 << 20);
    let mut tails: [Vec<Tail>; 3] = Default::default();
    for round in 0..rounds {
        for index in order(rows.len(), round) {
            let target = match rows[index].1 {
                OtherThread::Nothing => None,
                OtherThread::WritesOther => Some(other.store()),
                OtherThread::WritesThis => Some(this.store()),
            };
            tails[index].push(tail(&this, target, (&stream, &path)));
        }
    }
    let _ = std::fs::remove_file(&path);
    println!(
        "{:<34} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "another thread meanwhile", "p99.9 ns", "x nothing", "max us", "x nothing", "snapshots"
    );
    for ((name, _), rounds) in rows.iter().zip(&tails) {
        let median = |of: &dyn Fn(&Tail, &Tail) -> f64| {
            let all = rounds.iter().zip(&tails[0]).map(|(it, first)| of(it, first));
            quantile(&all.collect::<Vec<f64>>(), 0.5)
        };
        println!(
            "{name:<34} {:>9.0} {:>12.2} {:>9.0} {:>9.2} {:>9}",
            median(&|it, _| it.p999),
            median(&|it, first| it.p999 / first.p999),
            median(&|it, _| it.most / 1000.0),
            median(&|it, first| it.most / first.most),
            rounds.iter().map(|round| round.snapshots).sum::<usize>(),
        );
    }
}

/// Times checks of one thread while another writes snapshots of `target`, one after the other.
fn tail(limiter: &Limiter, target: Option<&MemoryStore>, (stream, path): (&Stream, &Path)) -> Tail {
    let clock = quanta::Clock::new();
    let stop = AtomicBool::new(false);
    let mut nanos = Vec::with_capacity(1 << 24);
    let snapshots = thread::scope(|scope| {
        let writer = target.map(|store| {
            let stop = &stop;
            scope.spawn(move || {
                let mut snapshots = 0;
                while !stop.load(Ordering::Relaxed) {
                    write(store, path);
                    snapshots += 1;
                }
                snapshots
            })
        });
        let began = Instant::now();
        for keys in String::of(stream).chunks(CALLS).cycle() {
            for key in keys {
                let start = clock.raw();
                black_box(limiter.check(key).is_allowed());
                nanos.push(clock.delta_as_nanos(start, clock.raw()) as f64);
            }
            if began.elapsed() >= SLICE {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.map_or(0, |writer| writer.join().expect("no snapshot panics"))
    });
    Tail { p999: quantile(&nanos, 0.999), most: quantile(&nanos, 1.0), snapshots }
}
