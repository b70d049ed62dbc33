//! The quick form: every seed, and changes of them drawn from a fixed sequence, within seconds.

use std::path::Path;
use std::time::{Duration, Instant};

/// Inputs a target gets, unless the time is up first; `FUZZ_SECONDS` asks for longer.
const INPUTS: u64 = 400_000;
const TIME: Duration = Duration::from_secs(8);

/// How many inputs, and for how long at most.
fn budget() -> (u64, Duration) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or((INPUTS, TIME), |seconds| (u64::MAX, Duration::from_secs(seconds)))
}

/// The longest input drawn.
const MAX_LENGTH: u64 = 192;

/// splitmix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.next() % MAX_LENGTH).map(|_| self.byte()).collect()
    }

    /// A seed with some bytes changed, dropped, doubled or brought in from another.
    fn mutated(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len());
            match self.next() % 6 {
                0 if !bytes.is_empty() => bytes[at] = self.byte(),
                1 if !bytes.is_empty() => bytes[at] ^= 1 << (self.next() % 8),
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                3 => bytes.insert(at, self.byte()),
                4 => bytes.truncate(at),
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len());
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Says which input it was before the panic goes on: `cargo run --bin TARGET -- FILE` repeats it.
fn feed(target: &str, body: fn(&[u8]), input: &[u8]) {
    let result = std::panic::catch_unwind(|| body(input));
    if let Err(panic) = result {
        let file = std::env::temp_dir().join(format!("tollgate-fuzz-{target}"));
        std::fs::write(&file, input).unwrap();
        eprintln!("{target}: the input is in {}", file.display());
        std::panic::resume_unwind(panic);
    }
}

fn run(target: &str, body: fn(&[u8])) {
    let mut seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds.iter().for_each(|seed| feed(target, body, seed));
    let (began, mut random) = (Instant::now(), Random(1));
    seeds.extend((0..16).map(|_| random.bytes()));
    let mut fed = 0;
    let (inputs, time) = budget();
    while fed < inputs && began.elapsed() < time {
        let input = if fed % 4 == 0 { random.bytes() } else { random.mutated(&seeds) };
        feed(target, body, &input);
        fed += 1;
    }
    eprintln!("{target}: {fed} inputs in {:?}", began.elapsed());
}

#[test]
fn any_text_is_refused_or_reads_back_the_same() {
    run("limit_text", tollgate_fuzz::limit_text);
}

#[test]
fn any_traffic_is_answered_as_the_model_answers_it() {
    run("traffic", tollgate_fuzz::traffic);
}

#[test]
fn any_snapshot_is_refused_or_restored() {
    run("snapshot", tollgate_fuzz::snapshot);
}

#[test]
fn any_two_keys_are_told_apart() {
    run("keys", tollgate_fuzz::keys);
}

#[test]
fn any_policy_file_is_refused_or_reads_back_the_same() {
    run("policy_file", tollgate_fuzz::policy_file);
}

#[test]
fn any_test_file_is_refused_or_run() {
    run("test_file", tollgate_fuzz::test_file);
}

#[test]
fn any_bytes_on_the_redis_port_are_answered_the_same_however_they_are_cut() {
    run("resp", tollgate_fuzz::resp);
}

#[test]
fn any_log_is_refused_or_read_line_by_line() {
    run("log_line", tollgate_fuzz::log_line);
}
