//! One run: ask, count, have the refused come again.

use tollgate::{Request, Timestamp};

use super::arrange::{CLIENT, Case};
use super::door::Answer;
use super::result::{Decided, Run};
use super::tally::Tally;
use super::tries::{Tries, Try};
use super::{SimulateError, nanos};
use crate::traffic::{Random, Roster, Traffic};

/// What is the same for all runs.
pub(super) struct Scene<'a> {
    pub(super) length: u64,
    pub(super) window: u64,
    pub(super) start: Timestamp,
    pub(super) seed: u64,
    pub(super) most_tries: u64,
    /// Whose window is followed; everybody's where all are counted together.
    pub(super) watched: Option<u32>,
    pub(super) traffic: &'a [Traffic],
    pub(super) roster: &'a Roster,
}

/// The stream of random numbers that says to which node a request comes.
const NODES: u64 = 1 << 33;

impl Scene<'_> {
    pub(super) fn run(
        &self,
        case: Case,
        number: (usize, usize),
        watch: &mut impl FnMut(&Decided<'_>),
    ) -> Result<Run, SimulateError> {
        let mut tally = Tally::new(self.length, self.roster.len());
        let mut tries = Tries::new(self.traffic, self.roster, (self.seed, self.start));
        let mut nodes = Random::new(self.seed, NODES);
        let mut words = Words::default();
        let mut sampled = 0;
        while let Some(asked) = tries.next() {
            if tally.tries >= self.most_tries {
                return Err(SimulateError(format!(
                    "with retries there are more than {} requests: \
                     make retries rarer, or the traffic shorter",
                    self.most_tries
                )));
            }
            self.sample(&case, &mut tally, &mut sampled, asked.at);
            let traffic = &self.traffic[asked.traffic];
            words.say(traffic, self.roster, asked.client);
            let request = words.request(traffic);
            let answer = case.doors.ask(asked.at, &request, &mut nodes).map_err(|error| {
                SimulateError(format!("{}: {:?}: {error}", case.name, traffic.text()))
            })?;
            tally.count(&asked, traffic.cost, &answer);
            watch(&self.decided(&asked, &answer, number, &words.client));
            if !answer.is_allowed() {
                let told = asked.at.saturating_add(nanos(answer.latency));
                let retry_after = answer.ruling.retry_after().map(nanos);
                tries.refuse(asked, (told, retry_after));
            }
        }
        self.sample(&case, &mut tally, &mut sampled, u64::MAX);
        Ok(self.told(case, tally))
    }

    fn decided<'a>(
        &self,
        asked: &Try,
        answer: &Answer,
        run: (usize, usize),
        client: &'a str,
    ) -> Decided<'a> {
        Decided {
            run,
            progress: asked.at.saturating_mul(1000) / self.length.max(1),
            at_nanos: asked.at,
            client,
            cost: self.traffic[asked.traffic].cost,
            allowed: answer.is_allowed(),
            remaining: answer.remaining(),
            retry_after: answer.ruling.retry_after(),
            wait: answer.wait(),
        }
    }

    /// How much the first client could take at the end of every slot that is over at `now`.
    fn sample(&self, case: &Case, tally: &mut Tally, sampled: &mut usize, now: u64) {
        while *sampled < tally.slots.len() && tally.end_of(*sampled) <= now {
            let end = tally.end_of(*sampled).min(self.length);
            let mut words = Words::default();
            words.say(&self.traffic[0], self.roster, self.roster.number(0, 0));
            let request = words.request(&self.traffic[0]).cost(1);
            tally.slots[*sampled].remaining = case.doors.remaining(end, &request);
            *sampled += 1;
        }
    }

    fn told(&self, case: Case, mut tally: Tally) -> Run {
        let start = self.start.as_nanos();
        let [busiest_client, busiest, busiest_on_the_clock] = tally.busiest(self.window, start);
        tally.follow_window(self.window, self.watched);
        Run {
            name: case.name,
            rate: case.limit.map(|limit| (limit.count(), nanos(limit.period()))),
            limits: case.limits,
            offered: tally.offered,
            tries: tally.tries,
            admitted: tally.admitted,
            refused: tally.refused,
            unserved: tally.offered - tally.admitted,
            delayed: tally.delayed,
            degraded: tally.degraded,
            unlimited: tally.unlimited,
            busiest_client,
            busiest,
            busiest_on_the_clock,
            waits: tally.waits(),
            last_nanos: tally.last(),
            clients: tally.clients(),
            fairness: tally.fairness(),
            hit_hardest: tally.hit_hardest(self.roster),
            refused_by: tally.refused_by(),
            slots: tally.slots,
        }
    }
}

/// The texts of a request, in room that is used again.
#[derive(Default)]
struct Words {
    client: String,
    values: Vec<String>,
}

impl Words {
    /// Makes ready what a client of a traffic says.
    fn say(&mut self, traffic: &Traffic, roster: &Roster, client: u32) {
        self.client.clear();
        roster.write_name(client, &mut self.client);
        self.values.resize_with(traffic.attributes.len(), String::new);
        for (value, (_, template)) in self.values.iter_mut().zip(&traffic.attributes) {
            value.clear();
            for (index, part) in template.split("{client}").enumerate() {
                if index > 0 {
                    value.push_str(&self.client);
                }
                value.push_str(part);
            }
        }
    }

    fn request<'a>(&'a self, traffic: &'a Traffic) -> Request<'a> {
        let mut request = Request::new().with(CLIENT, &self.client);
        for ((name, _), value) in traffic.attributes.iter().zip(&self.values) {
            request.set(name, value);
        }
        if traffic.cost == 1 { request } else { request.cost(traffic.cost) }
    }
}
