//! The parts a decision is made of, each beside its alternatives: the clock and the hash.

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::ops::Range;
use std::time::{Instant, SystemTime};

use siphasher::sip128::{Hasher128, SipHasher13};
use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::measure::{Pace, interleave, quantile};
use crate::peers::Run;
use crate::report::threads_name;
use crate::rows::THREADS;
use crate::stream::{RequestKey, Spread, Stream};

/// Something done once for each request.
struct Each<F>(F);

impl<T, F: Fn(&[u8]) -> T + Sync> Run for Each<F> {
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        for key in &String::of(stream)[range] {
            black_box((self.0)(black_box(key.as_bytes())));
        }
    }
}

type Named<'a> = (&'static str, &'a dyn Run);

/// Reads each clock.
pub(crate) fn clocks(pace: &Pace) {
    let quanta = quanta::Clock::new();
    let ours = tollgate::Clock::system();
    let contenders: [Named<'_>; 6] = [
        ("tollgate::Clock", &Each(|_: &[u8]| ours.now())),
        ("Instant", &Each(|_: &[u8]| Instant::now())),
        ("SystemTime", &Each(|_: &[u8]| SystemTime::now())),
        ("quanta, nanoseconds", &Each(|_: &[u8]| quanta.now())),
        ("quanta, raw cycles", &Each(|_: &[u8]| quanta.raw())),
        (
            "coarsetime, a tick of ms",
            &Each(|_: &[u8]| coarsetime::Instant::now_without_cache_update()),
        ),
    ];
    print("Reading a clock", &contenders, pace);
}

/// Hashes keys of 16 bytes.
pub(crate) fn hashes(pace: &Pace) {
    let secret: [u8; 192] = std::array::from_fn(|index| (index * 151 % 251) as u8);
    let sip = SipHasher13::new_with_keys(black_box(1), black_box(2));
    let (ahash, fold) = (ahash::RandomState::new(), foldhash::fast::RandomState::default());
    let quality = foldhash::quality::RandomState::default();
    let std = std::hash::RandomState::new();
    let sip128 = |key: &[u8]| {
        let mut hasher = sip;
        hasher.write(key);
        hasher.finish128().as_u128()
    };
    let contenders: [Named<'_>; 6] = [
        (
            "XXH3, secret, 128 bits",
            &Each(|key: &[u8]| xxh3_128_with_secret(key, black_box(&secret))),
        ),
        ("SipHash-1-3, 128 bits", &Each(sip128)),
        ("SipHash-1-3 of std, 64", &Each(|key: &[u8]| hash_one(&std, key))),
        ("ahash, 64 bits", &Each(|key: &[u8]| hash_one(&ahash, key))),
        ("foldhash fast, 64 bits", &Each(|key: &[u8]| hash_one(&fold, key))),
        ("foldhash quality, 64", &Each(|key: &[u8]| hash_one(&quality, key))),
    ];
    print("Hashing a key of 16 bytes", &contenders, pace);
}

/// The bytes alone, without the length or the mark of a text that `Hash` adds.
fn hash_one(state: &impl BuildHasher, key: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// A line for each, the first one being what the others are divided by.
fn print(title: &str, contenders: &[Named<'_>], pace: &Pace) {
    let stream = Stream::new(1000, Spread::Uniform);
    let runs: Vec<&dyn Run> = contenders.iter().map(|(_, run)| *run).collect();
    for threads in THREADS {
        println!(
            "{title}, {}\n{:<26} {:>6} {:>8} {:>15}",
            threads_name(threads),
            "",
            "ns",
            "x first",
            "p10-90"
        );
        let nanos = interleave(&runs, &stream, threads, pace);
        for ((name, _), rounds) in contenders.iter().zip(&nanos) {
            let ratios: Vec<f64> =
                rounds.iter().zip(&nanos[0]).map(|(it, first)| it / first).collect();
            let [p10, median, p90] = [0.1, 0.5, 0.9].map(|share| quantile(&ratios, share));
            let spread = format!("{p10:.2}-{p90:.2}");
            println!("{name:<26} {:>6.1} {median:>8.2} {spread:>15}", quantile(rounds, 0.5));
        }
        println!();
    }
}
