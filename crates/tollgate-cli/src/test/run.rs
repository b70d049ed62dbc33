//! Running a test: every step on a gate that begins new, on a clock that the steps move.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tollgate::{Clock, ManualClock, Override, OverrideRemoval, Request, Rule, RuleMatch, Ruling};

use super::data::{Action, Ask, Change, End, Step, Target, Test, Until};
use super::door::{Backend, Door, Held};
use super::expect::{Difference, Seen};
use super::fields::unknown;
use super::value::Value;

/// What to say of a cost that is no number of units.
const NEGATIVE: &str = "cost is negative, must be at least 0";

/// How long a reservation holds its units where the step does not say.
const RESERVATION: Duration = Duration::from_secs(60);

/// What came of a test.
pub(super) struct Ran<'a> {
    pub(super) test: &'a Test,
    pub(super) failures: Vec<Failed<'a>>,
    /// How long it took, where somebody wants to know.
    pub(super) took: Duration,
}

/// A step that did not come to what it must.
pub(super) struct Failed<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) step: &'a Step,
    /// Why it could not be done, where that is so.
    pub(super) message: Option<String>,
    pub(super) differences: Vec<Difference>,
}

/// Runs a test on a backend; `stopwatch` says how long it took.
pub(super) fn run<'a>(test: &'a Test, backend: &Backend, stopwatch: Option<&Clock>) -> Ran<'a> {
    let began = stopwatch.map(Clock::now);
    let failures = match Stage::new(test, backend) {
        Ok(mut stage) => stage.steps(),
        Err(message) => test
            .steps
            .first()
            .map(|step| Failed { number: 1, step, message: Some(message), differences: Vec::new() })
            .into_iter()
            .collect(),
    };
    let took = stopwatch.zip(began).map(|(clock, began)| clock.now().saturating_since(began));
    Ran { test, failures, took: took.unwrap_or_default() }
}

/// A gate under test.
struct Stage<'a, 'b> {
    test: &'a Test,
    clock: ManualClock,
    gate: Door<'b>,
    reservations: HashMap<&'a str, Reserved<'a>>,
}

/// The reservations of one name.
struct Reserved<'a> {
    ask: &'a Ask,
    /// Those that have not ended, the oldest first.
    open: VecDeque<Held>,
    /// Whether the last one was denied.
    was_denied: bool,
}

impl<'a, 'b> Stage<'a, 'b> {
    fn new(test: &'a Test, backend: &'b Backend) -> Result<Stage<'a, 'b>, String> {
        let clock = ManualClock::at(test.start);
        let gate = backend.door((*test.policy).clone(), &clock)?;
        Ok(Stage { test, clock, gate, reservations: HashMap::new() })
    }

    fn steps(&mut self) -> Vec<Failed<'a>> {
        let steps = self.test.steps.iter().enumerate();
        steps.filter_map(|(index, step)| self.step(index + 1, step)).collect()
    }

    fn step(&mut self, number: usize, step: &'a Step) -> Option<Failed<'a>> {
        self.clock.set(self.test.start.saturating_add(step.at));
        let tick = self.gate.tick();
        let (message, differences) = match self.act(step) {
            _ if self.gate.was_away() => (Some("the store did not answer".to_owned()), Vec::new()),
            Ok(seen) => (None, step.expect.compare(&seen, tick)),
            Err(error) if step.expect.names("error") => {
                (None, step.expect.compare(&Seen::refused(&error), tick))
            }
            Err(error) => (Some(error), Vec::new()),
        };
        let is_fine = message.is_none() && differences.is_empty();
        (!is_fine).then_some(Failed { number, step, message, differences })
    }

    /// Does what a step says, as often as it says; what the last time came to.
    fn act(&mut self, step: &'a Step) -> Result<Seen, String> {
        let times = step.times;
        match &step.action {
            Action::Check(ask) => Ok(decided(ask, times, |request| self.gate.check(request))),
            Action::Peek(ask) => Ok(decided(ask, times, |request| self.gate.peek(request))),
            Action::TakeUpTo(ask) => Ok(self.take_up_to(ask, times)),
            Action::Reserve { ask, id, timeout } => Ok(self.reserve(ask, id, *timeout, times)),
            _ => {
                let mut seen = Seen::default();
                for _ in 0..times {
                    seen = self.act_once(&step.action)?;
                }
                Ok(seen)
            }
        }
    }

    /// What decides nothing.
    fn act_once(&mut self, action: &'a Action) -> Result<Seen, String> {
        match action {
            Action::End { id, how } => self.end(id, *how),
            Action::Refund(ask) => {
                let request = ask.request().ok_or(NEGATIVE)?;
                self.gate.refund(&request)?;
                Ok(self.done(Some(ask)))
            }
            Action::Reset(target) => {
                let known = self.reset(target)?;
                Ok(self.known(target, known))
            }
            Action::Block { target, length } => {
                let known = self.block(target, *length)?;
                Ok(self.known(target, Some(known)))
            }
            Action::Unblock(target) => {
                let known = self.unblock(target)?;
                Ok(self.known(target, Some(known)))
            }
            Action::Override(change) => self.change(change),
            Action::Policy(policy) => {
                let policy = policy.as_ref().map_err(String::clone)?;
                self.gate.replace((**policy).clone())?;
                Ok(self.done(None))
            }
            Action::ResetAll => {
                self.gate.reset_all()?;
                Ok(self.done(None))
            }
            Action::Check(_) | Action::Peek(_) | Action::TakeUpTo(_) | Action::Reserve { .. } => {
                Ok(Seen::default())
            }
        }
    }

    fn take_up_to(&self, ask: &Ask, times: u64) -> Seen {
        let mut taken = 0;
        let seen = decided(ask, times, |request| {
            let (units, ruling) = self.gate.take_up_to(request);
            taken = units;
            ruling
        });
        seen.with("taken", Value::Number(taken))
    }

    fn reserve(
        &mut self,
        ask: &'a Ask,
        id: &'a str,
        timeout: Option<Duration>,
        times: u64,
    ) -> Seen {
        let reserved = self.reservations.entry(id).or_insert_with(|| Reserved {
            ask,
            open: VecDeque::new(),
            was_denied: false,
        });
        reserved.ask = ask;
        let gate = &self.gate;
        decided(ask, times, |request| {
            let (ruling, held) = gate.reserve(request, timeout.unwrap_or(RESERVATION));
            reserved.was_denied = held.is_none();
            reserved.open.extend(held);
            ruling
        })
    }

    fn end(&mut self, id: &'a str, how: End) -> Result<Seen, String> {
        if matches!(how, End::Settle(None)) {
            return Err(NEGATIVE.to_owned());
        }
        let reserved = self.reservations.get_mut(id).ok_or("it was never reserved")?;
        let hold = reserved.open.pop_front().ok_or_else(|| match reserved.was_denied {
            true => format!("the reservation {id:?} was denied, there is nothing to end"),
            false => format!("the reservation {id:?} has ended before"),
        })?;
        let ask = reserved.ask;
        match how {
            End::Commit => self.gate.end(hold, None),
            End::Cancel => self.gate.cancel(hold),
            End::Settle(actual) => self.gate.end(hold, Some(actual.unwrap_or_default())),
        }?;
        Ok(self.done(Some(ask)))
    }

    fn reset(&self, target: &Target) -> Result<Option<bool>, String> {
        Ok(match target {
            Target::Request(ask) => Some(self.gate.reset_request(&ask.of_cost(1))? > 0),
            Target::Rule(rule) => {
                self.rule(rule, |_| ())?;
                self.gate.reset_rule(rule)?;
                None
            }
            Target::Key(..) | Target::RequestIn(..) => {
                let (rule, key) = self.key(target)?;
                Some(self.gate.reset(rule, &texts(&key))?)
            }
        })
    }

    fn block(&self, target: &Target, length: Option<Duration>) -> Result<bool, String> {
        if let Target::Request(ask) = target {
            let length = length.ok_or("for how long is not said, write for = \"15m\"")?;
            return Ok(self.gate.block_request(&ask.of_cost(1), length)? > 0);
        }
        let (rule, key) = self.key(target)?;
        let own = self.rule(rule, |rule| rule.block.map(|block| block.first))?;
        let length = length.or(own).ok_or_else(|| {
            format!("for how long is not said, and rule {rule:?} has no block_for of its own")
        })?;
        self.gate.block(rule, &texts(&key), length)
    }

    fn unblock(&self, target: &Target) -> Result<bool, String> {
        if let Target::Request(ask) = target {
            return Ok(self.gate.unblock_request(&ask.of_cost(1))? > 0);
        }
        let (rule, key) = self.key(target)?;
        self.gate.unblock(rule, &texts(&key))
    }

    fn change(&self, change: &Change) -> Result<Seen, String> {
        if change.remove {
            let removal = self.gate.remove_override(&change.client)?;
            if removal == OverrideRemoval::InPolicy {
                return Err("the override is in the policy, it cannot be removed at run time; \
                            set another one for this client, or test another policy"
                    .to_owned());
            }
            let known = removal == OverrideRemoval::Removed;
            return Ok(self.done(None).with("known", Value::Flag(known)));
        }
        let mut own = Override::of(change.client.clone());
        own.tier = change.tier.clone();
        own.limits = change.numbers.clone();
        own.until = change.until.map(|until| match until {
            Until::At(moment) => moment,
            Until::After(length) => self.test.start.saturating_add(length),
        });
        self.gate.set_override(own)?;
        Ok(self.done(None))
    }

    /// The rule and the key that are meant.
    fn key<'t>(&self, target: &'t Target) -> Result<(&'t str, Vec<String>), String> {
        match target {
            Target::Key(rule, key) => {
                let wanted: Vec<String> =
                    self.rule(rule, |rule| rule.key.iter().map(|p| p.attribute.clone()).collect())?;
                if wanted.len() != key.len() {
                    let (wanted, given) = (wanted.join(", "), key.len());
                    return Err(format!(
                        "the key of rule {rule:?} is [{wanted}], not {given} values"
                    ));
                }
                Ok((rule, key.clone()))
            }
            Target::RequestIn(rule, ask) => {
                self.rule(rule, |_| ())?;
                let explained = self.gate.explain(&ask.of_cost(1));
                let report = explained.rules.into_iter().find(|report| report.rule == *rule);
                match report {
                    Some(report) if report.verdict == RuleMatch::Applies => {
                        Ok((rule, report.key.into_iter().map(|(_, value)| value).collect()))
                    }
                    _ => Err(format!("rule {rule:?} does not apply to this request")),
                }
            }
            Target::Rule(rule) => Err(format!("no key of rule {rule:?} is given")),
            Target::Request(_) => Err("no rule is given".to_owned()),
        }
    }

    /// Something of the rule with this name.
    fn rule<T>(&self, name: &str, of: impl FnOnce(&Rule) -> T) -> Result<T, String> {
        let policy = self.gate.policy();
        let rule = policy.rules.iter().find(|rule| rule.name == name);
        let names = policy.rules.iter().map(|rule| &rule.name);
        rule.map(of).ok_or_else(|| unknown("rule", name, names))
    }

    fn known(&self, target: &Target, known: Option<bool>) -> Seen {
        let seen = self.done(target.ask());
        known.map(Value::Flag).into_iter().fold(seen, |seen, known| seen.with("known", known))
    }

    /// How the request's keys stand now that something was done.
    fn done(&self, ask: Option<&Ask>) -> Seen {
        let stands = ask.map(|ask| self.gate.peek(&ask.of_cost(1)));
        Seen::done(stands.as_ref())
    }
}

/// Decides a request as often as is said: how many were allowed, and the figures of the last.
fn decided(ask: &Ask, times: u64, mut decide: impl FnMut(&Request<'_>) -> Ruling) -> Seen {
    let Some(request) = ask.request() else {
        return Seen::refused(NEGATIVE).with("allowed_count", Value::Number(0));
    };
    let (mut allowed, mut last) = (0, None);
    for _ in 0..times {
        let ruling = decide(&request);
        allowed += u64::from(ruling.is_allowed());
        last = Some(ruling);
    }
    let seen = last.as_ref().map(Seen::of).unwrap_or_default();
    seen.with("allowed_count", Value::Number(allowed))
}

fn texts(key: &[String]) -> Vec<&str> {
    key.iter().map(String::as_str).collect()
}
