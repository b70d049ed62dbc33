//! Requests of one key on a manual clock, decided by all limits together.

use std::time::Duration;

use tollgate::{Decision, Limit, Limiter, ManualClock, MemoryStore, Outcome, Timestamp, check_all};

/// Who asks: there is only one.
const KEY: &str = "somebody";

/// What to play.
#[derive(Clone, Copy)]
pub(super) struct Play {
    pub(super) requests: u64,
    pub(super) every: Duration,
    pub(super) cost: u64,
    /// The manual clock's own start if not said.
    pub(super) start: Option<Timestamp>,
}

/// What came of it.
pub(super) struct Played {
    pub(super) play: Play,
    pub(super) start: Timestamp,
    /// The limits as they were given.
    pub(super) limits: Vec<String>,
    /// Whether a limit shapes, so that there are delays to show.
    pub(super) has_delays: bool,
    pub(super) requests: Vec<Request>,
}

/// One request and its answer.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) at: Timestamp,
    pub(super) allowed: bool,
    /// Which limit decided; its figures are the ones below.
    pub(super) decided_by: usize,
    pub(super) remaining: u64,
    pub(super) retry_after: Duration,
    pub(super) reset_after: Duration,
    /// The longest of all limits.
    pub(super) delay: Duration,
}

impl Play {
    /// Plays; the error says what is wrong with each limit, by its text as it was `given`.
    pub(super) fn against(self, given: &[String], limits: &[Limit]) -> Result<Played, Vec<String>> {
        let clock = self.start.map_or_else(ManualClock::new, ManualClock::at);
        let start = clock.now();
        self.check_end(start)?;
        let limiters = self.limiters(&clock, given, limits)?;
        let mut requests = Vec::new();
        for number in 0..self.requests {
            if number > 0 {
                clock.advance(self.every);
            }
            requests.push(self.request(clock.now(), &limiters));
        }
        let has_delays =
            limits.iter().any(|limit| limit.algorithm() == tollgate::Algorithm::LeakyQueue);
        Ok(Played { play: self, start, limits: given.to_vec(), has_delays, requests })
    }

    /// Past the last moment that can be told, time would stand still and answers mislead.
    fn check_end(&self, start: Timestamp) -> Result<(), Vec<String>> {
        let steps = u32::try_from(self.requests.saturating_sub(1)).unwrap_or(u32::MAX);
        match self.every.checked_mul(steps) {
            Some(length) if length < Timestamp::MAX.saturating_since(start) => Ok(()),
            _ => {
                Err(vec!["the last request would come after 2262, play fewer or sooner".to_owned()])
            }
        }
    }

    fn limiters(
        &self,
        clock: &ManualClock,
        given: &[String],
        limits: &[Limit],
    ) -> Result<Vec<Limiter>, Vec<String>> {
        let builder = MemoryStore::builder().clock(clock.clone()).max_keys(limits.len().max(1));
        let store = builder.build().map_err(|error| vec![error.to_string()])?;
        let (mut limiters, mut wrong) = (Vec::new(), Vec::new());
        for ((index, limit), text) in limits.iter().enumerate().zip(given) {
            // By number, since the same limit may be given twice.
            match store.limiter(&index.to_string(), limit.clone()) {
                Ok(limiter) => {
                    if let Outcome::Invalid(error) = limiter.peek_n(KEY, self.cost).outcome() {
                        wrong.push(format!("{text:?}: {error}"));
                    }
                    limiters.push(limiter);
                }
                Err(error) => wrong.push(format!("{text:?}: {error}")),
            }
        }
        if wrong.is_empty() { Ok(limiters) } else { Err(wrong) }
    }

    fn request(&self, at: Timestamp, limiters: &[Limiter]) -> Request {
        let charges: Vec<_> =
            limiters.iter().map(|limiter| limiter.charge(KEY).cost(self.cost)).collect();
        let decisions = check_all(&charges);
        let deciding = decisions.deciding();
        let figure = |of: fn(&Decision) -> Duration| {
            deciding.map_or(Duration::ZERO, |(_, decision)| of(&decision))
        };
        let name = deciding.map_or("", |(name, _)| name);
        let is_deciding = |limiter: &Limiter| limiter.name() == name;
        Request {
            at,
            allowed: decisions.is_allowed(),
            decided_by: limiters.iter().position(is_deciding).unwrap_or(0),
            remaining: deciding.map_or(0, |(_, decision)| decision.remaining()),
            retry_after: figure(|decision| decision.retry_after().unwrap_or(Duration::MAX)),
            reset_after: figure(Decision::reset_after),
            delay: match decisions.is_allowed() {
                true => decisions.iter().map(|(_, decision)| decision.delay()).max(),
                false => None,
            }
            .unwrap_or_default(),
        }
    }
}

impl Played {
    pub(super) fn allowed(&self) -> usize {
        self.requests.iter().filter(|request| request.allowed).count()
    }

    pub(super) fn denied(&self) -> usize {
        self.requests.len() - self.allowed()
    }
}
