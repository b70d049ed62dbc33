//! The rows: who is measured beside whom, with how many keys.

use crate::measure::{Pace, interleave};
use crate::peers::{Loaded, Run, Traffic, Who};
use crate::report::{Pair, Report, Row, Scenario, Section, name};
use crate::stream::{Spread, Stream, Streams};

pub(crate) const THREADS: [usize; 2] = [1, 2];
const BOTH_SPREADS: &[Spread] = &[Spread::Uniform, Spread::Zipf];
const UNIFORM: &[Spread] = &[Spread::Uniform];

/// A peer, and which form of ours stands beside it.
type Beside = (Who, Who);

const KEYED: &[Beside] = &[
    (Who::Governor, Who::Ours),
    (Who::GovernorU64, Who::OursU64),
    (Who::Throttlecrab, Who::Ours),
    (Who::Limitador, Who::Ours),
    (Who::Naive, Who::Ours),
];

/// These have one bucket and no keys: they stand beside one hot key only.
const UNKEYED: &[Beside] = &[(Who::Ratelimit, Who::Ours), (Who::LeakyBucket, Who::Ours)];

const BATCH: &[Beside] = &[(Who::Governor, Who::OursBatch), (Who::Ours, Who::OursBatch)];
const THREE: &[Beside] = &[
    (Who::OursThree, Who::OursApart),
    (Who::OursThree, Who::Ours),
    (Who::OursThree, Who::OursOneOfThree),
    (Who::GovernorThree, Who::OursThree),
];

/// Rows that share the limiters, which are built once for all of them.
pub(crate) struct Block {
    section: Section,
    keys: usize,
    traffic: Traffic,
    spreads: &'static [Spread],
    /// Each is in memory together and measured in turn.
    groups: Vec<Vec<Beside>>,
}

/// All blocks, the ones with the fewest keys first.
pub(crate) fn blocks(sizes: &[usize], most_for_limitador: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    for &keys in sizes {
        for traffic in Traffic::BOTH {
            let spreads = if keys == 1 { UNIFORM } else { BOTH_SPREADS };
            let groups = decision_groups(keys, most_for_limitador);
            blocks.push(Block { section: Section::Decisions, keys, traffic, spreads, groups });
        }
        if matches!(keys, 1 | 100_000 | 1_000_000) {
            let (section, traffic) = (Section::Three, Traffic::Allowed);
            let groups = vec![THREE.to_vec()];
            blocks.push(Block { section, keys, traffic, spreads: UNIFORM, groups });
        }
        if keys == 1_000_000 {
            for traffic in Traffic::BOTH {
                let section = Section::Batch;
                let groups = vec![BATCH.to_vec()];
                blocks.push(Block { section, keys, traffic, spreads: BOTH_SPREADS, groups });
            }
        }
    }
    blocks
}

fn decision_groups(keys: usize, most_for_limitador: usize) -> Vec<Vec<Beside>> {
    let fits = |(peer, _): &Beside| *peer != Who::Limitador || keys <= most_for_limitador;
    let keyed: Vec<Beside> = KEYED.iter().copied().filter(fits).collect();
    match keys {
        1 => vec![[&keyed, UNKEYED].concat()],
        // Two at a time, for memory's sake.
        2_000_000.. => keyed.into_iter().map(|beside| vec![beside]).collect(),
        _ => vec![keyed],
    }
}

impl Block {
    fn scenarios(&self) -> impl Iterator<Item = Scenario> + '_ {
        self.spreads.iter().flat_map(|&spread| {
            let Block { keys, traffic, .. } = *self;
            THREADS.map(|threads| Scenario { keys, spread, traffic, threads })
        })
    }

    /// The rows of this block that are asked for.
    pub(crate) fn chosen(&self, filter: &str) -> Vec<Scenario> {
        self.scenarios().filter(|scenario| name(self.section, scenario).contains(filter)).collect()
    }

    /// How many rounds of the progress bar `chosen` takes.
    pub(crate) fn steps(&self, chosen: &[Scenario], rounds: usize) -> usize {
        chosen.len() * self.groups.len() * rounds
    }

    pub(crate) fn run(
        &self,
        chosen: &[Scenario],
        (streams, pace): (&mut Streams, &Pace),
        report: &mut Report,
    ) {
        if chosen.is_empty() {
            return;
        }
        let mut rows: Vec<Row> = chosen.iter().map(|at| Row::new(self.section, *at)).collect();
        for row in &rows {
            pace.progress.set_message(format!("requests for {}", row.name));
            // Before the limiters, which are to be found as they are left by adding keys.
            streams.get(self.keys, row.scenario.spread);
        }
        for group in &self.groups {
            let loaded = self.load(group, pace, report);
            for row in &mut rows {
                let stream = streams.get(self.keys, row.scenario.spread);
                pace.progress.set_message(row.name.clone());
                row.pairs.extend(measure(group, &loaded, (stream, row.scenario.threads), pace));
            }
            report.notes.extend(loaded.iter().filter_map(|loaded| self.forgotten(loaded)));
        }
        report.rows.extend(rows);
    }

    /// A limiter that has forgotten keys meanwhile was measured adding them again.
    fn forgotten(&self, (who, loaded): &(Who, Box<dyn Loaded>)) -> Option<String> {
        let held = loaded.keys_held().filter(|&held| held < self.keys)?;
        let (keys, traffic) = (self.keys, self.traffic.name());
        Some(format!("{} held {held} of {keys} keys at the end ({traffic})", who.name()))
    }

    fn load(
        &self,
        group: &[Beside],
        pace: &Pace,
        report: &mut Report,
    ) -> Vec<(Who, Box<dyn Loaded>)> {
        let mut all: Vec<Who> = Vec::new();
        for who in group.iter().flat_map(|&(peer, ours)| [ours, peer]) {
            if !all.contains(&who) {
                all.push(who);
            }
        }
        // After those whose states it shares.
        all.sort_by_key(|who| *who == Who::OursOneOfThree);
        let mut loaded: Vec<(Who, Box<dyn Loaded>)> = Vec::with_capacity(all.len());
        for who in all {
            pace.progress.set_message(format!("{} keys into {}", self.keys, who.name()));
            let shared = (who == Who::OursOneOfThree)
                .then(|| loaded.iter().find_map(|(_, other)| other.one_of_them()))
                .flatten();
            let limiter = shared.unwrap_or_else(|| who.load(self.keys, self.traffic));
            report.notes.extend(doubt(who, &*limiter, self.keys, self.traffic));
            loaded.push((who, limiter));
        }
        loaded
    }
}

/// What is wrong with a limiter that does not answer as the traffic says it should.
pub(crate) fn doubt(
    who: Who,
    loaded: &dyn Loaded,
    keys: usize,
    traffic: Traffic,
) -> Option<String> {
    const ASKED: usize = 4096;
    let stream = Stream::sample(keys, ASKED);
    let allowed = loaded.count_allowed(&stream, 0..ASKED);
    let expected = match traffic {
        Traffic::Allowed => allowed > ASKED * 99 / 100,
        Traffic::Denied => allowed < ASKED / 100,
    };
    let said = format!("{allowed} of {ASKED} requests allowed, {} expected", traffic.name());
    (!expected).then(|| format!("{} with {keys} keys: {said}", who.name()))
}

fn measure(
    group: &[Beside],
    loaded: &[(Who, Box<dyn Loaded>)],
    (stream, threads): (&Stream, usize),
    pace: &Pace,
) -> Vec<Pair> {
    let runs: Vec<&dyn Run> = loaded.iter().map(|(_, limiter)| &**limiter as &dyn Run).collect();
    let nanos = interleave(&runs, stream, threads, pace);
    let of = |who: Who| {
        let index = loaded.iter().position(|(loaded, _)| *loaded == who);
        index.map(|index| nanos[index].clone()).unwrap_or_default()
    };
    let pair = |&(peer, ours): &Beside| Pair {
        peer: peer.name(),
        ours: ours.name(),
        peer_nanos: of(peer),
        ours_nanos: of(ours),
    };
    group.iter().map(pair).collect()
}
