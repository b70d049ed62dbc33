//! The layer: five lines in front of a service.

use std::sync::Arc;

use tower_layer::Layer;

use crate::builder::GateLayerBuilder;
use crate::door::Door;
use crate::service::GateService;
use crate::settings::Settings;

/// Limits in front of a service. Clones share the limits, and so do all services and connections
/// it is put in front of.
///
/// ```
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{ClientIp, GateLayer};
///
/// let limiter = Limiter::new(Limit::per_minute(100).burst(20))?;
/// let layer = GateLayer::builder(limiter).client_ip(ClientIp::peer()).build()?;
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GateLayer {
    settings: Arc<Settings>,
}

impl GateLayer {
    /// A layer to be built over a [`Gate`](tollgate::Gate), a [`Limiter`](tollgate::Limiter) or a
    /// `RedisGate`.
    pub fn builder(door: impl Into<Door>) -> GateLayerBuilder {
        GateLayerBuilder::new(door.into())
    }

    pub(crate) fn new(settings: Settings) -> GateLayer {
        GateLayer { settings: Arc::new(settings) }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GateService<S>;

    fn layer(&self, inner: S) -> GateService<S> {
        GateService::new(inner, Arc::clone(&self.settings))
    }
}
