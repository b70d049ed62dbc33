//! What all nodes of a fleet know: overrides set at run time, and who is blocked by hand.
//!
//! One hash holds all of it, and a version that every change raises. Every node asks for the version
//! a few times a second, and reads the hash when it has changed. A block itself is a key of its own,
//! read by the script; the hash only says of which keys of rules that never block there is one.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use redis::{Value, cmd};
use tollgate::{Clock, Timestamp};

use super::fleet_overrides::Superseded;
use super::names::KeyPartList;
use super::{RedisGate, RedisGateInner};
use crate::bounds::{EVICTION_CHECK, MAX_SHARED, POLL};
use crate::error::StoreError;
use crate::layout::shown;
use crate::outage::{Health, Outage};
use crate::request::RawReply;
use crate::script;

pub(super) const BLOCK: u8 = b'b';
const VERSION: &[u8] = b"v";

/// How many that have ended one more block, or one more reset, takes out.
const TIDIED: usize = 16;

/// A field of a block by hand, and the rule and the values it names.
type SharedBlock = (Vec<u8>, (String, Vec<String>));

pub(super) struct FleetState {
    /// The hash.
    key: Vec<u8>,
    /// The version that was read last; held only to copy or to replace it.
    version: Mutex<Option<Vec<u8>>>,
    /// Whether it was ever read.
    known: AtomicBool,
    /// Why the server rejects the question for it, and since when; only while it was never read. No
    /// request is decided without it.
    rejected: Mutex<Option<(Timestamp, StoreError)>>,
    rejections: AtomicU64,
    /// Whether somebody is asking for the version.
    polling: Arc<AtomicBool>,
    /// The keys in Redis of blocks that were set by hand, and whether there are any.
    by_hand: RwLock<HashSet<Vec<u8>>>,
    any_by_hand: AtomicBool,
    /// The keys that are blocked by hand while the store is away: rules and values.
    local: Mutex<HashSet<(String, Vec<String>)>>,
    /// The resets that were told when it was read last.
    pub(super) resets: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    pub(super) superseded: Superseded,
}

/// Says that nobody asks any more, should the runtime end the task.
struct PollGuard(Arc<AtomicBool>);

impl Drop for PollGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl FleetState {
    pub(super) fn new(namespace: &str) -> FleetState {
        FleetState {
            key: format!("tg:{{}}:shared:{namespace}").into_bytes(),
            version: Mutex::default(),
            known: AtomicBool::new(false),
            rejected: Mutex::default(),
            rejections: AtomicU64::new(0),
            polling: Arc::default(),
            by_hand: RwLock::default(),
            any_by_hand: AtomicBool::new(false),
            local: Mutex::default(),
            resets: Mutex::default(),
            superseded: Superseded::default(),
        }
    }

    pub(super) fn any_by_hand(&self) -> bool {
        // Relaxed: who misses a block by a hair comes before it.
        self.any_by_hand.load(Ordering::Relaxed)
    }

    /// Whether the block of this key may have been set by hand.
    pub(super) fn by_hand(&self, key: &[u8]) -> bool {
        self.by_hand.read().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}

impl RedisGate {
    /// Sees that what the fleet shares is known, and stays so; whether it was not.
    pub(super) async fn tend(&self) -> Result<bool, StoreError> {
        let shared = &self.0.shared;
        // Relaxed: who comes too early does it once more.
        if !shared.polling.load(Ordering::Relaxed) && !shared.polling.swap(true, Ordering::Acquire)
        {
            let polling = PollGuard(shared.polling.clone());
            tokio::spawn(poll(Arc::downgrade(&self.0), polling));
        }
        let is_known = shared.known.load(Ordering::Relaxed);
        if !is_known {
            // Once: no other call carries its size.
            Box::pin(self.refresh()).await?;
        }
        Ok(!is_known)
    }

    /// The state of the store, as [`RedisStore::health`](crate::RedisStore::health) has it. A server
    /// that answers, but rejects what every decision of this gate needs, is an outage here too.
    pub fn health(&self) -> Health {
        let (shared, store) = (&self.0.shared, &self.0.store);
        let mut health = store.health();
        health.outages += shared.rejections.load(Ordering::Relaxed);
        let rejected = shared.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some((since, why))) = (&health.outage, &*rejected) {
            let (address, why) = (store.connection().address().to_owned(), why.clone());
            let lasted = Clock::system().now().saturating_since(*since);
            health.outage = Some(Outage { address, duration: lasted, cause: why, failed_calls: 0 });
        }
        health
    }

    /// Asks the server whether it would decide requests: see [`RedisStore::probe`](crate::RedisStore::probe).
    ///
    /// # Errors
    /// The reason why it would not.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.0.store.probe().await?;
        if !self.tend().await? {
            self.refresh().await?;
        }
        Ok(())
    }

    /// Reads what the fleet shares, if it has changed.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let read = self.read_shared().await.map_err(|error| match error {
            StoreError::Refused(why) if why.contains("WRONGTYPE") => {
                StoreError::ForeignKey(shown(&self.0.shared.key))
            }
            error => error,
        });
        self.note_rejection(read.as_ref().err());
        read
    }

    fn note_rejection(&self, error: Option<&StoreError>) {
        let shared = &self.0.shared;
        let mut rejected = shared.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        let is_rejection = |error: &&StoreError| {
            matches!(error, StoreError::Refused(_) | StoreError::ForeignKey(_))
        };
        match error.filter(is_rejection) {
            Some(error) if !shared.known.load(Ordering::Relaxed) => {
                if rejected.is_none() {
                    shared.rejections.fetch_add(1, Ordering::Relaxed);
                    *rejected = Some((Clock::system().now(), error.clone()));
                }
            }
            _ => *rejected = None,
        }
    }

    async fn read_shared(&self) -> Result<(), StoreError> {
        let shared = &self.0.shared;
        let connection = self.0.store.connection();
        let version = connection.send(cmd("HGET").arg(&shared.key).arg(VERSION)).await?;
        let version = if let Value::BulkString(version) = version { Some(version) } else { None };
        let seen = shared.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if version != seen || !shared.known.load(Ordering::Relaxed) {
            let fields = connection.send(cmd("HGETALL").arg(&shared.key)).await?;
            self.apply(&pairs(fields));
        }
        Ok(())
    }

    fn apply(&self, fields: &HashMap<Vec<u8>, Vec<u8>>) {
        let shared = &self.0.shared;
        // One at a time: an older reading must not undo a newer one.
        let mut version = shared.version.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |bytes: &Vec<u8>| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let read = fields.get(VERSION).cloned();
        let is_older = read.as_ref().and_then(number) < version.as_ref().and_then(number);
        if is_older && read.is_some() {
            return;
        }
        self.put_overrides(fields);
        self.put_blocks(fields);
        self.heed_resets(fields);
        // Whoever was blocked may be so no longer, whoever was refused may have other numbers.
        self.0.store.denials().forget_all();
        *version = read;
        shared.known.store(true, Ordering::Relaxed);
    }

    /// Reads what the fleet shares anew before the next decision: names have changed.
    pub(super) fn forget_what_is_shared(&self) {
        self.0.shared.known.store(false, Ordering::Relaxed);
    }

    fn put_blocks(&self, fields: &HashMap<Vec<u8>, Vec<u8>>) {
        let (shared, names) = (&self.0.shared, self.names(&self.policy()));
        let mut by_hand = HashSet::new();
        let mut blocked = HashSet::new();
        for (field, until) in fields {
            let Some((rule, values)) = rule_and_values(field) else { continue };
            let texts: Vec<&str> = values.iter().map(String::as_str).collect();
            if let Some((_, of_rule)) = names.find(&rule) {
                by_hand.insert(of_rule.blocks.written(&KeyPartList(&texts).bytes()));
            }
            let left = moment(until).saturating_sub(self.0.store.now_micros());
            if left > 0 {
                // It cannot fail: the fleet shares at most as many blocks as a store may hold.
                let _ = self.0.local.block(&rule, &texts, Duration::from_micros(left));
                blocked.insert((rule, values));
            }
        }
        let any = !by_hand.is_empty();
        *shared.by_hand.write().unwrap_or_else(PoisonError::into_inner) = by_hand;
        shared.any_by_hand.store(any, Ordering::Relaxed);
        let mut local = shared.local.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, values) in local.difference(&blocked) {
            self.0.local.unblock(rule, &values.iter().map(String::as_str).collect::<Vec<_>>());
        }
        *local = blocked;
    }

    /// Changes one field of what the fleet shares, and reads it all again; whether it was there.
    pub(super) async fn share(&self, field: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        let reply = self.share_only(&[field, value]).await?;
        if reply.verdict == script::MANY {
            return Err(StoreError::InvalidRequest(format!(
                "the fleet shares {MAX_SHARED} overrides and blocks, remove some first"
            )));
        }
        self.refresh().await?;
        Ok(reply.verdict == 1)
    }

    /// `change` is a field and its new value; with an old value only if it has that.
    pub(super) async fn share_only(&self, change: &[&[u8]]) -> Result<RawReply, StoreError> {
        let (store, most) = (&self.0.store, MAX_SHARED.to_string());
        let told = store.told_time();
        let mut args = vec![told.as_bytes(), b"share", b"", change[0], change[1], most.as_bytes()];
        args.extend(change.get(2));
        let keys = [self.0.shared.key.as_slice()];
        let sharing = pin!(store.connection().run(&keys, &args));
        RawReply::read(store.connection().within(sharing).await?)
    }

    /// Says to all nodes that a key is blocked by hand until then, or no longer.
    pub(super) async fn share_block(
        &self,
        rule: &str,
        key: &[&str],
        until: Option<u64>,
    ) -> Result<(), StoreError> {
        let until = until.map_or(Vec::new(), |until| until.to_be_bytes().to_vec());
        self.share(&block_field(rule, key), &until).await.map(drop)
    }

    /// Lifts the blocks by hand of the keys that are meant, by rule and values; and tells all nodes that
    /// much has changed, whether or not there were any.
    pub(super) async fn unshare_blocks(
        &self,
        is_meant: impl Fn(&str, &[String]) -> bool,
    ) -> Result<(), StoreError> {
        for (field, (rule, values)) in self.shared_blocks().await? {
            if is_meant(&rule, &values) {
                self.share_only(&[&field, b""]).await?;
            }
        }
        // A field of no name is never there: this changes the version alone.
        self.share_only(&[b"", b""]).await?;
        self.refresh().await
    }

    /// Takes out some of what is told of one `kind` until a moment before `now`, so that it never piles
    /// up.
    pub(super) async fn tidy(&self, kind: u8, now: u64) -> Result<(), StoreError> {
        let shared = self.0.store.connection().send(cmd("HGETALL").arg(&self.0.shared.key)).await?;
        let shared = pairs(shared);
        let of_kind = shared.iter().filter(|(field, _)| field.first() == Some(&kind));
        let ended = of_kind.filter(|(_, until)| moment(until) < now);
        for (field, until) in ended.take(TIDIED) {
            self.share_only(&[field, b"", until]).await?;
        }
        Ok(())
    }

    /// The keys that are blocked by hand: the field, and what it says.
    async fn shared_blocks(&self) -> Result<Vec<SharedBlock>, StoreError> {
        let fields = self.0.store.connection().send(cmd("HGETALL").arg(&self.0.shared.key)).await?;
        let blocks = pairs(fields).into_keys().filter_map(|field| {
            let block = rule_and_values(&field)?;
            Some((field, block))
        });
        Ok(blocks.collect())
    }

    /// Forgets all that the fleet shares in this namespace: for tests.
    #[doc(hidden)]
    pub async fn forget_shared(&self) -> Result<(), StoreError> {
        self.0.store.connection().send(cmd("UNLINK").arg(&self.0.shared.key)).await?;
        self.refresh().await
    }
}

async fn poll(gate: Weak<RedisGateInner>, _polling: PollGuard) {
    let mut until_evictions = 0;
    loop {
        let Some(here) = gate.upgrade().map(RedisGate) else { return };
        here.beat().await;
        if until_evictions > 0 {
            until_evictions -= 1;
        } else if here.store().check_evictions().await.is_ok() {
            until_evictions = EVICTION_CHECK;
        }
        drop(here);
        tokio::time::sleep(POLL).await;
        let Some(gate) = gate.upgrade().map(RedisGate) else { return };
        // While the store is away, what is known stays in force.
        let _ = gate.refresh().await;
        let _ = gate.remove_superseded().await;
    }
}

/// The moment that a block's value says, in microseconds since 1970.
fn moment(until: &[u8]) -> u64 {
    until.first_chunk().map_or(0, |until| u64::from_be_bytes(*until))
}

/// Each text with its length in front.
fn block_field(rule: &str, key: &[&str]) -> Vec<u8> {
    let mut field = vec![BLOCK];
    for text in std::iter::once(&rule).chain(key) {
        field.extend_from_slice(&u32::try_from(text.len()).unwrap_or(0).to_be_bytes());
        field.extend_from_slice(text.as_bytes());
    }
    field
}

/// The inverse: the rule, and the values of its key.
fn rule_and_values(field: &[u8]) -> Option<(String, Vec<String>)> {
    let mut rest = field.strip_prefix(&[BLOCK])?;
    let mut texts = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (text, after) = after.split_at_checked(length)?;
        texts.push(String::from_utf8_lossy(text).into_owned());
        rest = after;
    }
    let mut texts = texts.into_iter();
    Some((texts.next()?, texts.collect()))
}

fn pairs(fields: Value) -> HashMap<Vec<u8>, Vec<u8>> {
    let items: Vec<Value> = match fields {
        Value::Array(items) => items,
        Value::Map(items) => items.into_iter().flat_map(|(field, value)| [field, value]).collect(),
        _ => Vec::new(),
    };
    let mut items = items.into_iter().map(|item| match item {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}
