//! What decides: a gate or a limiter behind one face.

use std::fmt;

use tollgate::{
    Decision, Gate, HeaderFields, HeaderStyle, Hold, Key, Limiter, Outcome, Part, Reason, Request,
    RequestError, Reservation, Ruling,
};

use crate::answer::Answer;
use crate::attribute::Attribute;
use crate::bounds::HOLD;
use crate::refuse::Why;
use crate::settle::Bill;
use crate::value::Value;

/// What decides for a layer: a [`Gate`] or a [`Limiter`]. Both become one by `into()`.
#[derive(Clone)]
pub struct Door(pub(crate) Behind);

#[derive(Clone)]
pub(crate) enum Behind {
    Gate(Gate),
    Limiter(Limiter),
}

impl From<Gate> for Door {
    fn from(gate: Gate) -> Door {
        Door(Behind::Gate(gate))
    }
}

impl From<Limiter> for Door {
    fn from(limiter: Limiter) -> Door {
        Door(Behind::Limiter(limiter))
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Behind::Gate(gate) => gate.fmt(f),
            Behind::Limiter(limiter) => limiter.fmt(f),
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
    fn request(&self) -> Request<'a> {
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

/// The key of a limiter: every value, an empty one where there is none. The same key as a slice of
/// the texts.
#[derive(Clone, Copy)]
pub(crate) struct ValuesKey<'a>(&'a [Option<Value<'a>>]);

impl Key for ValuesKey<'_> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        for value in self.0 {
            part(Part::Bytes(value.as_ref().map_or(&[], Value::as_bytes)));
        }
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        match self.0 {
            [Some(only)] => Some(only.as_bytes()),
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

impl Door {
    /// Decides, and takes what the request costs if it is allowed.
    #[inline(always)]
    pub(crate) fn check(&self, asked: &Asked<'_>) -> Decided {
        match &self.0 {
            Behind::Gate(gate) => Decided::Ruling(gate.check(&asked.request())),
            Behind::Limiter(limiter) => {
                Decided::Decision(limiter.check_n(asked.key(), asked.units()))
            }
        }
    }

    /// Decides, and takes nothing.
    pub(crate) fn peek(&self, asked: &Asked<'_>) -> Decided {
        match &self.0 {
            Behind::Gate(gate) => Decided::Ruling(gate.peek(&asked.request())),
            Behind::Limiter(limiter) => {
                Decided::Decision(limiter.peek_n(asked.key(), asked.units()))
            }
        }
    }

    /// Decides, and holds what the request costs if it is allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub(crate) fn reserve(&self, asked: &Asked<'_>) -> Result<Held, Decided> {
        match &self.0 {
            Behind::Gate(gate) => {
                let hold = gate.reserve_for(&asked.request(), HOLD);
                hold.map(Held::Hold).map_err(Decided::Ruling)
            }
            Behind::Limiter(limiter) => {
                let held = limiter.reserve_for(asked.key(), asked.units(), HOLD);
                held.map(Held::Reservation).map_err(Decided::Decision)
            }
        }
    }

    /// The answer as handlers see it.
    pub(crate) fn answer(&self, decided: Decided) -> Answer {
        match &self.0 {
            Behind::Gate(_) => Answer::new(decided, None),
            Behind::Limiter(limiter) => Answer::new(decided, Some(limiter.clone())),
        }
    }

    /// What the client is told of it.
    pub(crate) fn fields(&self, style: HeaderStyle, decided: &Decided) -> HeaderFields {
        match (&self.0, decided) {
            (Behind::Gate(gate), Decided::Ruling(ruling)) => {
                style.of_ruling(ruling, gate.store().clock())
            }
            (Behind::Limiter(limiter), Decided::Decision(decision)) => {
                let named = (limiter.name(), limiter.limit());
                style.of_decision(named, decision, limiter.store().clock())
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
                Reason::Error => ruling.error().map_or(Why::Limited, Why::Wrong),
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
    Hold(Hold),
    Reservation(Reservation),
}

impl Held {
    /// The decision that took them.
    pub(crate) fn decided(&self) -> Decided {
        match self {
            Held::Hold(hold) => Decided::Ruling(hold.ruling().clone()),
            Held::Reservation(reservation) => Decided::Decision(*reservation.decision()),
        }
    }

    pub(crate) fn raise(&mut self, units: u64) {
        match self {
            Held::Hold(hold) => hold.raise(units),
            Held::Reservation(reservation) => reservation.raise(units),
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
        }
    }
}
