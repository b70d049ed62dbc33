//! What decides: a gate or a limiter behind one face.

use std::fmt;
use std::net::IpAddr;

use tollgate::{
    AddressPrefix, Decision, Gate, GateReservation, HeaderFields, HeaderStyle, Key, KeyPart,
    Limiter, Outcome, Reason, Request, RequestError, Reservation, Ruling,
};

#[cfg(feature = "redis")]
use tollgate_redis::RedisGate;

use crate::answer::Answer;
use crate::attribute::Attribute;
use crate::bounds::HOLD;
use crate::refuse::Why;
#[cfg(feature = "redis")]
use crate::remote::RemoteHold;
use crate::settle::Bill;
use crate::value::Value;

/// What decides for a layer: a [`Gate`] or a [`Limiter`], or with the feature `redis` a `RedisGate`.
/// Each becomes one by `into()`.
#[derive(Clone)]
pub struct Door(pub(crate) Behind);

#[derive(Clone)]
pub(crate) enum Behind {
    Local(Local),
    /// Its answer is waited for.
    #[cfg(feature = "redis")]
    Redis(RedisGate),
}

/// What decides at once.
#[derive(Clone)]
pub(crate) enum Local {
    Gate(Gate),
    Limiter(Limiter),
}

impl From<Gate> for Door {
    fn from(gate: Gate) -> Door {
        Door(Behind::Local(Local::Gate(gate)))
    }
}

impl From<Limiter> for Door {
    fn from(limiter: Limiter) -> Door {
        Door(Behind::Local(Local::Limiter(limiter)))
    }
}

#[cfg(feature = "redis")]
impl From<RedisGate> for Door {
    fn from(gate: RedisGate) -> Door {
        Door(Behind::Redis(gate))
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Behind::Local(Local::Gate(gate)) => gate.fmt(f),
            Behind::Local(Local::Limiter(limiter)) => limiter.fmt(f),
            #[cfg(feature = "redis")]
            Behind::Redis(gate) => gate.fmt(f),
        }
    }
}

/// What a door is asked about: a request's attributes and cost.
pub(crate) struct Asked<'a> {
    pub(crate) attributes: &'a [Attribute],
    /// One for each attribute.
    pub(crate) values: &'a [Option<Value<'a>>],
    pub(crate) cost: Option<u64>,
}

impl<'a> Asked<'a> {
    pub(crate) fn request(&self) -> Request<'a> {
        let mut request = Request::new();
        for (attribute, value) in self.attributes.iter().zip(self.values) {
            if let Some(value) = value {
                request.set(&attribute.name, value.as_str());
            }
        }
        match self.cost {
            Some(units) => request.cost(units),
            None => request,
        }
    }

    /// The key of a limiter.
    pub(crate) fn key(&self) -> ValuesKey<'a> {
        ValuesKey(self.values)
    }

    pub(crate) fn units(&self) -> u64 {
        self.cost.unwrap_or(1)
    }
}

/// The key of a limiter: every value, an empty one where there is none. The same key as a tuple of
/// the texts and addresses.
#[derive(Clone, Copy)]
pub(crate) struct ValuesKey<'a>(&'a [Option<Value<'a>>]);

impl Key for ValuesKey<'_> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        for value in self.0 {
            part(value.as_ref().map_or(KeyPart::Bytes(&[]), Value::part));
        }
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        match self.0 {
            [Some(Value::Ip(_))] => None,
            [Some(only)] => Some(only.as_str().as_bytes()),
            _ => None,
        }
    }

    #[inline]
    fn as_ip(&self) -> Option<IpAddr> {
        match self.0 {
            [Some(Value::Ip(only))] => Some(*only),
            _ => None,
        }
    }
}

/// What a door has decided.
#[allow(clippy::large_enum_variant, reason = "a ruling is not boxed: most are rulings")]
#[derive(Clone)]
pub(crate) enum Decided {
    Ruling(Ruling),
    Decision(Decision),
}

impl Local {
    /// Decides, and takes what the request costs if it is allowed.
    #[inline(always)]
    pub(crate) fn check(&self, asked: &Asked<'_>) -> Decided {
        match self {
            Local::Gate(gate) => Decided::Ruling(gate.check(&asked.request())),
            Local::Limiter(limiter) => {
                Decided::Decision(limiter.check_n(asked.key(), asked.units()))
            }
        }
    }

    /// Decides, and takes nothing.
    pub(crate) fn peek(&self, asked: &Asked<'_>) -> Decided {
        match self {
            Local::Gate(gate) => Decided::Ruling(gate.peek(&asked.request())),
            Local::Limiter(limiter) => {
                Decided::Decision(limiter.peek_n(asked.key(), asked.units()))
            }
        }
    }

    /// Decides, and holds what the request costs if it is allowed.
    pub(crate) fn reserve(&self, asked: &Asked<'_>) -> (Decided, Option<Held>) {
        match self {
            Local::Gate(gate) => match gate.reserve_for(&asked.request(), HOLD) {
                Ok(hold) => (Decided::Ruling(hold.ruling().clone()), Some(Held::Hold(hold))),
                Err(ruling) => (Decided::Ruling(ruling), None),
            },
            Local::Limiter(limiter) => {
                match limiter.reserve_for(asked.key(), asked.units(), HOLD) {
                    Ok(held) => {
                        (Decided::Decision(*held.decision()), Some(Held::Reservation(held)))
                    }
                    Err(error) => (Decided::Decision(*error.decision()), None),
                }
            }
        }
    }
}

impl Door {
    /// The form in which values of attributes are matched and counted: a limiter counts the first
    /// bits of an address, a policy reads the whole address as a text.
    pub(crate) fn reads<'r>(&self, value: Value<'r>, prefix: AddressPrefix) -> Value<'r> {
        match (&self.0, value) {
            (Behind::Local(Local::Limiter(_)), Value::Ip(address)) => {
                Value::Ip(prefix.cut(address))
            }
            (Behind::Local(Local::Limiter(_)), value) => value,
            (_, value) => value.into_text(),
        }
    }

    /// The answer as handlers see it.
    pub(crate) fn answer(&self, decided: Decided) -> Answer {
        match &self.0 {
            Behind::Local(Local::Limiter(limiter)) => Answer::new(decided, Some(limiter.clone())),
            _ => Answer::new(decided, None),
        }
    }

    /// What the client is told of it.
    pub(crate) fn fields(&self, style: HeaderStyle, decided: &Decided) -> HeaderFields {
        match (&self.0, decided) {
            (Behind::Local(Local::Gate(gate)), Decided::Ruling(ruling)) => {
                style.for_ruling(ruling, gate.store().clock())
            }
            (Behind::Local(Local::Limiter(limiter)), Decided::Decision(decision)) => {
                let named = (limiter.name(), limiter.limit());
                style.for_decision(named, decision, limiter.store().clock())
            }
            // Waits are the store's; the moment that one dialect tells is this machine's.
            #[cfg(feature = "redis")]
            (Behind::Redis(_), Decided::Ruling(ruling)) => {
                style.for_ruling(ruling, &tollgate::Clock::system())
            }
            // A door decides in its own kind.
            _ => HeaderFields::new(),
        }
    }
}

impl Decided {
    #[inline]
    pub(crate) fn is_allowed(&self) -> bool {
        match self {
            Decided::Ruling(ruling) => ruling.is_allowed(),
            Decided::Decision(decision) => decision.is_allowed(),
        }
    }

    #[inline]
    pub(crate) fn delay(&self) -> std::time::Duration {
        match self {
            Decided::Ruling(ruling) => ruling.delay(),
            Decided::Decision(decision) => decision.delay(),
        }
    }

    pub(crate) fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Decided::Ruling(ruling) => ruling.retry_after(),
            Decided::Decision(decision) => decision.retry_after(),
        }
    }

    /// Why it is not allowed.
    pub(crate) fn why(&self) -> Why {
        match self {
            Decided::Ruling(ruling) => match ruling.reason() {
                Reason::DenyList => Why::Listed,
                Reason::InvalidRequest => ruling.error().map_or(Why::Limited, Why::Wrong),
                _ => Why::Limited,
            },
            Decided::Decision(decision) => match decision.outcome() {
                Outcome::Invalid(error) => Why::Wrong(RequestError::Cost(error)),
                _ => Why::Limited,
            },
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "a tab that holds one is boxed")]
/// Units that are held until it is known how many were needed.
pub(crate) enum Held {
    Hold(GateReservation),
    Reservation(Reservation),
    #[cfg(feature = "redis")]
    Remote(RemoteHold),
}

impl Held {
    pub(crate) fn raise(&mut self, units: u64) {
        match self {
            Held::Hold(hold) => hold.raise_to(units),
            Held::Reservation(reservation) => reservation.raise_to(units),
            #[cfg(feature = "redis")]
            Held::Remote(hold) => hold.raise(units),
        }
    }

    pub(crate) fn settle(self, bill: Bill) {
        match (self, bill) {
            (Held::Hold(hold), Bill::Estimate) => hold.commit(),
            (Held::Hold(hold), Bill::Nothing) => hold.cancel(),
            (Held::Hold(hold), Bill::Units(units)) => hold.settle(units),
            (Held::Reservation(reservation), Bill::Estimate) => reservation.commit(),
            (Held::Reservation(reservation), Bill::Nothing) => reservation.cancel(),
            (Held::Reservation(reservation), Bill::Units(units)) => reservation.settle(units),
            #[cfg(feature = "redis")]
            (Held::Remote(hold), bill) => hold.settle(bill),
        }
    }
}
