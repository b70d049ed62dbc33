//! Whose requests they are.

use std::collections::HashMap;

use super::words::Words;
use super::{Clients, MOST_CLIENTS, Random, Traffic, TrafficError};

/// Whose each of a stream of requests is, by its number: any order of asking has the same outcome.
///
/// ```
/// use tollgate_lab::traffic::Draws;
///
/// let draws = Draws::zipf(1_000, "1.1", 7)?;
/// assert!(draws.client_of(12) < 1_000);
/// assert_eq!(draws.client_of(12), Draws::zipf(1_000, "1.1", 7)?.client_of(12));
/// # Ok::<(), tollgate_lab::traffic::TrafficError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Draws {
    draw: Draw,
    seed: u64,
}

impl Draws {
    /// Clients from 0 to below `clients`, each as likely as the others.
    pub fn evenly(clients: u32, seed: u64) -> Draws {
        Draws { draw: Draw::new(Clients::Evenly(clients.max(1).into())), seed }
    }

    /// Clients by Zipf's law, whose exponent is a text such as `1.1`.
    ///
    /// # Errors
    /// Where there are more than a million, or the text is no number from 0 to 10.
    pub fn zipf(clients: u32, exponent: &str, seed: u64) -> Result<Draws, TrafficError> {
        let many = u64::from(clients.max(1));
        if many > MOST_CLIENTS {
            return Err(TrafficError(format!("there are {many} of them, at most {MOST_CLIENTS}")));
        }
        let exponent = Words::of(exponent).thousandths("zipf")?;
        Ok(Draws { draw: Draw::new(Clients::Zipf(many, exponent)), seed })
    }

    /// Whose the request of this number is.
    pub fn client_of(&self, request: u64) -> u32 {
        self.draw.next(&mut Random::new(self.seed, request))
    }
}

/// Draws clients: the number of each is told from 0.
#[derive(Clone, Debug)]
pub(super) enum Draw {
    One,
    Evenly(u64),
    /// The weights of all up to each.
    Zipf(Vec<u64>),
}

impl Draw {
    pub(super) fn new(clients: Clients) -> Draw {
        match clients {
            Clients::Evenly(1) | Clients::Zipf(1, _) => Draw::One,
            Clients::Evenly(many) => Draw::Evenly(many),
            Clients::Zipf(many, exponent) => {
                let mut sum: u64 = 0;
                let weights = (1..=many).map(|rank| {
                    sum = sum.saturating_add(weight(rank, exponent));
                    sum
                });
                Draw::Zipf(weights.collect())
            }
        }
    }

    pub(super) fn next(&self, random: &mut Random) -> u32 {
        let number = match self {
            Draw::One => 0,
            Draw::Evenly(many) => random.below(*many),
            Draw::Zipf(sums) => {
                let drawn = random.below(sums.last().copied().unwrap_or(1));
                sums.partition_point(|sum| *sum <= drawn) as u64
            }
        };
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// 1 / rank ^ exponent as a whole number: what a float's last bit is on some machine goes no
/// further than here.
#[allow(
    clippy::float_arithmetic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a weight below 2⁴⁰, and it decides nothing"
)]
fn weight(rank: u64, exponent_thousandths: u32) -> u64 {
    const ONE: f64 = (1u64 << 40) as f64;
    let exponent = f64::from(exponent_thousandths) / 1000.0;
    let weight = ONE * libm::pow(rank as f64, -exponent);
    (weight.round() as u64).max(1)
}

/// All clients of several traffics, numbered. Those of one name are the same clients.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    /// What a group is called, its first number and how many there are.
    groups: Vec<(String, u32, u32)>,
    /// The first number of each traffic's group.
    first: Vec<u32>,
    many: u32,
}

impl Roster {
    pub(crate) fn of(traffic: &[Traffic]) -> Result<Roster, TrafficError> {
        let size = |traffic: &Traffic| match traffic.clients {
            Clients::Evenly(many) | Clients::Zipf(many, _) => many,
        };
        let mut order: Vec<&str> = Vec::new();
        let mut sizes: HashMap<&str, u64> = HashMap::new();
        for each in traffic {
            let known = sizes.entry(&each.name).or_insert_with(|| {
                order.push(&each.name);
                0
            });
            *known = (*known).max(size(each));
        }
        let many: u64 = sizes.values().sum();
        if many > MOST_CLIENTS {
            return Err(TrafficError(format!("there are {many} clients, at most {MOST_CLIENTS}")));
        }
        let mut groups: Vec<(String, u32, u32)> = Vec::new();
        let mut next = 0;
        for name in order {
            let size = u32::try_from(sizes[name]).unwrap_or(u32::MAX);
            groups.push((name.to_owned(), next, size));
            next += size;
        }
        let group = |each: &Traffic| groups.iter().find(|(name, ..)| *name == each.name);
        let first = traffic.iter().map(|each| group(each).map_or(0, |(_, first, _)| *first));
        Ok(Roster { first: first.collect(), groups, many: next })
    }

    /// How many there are in all.
    pub(crate) fn len(&self) -> usize {
        self.many as usize
    }

    /// The number of a traffic's client among all.
    pub(crate) fn number(&self, traffic: usize, client: u32) -> u32 {
        self.first[traffic] + client
    }

    /// Writes what a client is called.
    pub(crate) fn write_name(&self, client: u32, to: &mut String) {
        use std::fmt::Write;
        let group = self.groups.partition_point(|(_, first, _)| *first <= client);
        let Some((name, first, size)) = group.checked_sub(1).and_then(|at| self.groups.get(at))
        else {
            return;
        };
        to.push_str(name);
        if *size > 1 {
            let _ = write!(to, " {}", client - first + 1);
        }
    }

    /// What a client is called.
    pub(crate) fn name(&self, client: u32) -> String {
        let mut name = String::new();
        self.write_name(client, &mut name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_zipfs_law_the_second_has_half_of_what_the_first_has() {
        let draw = Draw::new(Clients::Zipf(100, 1_000));
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 100];
        for _ in 0..100_000 {
            counts[draw.next(&mut random) as usize] += 1;
        }
        // 1 / H(100) of all are the first's.
        assert!(counts[0].abs_diff(19_277) < 500, "{}", counts[0]);
        assert!(counts[1].abs_diff(9_638) < 400, "{}", counts[1]);
        assert!(counts[99] > 100, "{}", counts[99]);
    }

    #[test]
    fn requests_are_drawn_by_their_number_in_any_order() {
        let draws = Draws::zipf(100, "1", 3).unwrap();
        let mut counts = [0u32; 100];
        for request in (0..100_000).rev() {
            counts[draws.client_of(request) as usize] += 1;
        }
        assert!(counts[0].abs_diff(19_277) < 500, "{}", counts[0]);
        assert_ne!(draws.client_of(0), Draws::zipf(100, "1", 4).unwrap().client_of(0));
        let evenly = Draws::evenly(1_000_000_000, 3);
        let mut drawn: Vec<u32> = (0..1000).map(|request| evenly.client_of(request)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 1000, "no two of so many");
        for wrong in ["", "-1", "1.0001", "11"] {
            assert!(Draws::zipf(100, wrong, 3).is_err(), "{wrong}");
        }
        assert!(Draws::zipf(1_000_001, "1", 3).is_err());
    }

    #[test]
    fn clients_of_one_name_are_the_same_clients() {
        let traffic: Vec<Traffic> =
            ["steady 1/s from 3 clients", "steady 1/s", "steady 1/s as eve"]
                .map(|text| text.parse().unwrap())
                .into();
        let roster = Roster::of(&traffic).unwrap();
        assert_eq!(roster.len(), 4);
        assert_eq!(roster.number(0, 0), roster.number(1, 0));
        let names: Vec<String> = (0..4).map(|client| roster.name(client)).collect();
        assert_eq!(names, ["client 1", "client 2", "client 3", "eve"]);
    }
}
