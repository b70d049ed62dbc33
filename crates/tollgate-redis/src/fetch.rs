//! States that were made under another limit, read for conversion.
//!
//! A state is read by one call of the script and converted here. The script takes the result only if
//! the state has not changed meanwhile. While clients take from the state under its own limit, that
//! could fail for ever. So the second try claims the state: nobody else changes it until the claim
//! ends. In one process, one request at a time claims a key; the others wait, and find it converted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redis::Value;
use tokio::sync::OwnedMutexGuard;

use crate::bounds::{CLAIM_POLL, LONGEST_CLAIM};
use crate::error::StoreError;
use crate::layout::shown;
use crate::request::RawReply;
use crate::script;
use crate::store::RedisStore;

/// What a claimed state begins with, and the length of that with the claim.
const CLAIM: &[u8] = b"C\x01";
const CLAIM_LENGTH: usize = 17;

/// The fields of a hash and their values.
pub(crate) type HashFields = HashMap<Vec<u8>, Vec<u8>>;

/// A state as the server keeps it.
pub(crate) enum StoredState {
    Nothing,
    Text(Vec<u8>),
    Hash(HashFields),
}

impl StoredState {
    /// Whether a client claims the state, or has claimed it and never released it.
    pub(crate) fn is_claimed(&self) -> bool {
        let beginning: &[u8] = match self {
            StoredState::Nothing => &[],
            StoredState::Text(raw) => raw,
            StoredState::Hash(fields) => field(fields, b"h"),
        };
        without_claim(beginning).len() < beginning.len()
    }
}

/// The value of a field, empty where there is none.
pub(crate) fn field<'a>(fields: &'a HashFields, name: &[u8]) -> &'a [u8] {
    fields.get(name).map_or(&[], Vec::as_slice)
}

/// A state, or the header of a log, without the claim in front of it.
pub(crate) fn without_claim(state: &[u8]) -> &[u8] {
    match state.get(CLAIM_LENGTH..) {
        Some(rest) if state.starts_with(CLAIM) => rest,
        _ => state,
    }
}

/// Reads the state of `key`.
pub(crate) async fn fetch(store: &RedisStore, key: &[u8]) -> Result<StoredState, StoreError> {
    match fetch_claimed(store, key, b"").await? {
        Fetched::State(state) => Ok(state),
        Fetched::Claimed => Err(StoreError::Script("a fetch without a ticket claims".to_owned())),
    }
}

/// An answer to a fetch.
enum Fetched {
    State(StoredState),
    /// Another client has a claim.
    Claimed,
}

/// Reads the state of `key`. With a ticket, claims it too, unless another client has a claim.
async fn fetch_claimed(
    store: &RedisStore,
    key: &[u8],
    ticket: &[u8],
) -> Result<Fetched, StoreError> {
    let now = store.told_time();
    let lasts = (store.connection().timeout() / 4).min(LONGEST_CLAIM).as_micros().to_string();
    let args = [now.as_bytes(), b"fetch", b"", ticket, lasts.as_bytes()];
    let reply = RawReply::read(store.connection().run(&[key], &args).await?)?;
    let verdict = reply.verdict;
    let state = match (verdict, reply.into_first()) {
        (0, _) => StoredState::Nothing,
        (1, Some(Value::BulkString(raw))) => StoredState::Text(raw),
        (2, Some(Value::Array(items))) => StoredState::Hash(pairs(items)),
        (script::CLAIMED, _) => return Ok(Fetched::Claimed),
        (script::FOREIGN, _) => return Err(StoreError::ForeignKey(shown(key))),
        _ => return Err(StoreError::Script("its answer is not a state".to_owned())),
    };
    Ok(Fetched::State(state))
}

fn pairs(items: Vec<Value>) -> HashFields {
    let bytes = |value: Value| match value {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    };
    let mut items = items.into_iter().map(bytes);
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// The keys that requests of this process convert now, each with the lock that lets one of them claim it.
#[derive(Default)]
pub(crate) struct Conversions(Mutex<HashMap<Vec<u8>, Weak<tokio::sync::Mutex<()>>>>);

impl Conversions {
    /// The lock of `key`.
    fn lock(&self, key: &[u8]) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = all.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        // As many are in use as requests convert a key now. The rest are dropped here.
        all.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        all.insert(key.to_vec(), Arc::downgrade(&lock));
        lock
    }
}

/// What one request has done so far to convert states.
pub(crate) struct Conversion<'s> {
    store: &'s RedisStore,
    /// The keys whose states it has read.
    read: Vec<Vec<u8>>,
    /// The keys that it claims.
    claimed: Vec<Vec<u8>>,
    ticket: [u8; 8],
    /// The turn of this request among those of this process, on the first key that it claims.
    turn: Option<OwnedMutexGuard<()>>,
}

impl<'s> Conversion<'s> {
    pub(crate) fn new(store: &'s RedisStore) -> Conversion<'s> {
        let (read, claimed) = (Vec::new(), Vec::new());
        Conversion { store, read, claimed, ticket: [0; 8], turn: None }
    }

    /// The state of `key`, to be converted. `None` if the request is to be sent again first: another
    /// one may have converted the state.
    ///
    /// The first time it reads the state. If the state has changed by the time it is converted, the
    /// next one claims it.
    pub(crate) async fn fetch(&mut self, key: &[u8]) -> Result<Option<StoredState>, StoreError> {
        if !self.read.iter().any(|read| read == key) {
            self.read.push(key.to_vec());
            let state = fetch(self.store, key).await?;
            if !state.is_claimed() {
                return Ok(Some(state));
            }
        }
        // One turn is enough: two requests that wait for each other's second turn would wait for ever.
        if self.turn.is_none() {
            let lock = self.store.conversions().lock(key);
            self.turn = Some(lock.lock_owned().await);
            self.ticket = self.store.next_ticket().to_be_bytes();
            return Ok(None);
        }
        loop {
            if let Fetched::State(state) = fetch_claimed(self.store, key, &self.ticket).await? {
                self.claimed.push(key.to_vec());
                return Ok(Some(state));
            }
            tokio::time::sleep(CLAIM_POLL).await;
        }
    }

    /// Releases what was claimed and may not have been converted. Should it fail, the claims end by
    /// themselves.
    pub(crate) async fn release(&self) {
        for key in &self.claimed {
            let now = self.store.told_time();
            let args = [now.as_bytes(), b"release", b"", self.ticket.as_slice()];
            let _ = self.store.connection().run(&[key], &args).await;
        }
    }
}

/// Whether a request that was tried `tried` times is tried once more. One that waits for its turn to
/// convert a state, or has it, is tried until its time is over.
pub(crate) fn may_try(conversion: Option<&Conversion<'_>>, tried: &mut usize, most: usize) -> bool {
    if conversion.is_some_and(|conversion| conversion.turn.is_some()) {
        return true;
    }
    *tried += 1;
    *tried <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_is_cut_off_whole_or_not_at_all() {
        let claimed = [CLAIM, &[7; 15], b"T\x01state"].concat();
        assert_eq!(without_claim(&claimed), b"T\x01state");
        for state in [&b"T\x01state"[..], b"", b"C\x01", &claimed[..16]] {
            assert_eq!(without_claim(state), state);
        }
        assert!(StoredState::Text(claimed.clone()).is_claimed());
        let header = HashFields::from([(b"h".to_vec(), claimed)]);
        assert!(StoredState::Hash(header).is_claimed());
        assert!(!StoredState::Nothing.is_claimed());
    }
}
