//! What a layer is told to do, and how it decides: shared by all services it makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Response};
use smallvec::SmallVec;
use tollgate::{AddressPrefix, HeaderStyle};

use crate::answer::Answer;
use crate::attribute::{Attribute, IfMissing};
use crate::cost::RequestCost;
use crate::door::{Asked, Behind, Decided, Door, Held, Local};
use crate::express::Express;
use crate::fields::Told;
use crate::head::Head;
use crate::refuse::{Refusal, Why};
use crate::settle::{Bill, By, Settle, Usage};
use crate::tab::Tab;
use crate::value::Value;

/// How many attributes are held without an allocation.
const INLINE: usize = 4;

pub(crate) type Values<'r> = SmallVec<[Option<Value<'r>>; INLINE]>;
pub(crate) type Respond = Arc<dyn Fn(&Refusal, Head<'_>) -> Response<Bytes> + Send + Sync>;
pub(crate) type Observe = Arc<dyn Fn(&Answer) + Send + Sync>;
pub(crate) type Skip = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

/// What a layer is told to do.
pub(crate) struct Settings {
    pub(crate) door: Door,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) cost: RequestCost,
    pub(crate) style: HeaderStyle,
    pub(crate) speaks: Speaks,
    pub(crate) respond: Option<Respond>,
    pub(crate) observe: Option<Observe>,
    pub(crate) skips: Vec<Skip>,
    pub(crate) settle: Option<Settle>,
    pub(crate) if_cancelled: Bill,
    pub(crate) wait: Option<Patience>,
    pub(crate) stacked: bool,
    /// The part of an address that a limiter counts.
    pub(crate) address_prefix: AddressPrefix,
    pub(crate) shadow: bool,
    pub(crate) extension: bool,
    /// Found out when the layer is built.
    pub(crate) express: Option<Express>,
}

/// In which protocol a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Grpc,
}

/// How long a request may wait, and how many may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) within: Duration,
    pub(crate) queue: usize,
}

/// A request that goes ahead: what is told of it, and what is held for it.
pub(crate) struct Pass {
    pub(crate) told: Told,
    pub(crate) tab: Option<Box<Tab>>,
    pub(crate) answer: Option<Answer>,
    pub(crate) usage: Option<Usage>,
    /// How long it has to wait first.
    pub(crate) delay: Duration,
}

impl Pass {
    /// Nothing is told, and nothing is held.
    pub(crate) fn free() -> Pass {
        Pass { told: Told::Nothing, tab: None, answer: None, usage: None, delay: Duration::ZERO }
    }
}

impl Settings {
    pub(crate) fn skips(&self, head: &Head<'_>) -> bool {
        self.skips.iter().any(|skip| skip(head))
    }

    /// What decides at once, where no request has to be waited for before it is decided.
    #[inline]
    pub(crate) fn at_once(&self) -> Option<&Local> {
        let waits = self.attributes.iter().any(|attribute| attribute.source.is_async())
            || (self.wait.is_some() && !self.shadow);
        match &self.door.0 {
            Behind::Local(local) if !waits => Some(local),
            _ => None,
        }
    }

    /// Whether units are held until there is an answer.
    pub(crate) fn holds(&self) -> bool {
        self.settles() || self.wait.is_some()
    }

    /// Whether how a request ends has a say in what it is charged.
    pub(crate) fn settles(&self) -> bool {
        self.settle.is_some() || self.stacked || self.if_cancelled != Bill::Estimate
    }

    /// What the request says of each attribute, but for those to be waited for.
    pub(crate) fn values<'r>(&self, head: &Head<'r>) -> Result<Values<'r>, Box<Refusal>> {
        let mut values = Values::new();
        for attribute in &self.attributes {
            let value = match attribute.source.read(head) {
                None if !attribute.source.is_async() => {
                    self.missing(attribute, attribute.source.repeated_header(head))?
                }
                value => value,
            };
            values.push(value.map(|value| self.door.reads(value, self.address_prefix)));
        }
        Ok(values)
    }

    /// Applies the choice configured for requests without the attribute. `repeated` is the header
    /// that has no value because it was sent more than once.
    pub(crate) fn missing<'r>(
        &self,
        attribute: &Attribute,
        repeated: Option<&HeaderName>,
    ) -> Result<Option<Value<'r>>, Box<Refusal>> {
        match (&attribute.missing, repeated) {
            (IfMissing::Absent, _) => Ok(None),
            (IfMissing::Text(text), _) => Ok(Some(Value::from(text.clone()))),
            // A layer in shadow refuses no request.
            (IfMissing::Refuse(_), _) if self.shadow => Ok(None),
            (IfMissing::Refuse(status), Some(name)) => {
                Err(self.unasked(Why::Repeated { name: name.clone(), status: *status }))
            }
            (IfMissing::Refuse(status), None) => {
                let attribute = attribute.name.to_string();
                Err(self.unasked(Why::Missing { attribute, status: *status }))
            }
        }
    }

    pub(crate) fn units(&self, head: &Head<'_>) -> Result<Option<u64>, Box<Refusal>> {
        match self.cost.of(head) {
            Err(_) if self.shadow => Ok(None),
            cost => cost.map_err(|why| self.unasked(why)),
        }
    }

    fn unasked(&self, why: Why) -> Box<Refusal> {
        Refusal::unasked(why, self.style.verbosity())
    }

    /// Decides at once. What has to be waited for first is in the pass.
    pub(crate) fn decide(&self, local: &Local, head: &Head<'_>) -> Result<Pass, Box<Refusal>> {
        let values = self.values(head)?;
        let cost = self.units(head)?;
        self.ask(local, &Asked { attributes: &self.attributes, values: &values, cost })
    }

    /// Asks what decides at once.
    pub(crate) fn ask(&self, local: &Local, asked: &Asked<'_>) -> Result<Pass, Box<Refusal>> {
        if !self.holds() {
            let decided = local.check(asked);
            if self.is_quiet() && decided.is_allowed() && decided.delay().is_zero() {
                return Ok(Pass::free());
            }
            return self.conclude(decided, None);
        }
        let (decided, held) = local.reserve(asked);
        self.conclude(decided, held)
    }

    /// Whether nobody is told of a request that goes ahead.
    fn is_quiet(&self) -> bool {
        !self.style.covers_allowed() && !self.extension && self.observe.is_none()
    }

    /// What follows from a decision.
    #[inline(always)]
    pub(crate) fn conclude(
        &self,
        decided: Decided,
        held: Option<Held>,
    ) -> Result<Pass, Box<Refusal>> {
        if !decided.is_allowed() && !self.shadow {
            let (why, retry_after) = (decided.why(), decided.retry_after());
            return Err(self.refuse(decided, why, retry_after));
        }
        let mut pass = Pass::free();
        if self.style.covers_allowed() && !self.shadow {
            pass.told = Told::fields(self.door.fields(self.style, &decided));
        }
        if !self.shadow {
            pass.delay = decided.delay();
        }
        pass.usage = self.tells_usage().then(Usage::new);
        if let Some(held) = held {
            pass.tab = Some(Box::new(self.tab(held, pass.usage.clone())));
        }
        if self.extension || self.observe.is_some() {
            let answer = self.door.answer(decided);
            self.observe(&answer);
            pass.answer = Some(answer).filter(|_| self.extension);
        }
        Ok(pass)
    }

    /// The refusal that follows from a decision.
    pub(crate) fn refuse(
        &self,
        decided: Decided,
        why: Why,
        retry_after: Option<Duration>,
    ) -> Box<Refusal> {
        let mut fields = self.door.fields(self.style, &decided);
        if let (Some(wait), true) = (retry_after, fields.get("retry-after").is_none()) {
            fields = self.style.for_retry(wait);
        }
        let answer = self.door.answer(decided);
        self.observe(&answer);
        let verbosity = self.style.verbosity();
        Box::new(Refusal { why, answer: Some(answer), retry_after, fields, verbosity })
    }

    fn observe(&self, answer: &Answer) {
        if let Some(observe) = &self.observe {
            observe(answer);
        }
    }

    fn tells_usage(&self) -> bool {
        matches!(self.settle, Some(Settle(By::Handler)))
    }

    fn tab(&self, held: Held, usage: Option<Usage>) -> Tab {
        let by = self.settle.as_ref().map(|settle| settle.0.clone());
        Tab::new(held, by, usage, self.if_cancelled)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("door", &self.door)
            .field("attributes", &self.attributes)
            .field("cost", &self.cost)
            .field("style", &self.style)
            .field("settle", &self.settle)
            .field("wait", &self.wait)
            .field("shadow", &self.shadow)
            .finish_non_exhaustive()
    }
}
