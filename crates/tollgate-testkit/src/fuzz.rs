//! The quick form of fuzzing, on stable: the seeds, and changes of them from a fixed sequence.
//!
//! The same functions run under libFuzzer from `fuzz/`, for hours.

use std::path::Path;
use std::time::{Duration, Instant};

/// The variable that sets a run of that many seconds instead.
const SECONDS: &str = "FUZZ_SECONDS";

/// The longest random input.
const MAX_LENGTH: u64 = 192;

/// Calls `body` with every seed in `fuzz/seeds/TARGET` and with `inputs` changes of them: a number
/// and no time, so that a busy machine tests the same inputs. `body` panics if a claim is false.
///
/// # Panics
/// If `body` does; the input is then in a file that the message names.
pub fn fuzz(target: &str, inputs: u64, body: fn(&[u8])) {
    let mut seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds.iter().for_each(|seed| call(target, body, seed));
    let mut random = Random(1);
    seeds.extend((0..16).map(|_| random.bytes()));
    let mut more = budget(inputs);
    let mut count = 0;
    while more(count) {
        let input = if count % 4 == 0 { random.bytes() } else { random.mutate(&seeds) };
        call(target, body, &input);
        count += 1;
    }
    println!("{target}: {count} inputs");
}

/// Returns a function that tells whether another input follows after `count`.
fn budget(inputs: u64) -> Box<dyn FnMut(u64) -> bool> {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    match seconds.map(Duration::from_secs) {
        Some(time) => {
            let start = Instant::now();
            Box::new(move |_| start.elapsed() < time)
        }
        None => Box::new(move |count| count < inputs),
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join("fuzz/seeds").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> =
        files.map(|file| file.expect("the folder is readable").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a seed is readable")).collect()
}

/// Saves the input if `body` panics: `cd fuzz && cargo run --bin TARGET -- FILE` repeats it.
fn call(target: &str, body: fn(&[u8]), input: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| body(input)) {
        let file = std::env::temp_dir().join(format!("tollgate-fuzz-{target}"));
        std::fs::write(&file, input).expect("the temporary folder is writable");
        eprintln!("{target}: the input is in {}", file.display());
        std::panic::resume_unwind(panic);
    }
}

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

    /// A seed with some bytes changed, removed, added or replaced by the end of another seed.
    fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
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
