//! The limiters that are compared, behind one small trait.

mod governor;
mod leaky_bucket;
mod limitador;
mod naive;
mod ratelimit;
mod throttlecrab;
mod tollgate;

use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

use crate::stream::{RequestKey, Stream};

/// What the limit does with the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Traffic {
    /// Never dry in a run, and never full again: a full one could be forgotten.
    Allowed,
    /// All used up beforehand.
    Denied,
}

impl Traffic {
    pub(crate) const BOTH: [Traffic; 2] = [Traffic::Allowed, Traffic::Denied];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Traffic::Allowed => "allow",
            Traffic::Denied => "deny",
        }
    }

    fn terms(self, keys: usize) -> Terms {
        let (seconds, burst) = match (self, keys) {
            (Traffic::Denied, _) => (60 * 60, 1),
            // Few keys are asked for many times a second, and by many requests.
            (Traffic::Allowed, ..=1000) => (1, 1_000_000_000),
            // Of many, some are not asked for in minutes: none may be full again by then. The two
            // numbers multiply to 95 years: ours refuses more than 100, and some peers wrap at 292.
            (Traffic::Allowed, _) => (10 * 60, 5_000_000),
        };
        Terms { period: Duration::from_secs(seconds), burst }
    }
}

/// One unit comes back per `period`, and at most `burst` can be taken at once.
struct Terms {
    period: Duration,
    burst: u32,
}

/// One limiter.
trait Peer: Sync + Sized {
    type Key: RequestKey;

    fn build(keys: usize, traffic: Traffic) -> Self;

    /// Whether a request of `key` is allowed.
    fn check(&self, key: &Self::Key) -> bool;

    /// How many keys it holds, if it may forget some.
    fn held(&self) -> Option<usize> {
        None
    }

    /// Of several limits, one of them, with the same states.
    fn one(&self) -> Option<Box<dyn Loaded>> {
        None
    }

    /// Makes all of these requests, one after the other if not said otherwise.
    #[inline]
    fn check_each(&self, keys: &[Self::Key]) {
        for key in keys {
            black_box(self.check(key));
        }
    }
}

/// Something that can be run over a part of the stream; the loop inside is compiled for it.
pub(crate) trait Run: Sync {
    fn run(&self, stream: &Stream, range: Range<usize>);
}

/// A limiter with all its keys.
pub(crate) trait Loaded: Run {
    fn count_allowed(&self, stream: &Stream, range: Range<usize>) -> usize;

    /// How many keys it holds, if it may forget some.
    fn keys_held(&self) -> Option<usize>;

    /// Of several limits, one of them, with the same states.
    fn one_of_them(&self) -> Option<Box<dyn Loaded>>;

    /// Adds what each single call takes, in the ticks of `clock`.
    fn time_each(
        &self,
        requests: (&Stream, Range<usize>),
        clock: &quanta::Clock,
        to: &mut Vec<u64>,
    );
}

impl<P: Peer> Run for P {
    #[inline(never)]
    fn run(&self, stream: &Stream, range: Range<usize>) {
        self.check_each(&P::Key::of(stream)[range]);
    }
}

impl<P: Peer> Loaded for P {
    fn count_allowed(&self, stream: &Stream, range: Range<usize>) -> usize {
        P::Key::of(stream)[range].iter().filter(|key| self.check(key)).count()
    }

    fn keys_held(&self) -> Option<usize> {
        self.held()
    }

    fn one_of_them(&self) -> Option<Box<dyn Loaded>> {
        self.one()
    }

    #[inline(never)]
    fn time_each(
        &self,
        (stream, range): (&Stream, Range<usize>),
        clock: &quanta::Clock,
        to: &mut Vec<u64>,
    ) {
        for key in &P::Key::of(stream)[range] {
            let start = clock.raw();
            black_box(self.check(key));
            to.push(clock.raw().saturating_sub(start));
        }
    }
}

/// Adds all keys in the order of their index and, for denied traffic, uses up what each may have.
fn load<P: Peer + 'static>(keys: usize, traffic: Traffic) -> Box<dyn Loaded> {
    let peer = P::build(keys, traffic);
    for index in 0..keys {
        let key = P::Key::nth(index);
        let mut allowed = peer.check(&key);
        // Some let more than one through at first.
        for _ in 0..3 {
            if traffic == Traffic::Denied && allowed {
                allowed = peer.check(&key);
            }
        }
    }
    Box::new(peer)
}

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Who {
    Ours,
    OursNameless,
    OursU64,
    OursThree,
    OursOneOfThree,
    OursApart,
    OursBatch,
    Governor,
    GovernorU64,
    GovernorThree,
    Throttlecrab,
    Limitador,
    Naive,
    Ratelimit,
    LeakyBucket,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Ours => "ours",
            Who::OursNameless => "ours, no names",
            Who::OursU64 => "ours u64",
            Who::OursThree => "ours x3",
            Who::OursOneOfThree => "ours 1 of 3",
            Who::OursApart => "ours 3 calls",
            Who::OursBatch => "ours batch",
            Who::Governor => "governor",
            Who::GovernorU64 => "governor u64",
            Who::GovernorThree => "governor x3",
            Who::Throttlecrab => "throttlecrab",
            Who::Limitador => "limitador",
            Who::Naive => "naive",
            Who::Ratelimit => "ratelimit",
            Who::LeakyBucket => "leaky-bucket",
        }
    }

    /// The limiter with `keys` keys in it.
    pub(crate) fn load(self, keys: usize, traffic: Traffic) -> Box<dyn Loaded> {
        match self {
            Who::Ours => load::<tollgate::Text>(keys, traffic),
            Who::OursNameless => load::<tollgate::Nameless>(keys, traffic),
            Who::OursU64 => load::<tollgate::Number>(keys, traffic),
            Who::OursThree => load::<tollgate::Three>(keys, traffic),
            Who::OursOneOfThree => load::<tollgate::OneOfThree>(keys, traffic),
            Who::OursApart => load::<tollgate::Apart>(keys, traffic),
            Who::OursBatch => load::<tollgate::Batch>(keys, traffic),
            Who::Governor => load::<governor::Text>(keys, traffic),
            Who::GovernorU64 => load::<governor::Number>(keys, traffic),
            Who::GovernorThree => load::<governor::Three>(keys, traffic),
            Who::Throttlecrab => load::<throttlecrab::Shared>(keys, traffic),
            Who::Limitador => load::<limitador::InMemory>(keys, traffic),
            Who::Naive => load::<naive::Naive>(keys, traffic),
            Who::Ratelimit => load::<ratelimit::Single>(keys, traffic),
            Who::LeakyBucket => load::<leaky_bucket::Single>(keys, traffic),
        }
    }
}
