//! Requests: whose they are, and in which order they come.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// Prime, so that it shares no factor with a number of keys that is a power of ten.
const SCATTER: usize = 2_654_435_761;

/// How requests spread over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    Uniform,
    /// The exponent is 0.99.
    Zipf,
}

impl Spread {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Spread::Uniform => "unif",
            Spread::Zipf => "zipf",
        }
    }
}

/// Requests in the order they are made, as text and as numbers.
pub(crate) struct Stream {
    texts: Vec<String>,
    numbers: Vec<u64>,
}

/// What a request is known by: text of 16 bytes, or a number.
pub(crate) trait RequestKey: Sized + Sync {
    /// The key that is added in place `index`.
    fn nth(index: usize) -> Self;
    fn of(stream: &Stream) -> &[Self];
}

impl RequestKey for String {
    fn nth(index: usize) -> String {
        format!("user-{index:011}")
    }

    fn of(stream: &Stream) -> &[String] {
        &stream.texts
    }
}

impl RequestKey for u64 {
    fn nth(index: usize) -> u64 {
        index as u64
    }

    fn of(stream: &Stream) -> &[u64] {
        &stream.numbers
    }
}

impl Stream {
    pub(crate) fn new(keys: usize, spread: Spread) -> Stream {
        // Long enough that at ten million keys it touches far more than a cache holds.
        let length = if keys > 1_000_000 { 1 << 22 } else { 1 << 20 };
        Stream::of(&indexes(keys, spread, length))
    }

    /// A short stream, to look at the answers.
    pub(crate) fn sample(keys: usize, length: usize) -> Stream {
        Stream::of(&indexes(keys, Spread::Uniform, length))
    }

    fn of(indexes: &[usize]) -> Stream {
        Stream {
            texts: texts_in_address_order(indexes),
            numbers: indexes.iter().map(|&index| u64::nth(index)).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

/// The streams over one number of keys, made when first asked for.
#[derive(Default)]
pub(crate) struct Streams {
    keys: usize,
    made: Vec<(Spread, Stream)>,
}

impl Streams {
    pub(crate) fn get(&mut self, keys: usize, spread: Spread) -> &Stream {
        if self.keys != keys {
            *self = Streams { keys, made: Vec::new() };
        }
        let index = match self.made.iter().position(|(made, _)| *made == spread) {
            Some(index) => index,
            None => {
                self.made.push((spread, Stream::new(keys, spread)));
                self.made.len() - 1
            }
        };
        &self.made[index].1
    }
}

fn indexes(keys: usize, spread: Spread, length: usize) -> Vec<usize> {
    let mut random = SmallRng::seed_from_u64(keys as u64);
    match spread {
        Spread::Uniform => (0..length).map(|_| random.random_range(0..keys)).collect(),
        Spread::Zipf => {
            let zipf = Zipf::new(keys as f64, 0.99).expect("both numbers are above zero");
            // Popular keys are not the ones added first, which lie side by side in many a table.
            let scattered = |rank: f64| (rank as usize - 1) * SCATTER % keys;
            (0..length).map(|_| scattered(zipf.sample(&mut random))).collect()
        }
    }
}

/// Reading the requests must not miss the cache by itself, and the allocator hands out used memory
/// in any order: so the texts are sorted by address before they are written.
fn texts_in_address_order(indexes: &[usize]) -> Vec<String> {
    let mut texts: Vec<String> = indexes.iter().map(|_| String::nth(0)).collect();
    texts.sort_unstable_by_key(|text| text.as_ptr().addr());
    for (text, &index) in texts.iter_mut().zip(indexes) {
        text.clear();
        text.push_str(&String::nth(index));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_ranks_reaches_every_key_once() {
        for keys in [1, 1000, 100_000] {
            let mut reached: Vec<usize> = (0..keys).map(|rank| rank * SCATTER % keys).collect();
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..keys));
        }
    }

    #[test]
    fn texts_are_sixteen_bytes_and_lie_in_request_order() {
        let texts = texts_in_address_order(&[7, 3, 9_999_999]);
        assert_eq!(texts, ["user-00000000007", "user-00000000003", "user-00009999999"]);
        assert!(texts.iter().all(|text| text.len() == 16));
        assert!(texts.is_sorted_by_key(|text| text.as_ptr().addr()));
    }
}
