//! How many units a request takes.

use std::fmt;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderName, StatusCode};

use crate::error::LayerError;
use crate::head::Head;
use crate::refuse::Why;

/// How many units a request takes, as far as that is known before it is served.
#[derive(Clone)]
pub struct RequestCost(Kind);

#[derive(Clone)]
enum Kind {
    /// What the policy says, one for a limiter.
    Unsaid,
    Units(u64),
    Header(HeaderName, IfUnsaid),
    BodySize {
        per_unit: u64,
        unknown: IfUnsaid,
    },
    Closure(Closure),
}

type Closure = Arc<dyn Fn(&Head<'_>) -> u64 + Send + Sync>;

/// What a request costs that does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfUnsaid {
    /// So many units.
    Units(u64),
    /// It is refused with this status.
    Refuse(StatusCode),
}

impl RequestCost {
    pub(crate) const UNSAID: RequestCost = RequestCost(Kind::Unsaid);

    /// Always the same.
    pub fn units(units: u64) -> RequestCost {
        RequestCost(Kind::Units(units))
    }

    /// The value of a header. One that is present and is no whole number is rejected with 400, and
    /// so is one that is repeated. A value of 0 takes nothing and is allowed: read the cost from a
    /// header only if clients cannot set it.
    ///
    /// # Errors
    /// Where the name is none.
    pub fn header(name: &str, unsaid: IfUnsaid) -> Result<RequestCost, LayerError> {
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| LayerError::HeaderName(name.into()))?;
        Ok(RequestCost(Kind::Header(known, unsaid)))
    }

    /// One unit for every `per_unit` bytes of the request's body, rounded up, and one at least.
    /// The size is what the body says before it is read, by `Content-Length`, which the server
    /// holds the client to. One that does not say it, and may never end, costs what `unknown`
    /// says.
    pub fn body_size(per_unit: u64, unknown: IfUnsaid) -> RequestCost {
        RequestCost(Kind::BodySize { per_unit, unknown })
    }

    /// The result of a function. A cost of 0 takes nothing and is allowed.
    pub fn from_fn(cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> RequestCost {
        RequestCost(Kind::Closure(Arc::new(cost)))
    }

    pub(crate) fn check(&self) -> Result<(), LayerError> {
        let unsaid = |unsaid: &IfUnsaid| *unsaid == IfUnsaid::Units(0);
        match &self.0 {
            Kind::Units(0) | Kind::BodySize { per_unit: 0, .. } => Err(LayerError::NoCost),
            Kind::Header(_, none) | Kind::BodySize { unknown: none, .. } if unsaid(none) => {
                Err(LayerError::NoCost)
            }
            _ => Ok(()),
        }
    }

    /// How many units every request takes, where all take the same of a limiter.
    pub(crate) fn fixed(&self) -> Option<u64> {
        match self.0 {
            Kind::Unsaid => Some(1),
            Kind::Units(units) => Some(units),
            _ => None,
        }
    }

    /// How many units the request says it takes, if anything says so.
    pub(crate) fn of(&self, head: &Head<'_>) -> Result<Option<u64>, Why> {
        match &self.0 {
            Kind::Unsaid => Ok(None),
            Kind::Units(units) => Ok(Some(*units)),
            Kind::Closure(cost) => Ok(Some(cost(head))),
            Kind::Header(name, unsaid) => {
                let said = number(head, name)?;
                said.map_or_else(|| unsaid.cost(name), |cost| Ok(Some(cost)))
            }
            Kind::BodySize { per_unit, unknown } => head.body_size().map_or_else(
                || unknown.cost(&CONTENT_LENGTH),
                |bytes| Ok(Some(bytes.div_ceil((*per_unit).max(1)).max(1))),
            ),
        }
    }
}

/// What a header says, if it is there; refused where that is no number.
fn number(head: &Head<'_>, name: &HeaderName) -> Result<Option<u64>, Why> {
    if !head.headers().contains_key(name) {
        return Ok(None);
    }
    let digits = head.header(name.as_str()).filter(|text| {
        // `parse` reads a plus sign too.
        text.bytes().all(|byte| byte.is_ascii_digit())
    });
    let status = StatusCode::BAD_REQUEST;
    if head.is_repeated(name) {
        return Err(Why::Repeated { name: name.clone(), status });
    }
    let number = digits.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Why::BadHeader { name: name.clone(), status })
}

impl IfUnsaid {
    fn cost(self, name: &HeaderName) -> Result<Option<u64>, Why> {
        match self {
            IfUnsaid::Units(units) => Ok(Some(units)),
            IfUnsaid::Refuse(status) => Err(Why::BadHeader { name: name.clone(), status }),
        }
    }
}

impl fmt::Debug for RequestCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Unsaid => f.write_str("Unsaid"),
            Kind::Units(units) => write!(f, "Units({units})"),
            Kind::Header(name, _) => write!(f, "Header({name})"),
            Kind::BodySize { per_unit, .. } => write!(f, "BodySize({per_unit})"),
            Kind::Closure(_) => f.write_str("Closure"),
        }
    }
}
