//! What a layer is built with.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::{AddressPrefix, Dialect, HeaderStyle, Policy, Verbosity, normalize_path};

use crate::answer::Answer;
use crate::attribute::{Attribute, IfMissing, Source};
use crate::bounds::DEFAULT_QUEUE;
use crate::client_ip::ClientIp;
use crate::cost::RequestCost;
use crate::door::{Behind, Door, Local};
use crate::error::LayerError;
use crate::express::Express;
use crate::head::Head;
use crate::layer::GateLayer;
use crate::refuse::Refusal;
use crate::settings::{Patience, Settings, Speaks};
use crate::settle::{Bill, By, Settle};

/// What a [`GateLayer`] is built with.
#[derive(Debug)]
#[must_use = "a layer is built by build()"]
pub struct GateLayerBuilder {
    settings: Settings,
    everybody: bool,
    may_lack: Vec<String>,
}

impl GateLayerBuilder {
    pub(crate) fn new(door: Door) -> GateLayerBuilder {
        GateLayerBuilder {
            settings: Settings {
                door,
                attributes: Vec::new(),
                cost: RequestCost::UNSAID,
                style: HeaderStyle::new(),
                speaks: Speaks::Http,
                respond: None,
                observe: None,
                skips: Vec::new(),
                settle: None,
                if_cancelled: Bill::Estimate,
                wait: None,
                stacked: false,
                address_prefix: AddressPrefix::default(),
                shadow: false,
                extension: true,
                express: None,
            },
            everybody: false,
            may_lack: Vec::new(),
        }
    }

    /// An attribute of requests: its name, where it comes from, and what to do where it is
    /// missing. A limiter counts by all of them together, in the order in which they are given.
    pub fn attribute(
        mut self,
        name: impl Into<Box<str>>,
        source: Source,
        missing: IfMissing,
    ) -> GateLayerBuilder {
        self.settings.attributes.push(Attribute { name: name.into(), source, missing });
        self
    }

    /// The attribute `ip`: the client's address. Where the server does not know the peer, the
    /// request is refused with 500, since everybody would be counted as one or nobody at all.
    pub fn client_ip(self, client_ip: ClientIp) -> GateLayerBuilder {
        let refuse = IfMissing::Refuse(StatusCode::INTERNAL_SERVER_ERROR);
        self.attribute("ip", Source::client_ip(client_ip), refuse)
    }

    /// The part of a client's address that a limiter counts; the whole of an IPv4 address and the
    /// first 64 bits of an IPv6 address if not said. In a policy, the keys of its rules say it.
    pub fn address_prefix(mut self, prefix: AddressPrefix) -> GateLayerBuilder {
        self.settings.address_prefix = prefix;
        self
    }

    /// The attribute `method`.
    pub fn method(self) -> GateLayerBuilder {
        self.attribute("method", Source::method(), IfMissing::Absent)
    }

    /// The attribute `route`: the route that axum has matched, `unmatched` where none is.
    #[cfg(feature = "axum")]
    pub fn route(self) -> GateLayerBuilder {
        self.attribute("route", Source::route(), IfMissing::text("unmatched"))
    }

    /// That rules may ask for this attribute though the layer does not give it.
    pub fn may_lack(mut self, attribute: impl Into<String>) -> GateLayerBuilder {
        self.may_lack.push(attribute.into());
        self
    }

    /// That all requests share a limiter's limit.
    pub fn everybody(mut self) -> GateLayerBuilder {
        self.everybody = true;
        self
    }

    /// How many units a request takes; if not said, what the policy says, one for a limiter.
    pub fn cost(mut self, cost: RequestCost) -> GateLayerBuilder {
        self.settings.cost = cost;
        self
    }

    /// In which dialect clients are told how they stand; draft 11 if not said.
    pub fn headers(mut self, dialect: Dialect) -> GateLayerBuilder {
        self.settings.style = self.settings.style.with_dialect(dialect);
        self
    }

    /// How much clients are told; everything if not said.
    pub fn verbosity(mut self, verbosity: Verbosity) -> GateLayerBuilder {
        self.settings.style = self.settings.style.with_verbosity(verbosity);
        self
    }

    /// Refuses as gRPC does: `RESOURCE_EXHAUSTED` with `RetryInfo`, in trailers only.
    pub fn grpc(mut self) -> GateLayerBuilder {
        self.settings.speaks = Speaks::Grpc;
        self
    }

    /// Refuses with an answer of one's own. Retry-After and the RateLimit fields are added to it,
    /// and `Cache-Control: no-store` if it says nothing of caching.
    pub fn respond_with(
        mut self,
        respond: impl Fn(&Refusal, Head<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> GateLayerBuilder {
        self.settings.respond = Some(Arc::new(respond));
        self
    }

    /// Calls a function with every decision, for metrics and logs. It holds up the request.
    pub fn observe(mut self, see: impl Fn(&Answer) + Send + Sync + 'static) -> GateLayerBuilder {
        self.settings.observe = Some(Arc::new(see));
        self
    }

    /// Lets requests pass without a decision, such as those of health checks.
    pub fn skip(
        mut self,
        skip: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static,
    ) -> GateLayerBuilder {
        self.settings.skips.push(Arc::new(skip));
        self
    }

    /// Lets requests for exactly this path pass without a decision, if they spell it just so: the
    /// path as it was received and its [normal form](tollgate::normalize_path) are both `path`.
    pub fn skip_path(self, path: impl Into<String>) -> GateLayerBuilder {
        let path = path.into();
        self.skip(move |head| head.path() == path && normalize_path(head.path()) == path)
    }

    /// Takes the cost as an estimate, and settles it by the answer.
    pub fn settle(mut self, settle: Settle) -> GateLayerBuilder {
        self.settings.settle = Some(settle);
        self
    }

    /// What a request is charged whose client goes away before there is an answer; the estimate
    /// if not said, since the work was begun.
    pub fn if_cancelled(mut self, bill: Bill) -> GateLayerBuilder {
        self.settings.if_cancelled = bill;
        self
    }

    /// Lets requests wait so long instead of refusing them: with a limiter until the units are
    /// there, first come, first served; with a gate for the turns that its leaky queues give. A
    /// client that goes away leaves the queue.
    pub fn wait(mut self, within: Duration) -> GateLayerBuilder {
        let queue = self.settings.wait.map_or(DEFAULT_QUEUE, |patience| patience.queue);
        self.settings.wait = Some(Patience { within, queue });
        self
    }

    /// How many may [`wait`](Self::wait) for one key of a limiter; 1024 if not said.
    pub fn queue(mut self, waiting: usize) -> GateLayerBuilder {
        let within = self.settings.wait.map_or(Duration::ZERO, |patience| patience.within);
        self.settings.wait = Some(Patience { within, queue: waiting });
        self
    }

    /// Stands above other layers of this kind: what one of those refuses, this one gives back, so
    /// that a request is charged by all of them or by none.
    pub fn stacked(mut self) -> GateLayerBuilder {
        self.settings.stacked = true;
        self
    }

    /// Decides, counts and reports, and neither refuses anybody nor tells clients.
    pub fn shadow(mut self) -> GateLayerBuilder {
        self.settings.shadow = true;
        self
    }

    /// Does not put the [`Answer`] into the request's extensions, which saves two allocations or three.
    pub fn without_extension(mut self) -> GateLayerBuilder {
        self.settings.extension = false;
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// Where something would never apply, or cannot be.
    pub fn build(mut self) -> Result<GateLayer, LayerError> {
        let settings = &self.settings;
        let mut names: Vec<&str> = settings.attributes.iter().map(|of| &*of.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LayerError::Repeated(twice[0].to_owned()));
        }
        settings.cost.check()?;
        if let Some(Settle(By::Bytes { per_unit: 0 })) = settings.settle {
            return Err(LayerError::NoCost);
        }
        match &settings.door.0 {
            Behind::Local(Local::Gate(gate)) => asked(&gate.policy(), &names, &self.may_lack)?,
            #[cfg(feature = "redis")]
            Behind::Redis(gate) => asked(&gate.policy(), &names, &self.may_lack)?,
            Behind::Local(Local::Limiter(_)) if names.is_empty() && !self.everybody => {
                return Err(LayerError::NoKey);
            }
            Behind::Local(Local::Limiter(_)) => {
                if settings.wait.is_some() && settings.settles() {
                    return Err(LayerError::WaitsAndSettles);
                }
            }
        }
        self.settings.express = Express::of(&self.settings);
        Ok(GateLayer::new(self.settings))
    }
}

/// Whether every attribute that a policy asks for is given: a rule that asks for another would
/// silently never apply.
fn asked(policy: &Policy, given: &[&str], may_lack: &[String]) -> Result<(), LayerError> {
    let known =
        |attribute: &&String| given.contains(&attribute.as_str()) || may_lack.contains(attribute);
    let rules = policy.rules.iter().map(|rule| {
        let keys = rule.key.iter().filter(|part| part.default.is_none());
        let matches = rule.matches.iter().map(|(attribute, _)| attribute);
        (&rule.name, matches.chain(keys.map(|part| &part.attribute)).find(|of| !known(of)))
    });
    let lists = policy.allow.iter().chain(&policy.deny).map(|list| {
        (&list.name, list.matches.iter().map(|(attribute, _)| attribute).find(|of| !known(of)))
    });
    for (rule, lacking) in rules.chain(lists) {
        if let Some(attribute) = lacking {
            let (rule, attribute) = (rule.clone(), attribute.clone());
            return Err(LayerError::NotGiven { rule, attribute });
        }
    }
    Ok(())
}
