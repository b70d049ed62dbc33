//! What operators ask of a backend. Beside `backend.rs` the only place that knows which stores
//! there are.

mod held;
mod search;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tollgate::{
    Client, Explanation, Gate, Key, KeyName, KeyPart, KeyStatus, Limit, ListedOverride, Override,
    OverrideRemoval, Policy, PolicyError, ReplaceOutcome, Request, TooManyBlocks,
};
use tollgate_redis::{GateError, RedisGate, StoreError};

use crate::backend::Backend;
pub(crate) use held::ClientAttributes;
pub(crate) use search::Search;

/// A key of a rule: the values of the rule's attributes, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleKey {
    pub(crate) rule: String,
    pub(crate) values: Vec<String>,
}

/// How a key stands.
#[derive(Debug)]
pub(crate) struct Stands {
    pub(crate) limits: Vec<(Limit, KeyStatus)>,
    pub(crate) blocked: Option<Duration>,
}

/// A key that is blocked, and for how long.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) rule: String,
    pub(crate) values: Vec<String>,
    /// Whether those are all of it: of a long key only the beginning is known.
    pub(crate) whole: bool,
    pub(crate) left: Duration,
}

/// A change or a look-up of the admin API that failed.
#[derive(Debug)]
pub(crate) struct AdminFailure {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

impl Backend {
    pub(crate) fn explain(&self, request: &Request<'_>) -> Explanation {
        match self {
            Backend::Memory(gate) => gate.explain(request),
            Backend::Redis(gate) => gate.explain(request),
        }
    }

    /// How a key stands; `None` if there is no such rule.
    pub(crate) async fn key_status(&self, key: &RuleKey) -> Result<Option<Stands>, AdminFailure> {
        let (rule, values) = (&key.rule, key.values());
        let limits = match self {
            Backend::Memory(gate) => gate.key_status(rule, &values),
            Backend::Redis(gate) => gate.key_status(rule, &values).await?,
        };
        let blocked = self.blocked_for(key).await?;
        Ok(limits.map(|limits| Stands { limits, blocked }))
    }

    /// Returns for how long a key is still blocked.
    pub(crate) async fn blocked_for(
        &self,
        key: &RuleKey,
    ) -> Result<Option<Duration>, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.block_remaining(&key.rule, &key.values())),
            Backend::Redis(gate) => Ok(gate.blocked_for(&key.rule, &key.values()).await?),
        }
    }

    /// Makes a key new; whether anything was known of it.
    pub(crate) async fn reset_key(&self, key: &RuleKey) -> Result<bool, AdminFailure> {
        Ok(self.reset(&key.rule, &key.values()).await?)
    }

    /// Makes a request's keys new; how many were known.
    pub(crate) async fn reset_request(&self, request: &Request<'_>) -> Result<usize, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.reset_request(request)),
            Backend::Redis(gate) => Ok(gate.reset_request(request).await?),
        }
    }

    /// Makes those keys of a rule new whose first value begins so; how many.
    pub(crate) async fn reset_prefix(
        &self,
        rule: &str,
        prefix: &str,
    ) -> Result<usize, AdminFailure> {
        match self {
            Backend::Memory(gate) => {
                let (gate, rule, prefix) = (gate.clone(), rule.to_owned(), prefix.to_owned());
                blocking(move || reset_prefix(&gate, &rule, &prefix)).await
            }
            Backend::Redis(gate) => Ok(reset_prefix_in_redis(gate, rule, prefix).await?),
        }
    }

    /// Makes all keys of a rule new.
    pub(crate) async fn reset_rule(&self, rule: &str) -> Result<(), AdminFailure> {
        match self {
            Backend::Memory(gate) => {
                let (gate, rule) = (gate.clone(), rule.to_owned());
                blocking(move || gate.reset_rule(&rule)).await.map(|_| ())
            }
            Backend::Redis(gate) => {
                gate.reset_rule(rule, |_| {}).await?;
                Ok(())
            }
        }
    }

    /// Makes everything new.
    pub(crate) async fn reset_everything(&self) -> Result<(), AdminFailure> {
        match self {
            Backend::Memory(gate) => {
                let gate = gate.clone();
                blocking(move || gate.reset_all()).await
            }
            Backend::Redis(gate) => {
                gate.reset_all(|_| {}).await?;
                Ok(())
            }
        }
    }

    /// Denies a key for `length`. Returns `false` if there is no such rule.
    pub(crate) async fn block_key(
        &self,
        key: &RuleKey,
        length: Duration,
    ) -> Result<Result<bool, TooManyBlocks>, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.block(&key.rule, &key.values(), length)),
            Backend::Redis(gate) => Ok(Ok(gate.block(&key.rule, &key.values(), length).await?)),
        }
    }

    /// Denies a request's keys for `length`. Returns their number.
    pub(crate) async fn block_request(
        &self,
        request: &Request<'_>,
        length: Duration,
    ) -> Result<Result<usize, TooManyBlocks>, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.block_request(request, length)),
            Backend::Redis(gate) => Ok(Ok(gate.block_request(request, length).await?)),
        }
    }

    /// Lifts a key's block; whether there was one.
    pub(crate) async fn unblock_key(&self, key: &RuleKey) -> Result<bool, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.unblock(&key.rule, &key.values())),
            Backend::Redis(gate) => Ok(gate.unblock(&key.rule, &key.values()).await?),
        }
    }

    /// Lifts the blocks of a request's keys; how many there were.
    pub(crate) async fn unblock_request(
        &self,
        request: &Request<'_>,
    ) -> Result<usize, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.unblock_request(request)),
            Backend::Redis(gate) => Ok(gate.unblock_request(request).await?),
        }
    }

    /// Every key that is blocked.
    pub(crate) async fn blocked(&self) -> Result<Vec<Blocked>, AdminFailure> {
        let all = match self {
            Backend::Memory(gate) => {
                let gate = gate.clone();
                blocking(move || gate.blocked_keys()).await?
            }
            Backend::Redis(gate) => gate.blocked().await?,
        };
        let blocked = |(rule, name, left): (String, KeyName, Duration)| {
            let (values, whole) = (values(&name), name.is_whole());
            Blocked { rule, values, whole, left }
        };
        Ok(all.into_iter().map(blocked).collect())
    }

    /// All overrides, one for each client, also those that have ended.
    pub(crate) fn overrides(&self) -> Vec<ListedOverride> {
        match self {
            Backend::Memory(gate) => gate.overrides(),
            Backend::Redis(gate) => gate.overrides(),
        }
    }

    /// Returns the override of a client.
    pub(crate) fn override_of(&self, client: &Client) -> Option<ListedOverride> {
        match self {
            Backend::Memory(gate) => gate.override_of(client),
            Backend::Redis(gate) => gate.override_of(client),
        }
    }

    /// Returns the clients with an override of run time that applies.
    fn run_time_clients(&self) -> BTreeSet<Client> {
        let overrides = match self {
            Backend::Memory(gate) => gate.run_time_overrides(),
            Backend::Redis(gate) => gate.run_time_overrides(),
        };
        overrides.into_keys().collect()
    }

    /// Replaces the active policy, unless another than `seen` is active by now. Logs the run-time
    /// overrides that the policy's overrides replace.
    pub(crate) fn activate(
        &self,
        seen: &Arc<Policy>,
        policy: Policy,
    ) -> Result<ReplaceOutcome, PolicyError> {
        let before = self.run_time_clients();
        let replaced = self.replace_seen(seen, policy)?;
        if replaced == ReplaceOutcome::Replaced && !before.is_empty() {
            log_replaced_overrides(before, &self.run_time_clients());
        }
        Ok(replaced)
    }

    /// Changes what is different for a client, or says everything that is wrong with that.
    pub(crate) async fn set_override(
        &self,
        change: Override,
    ) -> Result<Result<(), PolicyError>, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.set_override(change)),
            Backend::Redis(gate) => match gate.set_override(change).await {
                Ok(()) => Ok(Ok(())),
                Err(GateError::Policy(error)) => Ok(Err(error)),
                Err(GateError::Store(error)) => Err(error.into()),
                Err(error) => Err(AdminFailure::unavailable(error.to_string())),
            },
        }
    }

    /// Removes the run-time override of a client.
    pub(crate) async fn remove_override(
        &self,
        client: &Client,
    ) -> Result<OverrideRemoval, AdminFailure> {
        match self {
            Backend::Memory(gate) => Ok(gate.remove_override(client)),
            Backend::Redis(gate) => Ok(gate.remove_override(client).await?),
        }
    }
}

/// Logs the clients that had a run-time override before a policy was activated, and have none after.
pub fn log_replaced_overrides(before: BTreeSet<Client>, after: &BTreeSet<Client>) {
    let mut replaced = before.into_iter().filter(|client| !after.contains(client));
    let Some(client) = replaced.next() else { return };
    let others = replaced.count();
    tracing::info!(
        ?client,
        others,
        "run-time override replaced: the policy's override of its client has changed"
    );
}

impl RuleKey {
    pub(super) fn values(&self) -> Vec<&str> {
        self.values.iter().map(String::as_str).collect()
    }
}

impl From<StoreError> for AdminFailure {
    fn from(error: StoreError) -> AdminFailure {
        match error {
            // The store has an answer: there is no room for what was to be added.
            StoreError::InvalidRequest(detail) => {
                AdminFailure { status: StatusCode::CONFLICT, detail }
            }
            error => AdminFailure::unavailable(format!("{error}, try again later")),
        }
    }
}

impl AdminFailure {
    fn unavailable(detail: String) -> AdminFailure {
        AdminFailure { status: StatusCode::SERVICE_UNAVAILABLE, detail }
    }
}

/// Does what takes milliseconds where it keeps no request waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AdminFailure> {
    let done = tokio::task::spawn_blocking(work).await;
    let detail = "it broke off, some of it may have been done";
    done.map_err(|_| AdminFailure::unavailable(detail.to_owned()))
}

/// The values of a key that a list names.
fn values(name: &KeyName) -> Vec<String> {
    let mut values = Vec::new();
    name.parts(&mut |part| {
        values.push(match part {
            KeyPart::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        });
    });
    values
}

/// The values of a key whose first begins so; of one too long to be named whole, none.
fn beginning(name: &KeyName, prefix: &str) -> Option<Vec<String>> {
    let values = name.is_whole().then(|| values(name))?;
    values.first().is_some_and(|value| value.starts_with(prefix)).then_some(values)
}

fn reset_prefix(gate: &Gate, rule: &str, prefix: &str) -> usize {
    let reset = |name: &KeyName| {
        beginning(name, prefix).is_some_and(|values| {
            gate.reset(rule, &values.iter().map(String::as_str).collect::<Vec<_>>())
        })
    };
    let parts = (0..).map_while(|part| gate.keys_page(rule, part));
    let keys: usize = parts.map(|keys| keys.iter().filter(|(name, _)| reset(name)).count()).sum();
    // Those that are blocked and have no state beside.
    let blocked = gate.blocked_keys();
    keys + blocked.iter().filter(|(of, name, _)| of == rule && reset(name)).count()
}

async fn reset_prefix_in_redis(
    gate: &RedisGate,
    rule: &str,
    prefix: &str,
) -> Result<usize, StoreError> {
    let mut meant = Vec::new();
    let mut reset = 0;
    let mut walk = gate.keys(rule);
    loop {
        let step = match &mut walk {
            Some(keys) => keys.next().await?,
            None => None,
        };
        let is_last = step.is_none();
        match step {
            Some(keys) => meant.extend(keys.iter().filter_map(|(name, _)| beginning(name, prefix))),
            None => {
                let blocked = gate.blocked().await?;
                let of_rule = blocked.iter().filter(|(of, _, _)| of == rule);
                meant.extend(of_rule.filter_map(|(_, name, _)| beginning(name, prefix)));
            }
        }
        for values in meant.drain(..) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            reset += usize::from(gate.reset(rule, &values).await?);
        }
        if is_last {
            return Ok(reset);
        }
    }
}
