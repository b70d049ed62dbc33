//! For operators: the keys of a limiter, and making many of them new.

use futures_util::future::try_join_all;
use redis::{Value, cmd};
use tollgate::{Key, KeyName, KeyPart};

use crate::bounds::SCAN_COUNT;
use crate::error::StoreError;
use crate::limiter::RedisLimiter;
use crate::routed::ClusterNode;
use crate::store::RedisStore;

/// Where a scan begins.
const START: &[u8] = b"0";

/// How far a long operation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResetProgress {
    /// Keys of the limiter that were looked at.
    pub seen: u64,
    /// Keys that were made new.
    pub reset: u64,
}

/// A walk through the keys of a limiter, in steps that are short for the server.
///
/// Keys that are there all the while are met at least once, maybe more often; checks go on. In a
/// Cluster every node that serves slots is walked; keys that are moved meanwhile may be missed.
#[derive(Debug)]
pub struct KeyScan<'a> {
    limiter: &'a RedisLimiter,
    scan: ScanState,
}

/// A walk through the keys of the server that match a pattern.
#[derive(Debug)]
pub(crate) struct ScanState {
    pattern: Vec<u8>,
    /// The nodes of a Cluster that are still to be walked, the one being walked last; `None` before
    /// the first step.
    nodes: Option<Vec<ClusterNode>>,
    /// `None` at the end.
    cursor: Option<Vec<u8>>,
    /// How many nodes are still to be walked, where that is known before they are.
    remaining: Option<usize>,
}

impl ScanState {
    pub(crate) fn new(pattern: Vec<u8>) -> ScanState {
        ScanState { pattern, nodes: None, cursor: Some(START.to_vec()), remaining: None }
    }

    /// From a place that [`place`](Self::place) gave.
    pub(crate) fn at(pattern: Vec<u8>, place: &str) -> Option<ScanState> {
        let (remaining, cursor) = place.split_once('.')?;
        let remaining = match remaining {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        let is_number = cursor.parse::<u64>().is_ok();
        let cursor = is_number.then(|| cursor.as_bytes().to_vec());
        cursor.map(|cursor| ScanState { pattern, nodes: None, cursor: Some(cursor), remaining })
    }

    /// Where the next step begins; `None` at the end.
    pub(crate) fn place(&self) -> Option<String> {
        let cursor = String::from_utf8_lossy(self.cursor.as_ref()?).into_owned();
        let remaining = self.nodes.as_ref().map(Vec::len).or(self.remaining);
        Some(format!("{}.{cursor}", remaining.map_or(String::new(), |nodes| nodes.to_string())))
    }

    /// The keys of the next step, which may be none; `None` at the end.
    pub(crate) async fn step(
        &mut self,
        store: &RedisStore,
    ) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let mut scan = cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(SCAN_COUNT);
        let connection = store.connection();
        let nodes = match &mut self.nodes {
            Some(nodes) => nodes,
            unknown => {
                let mut nodes = connection.nodes().await?;
                nodes.truncate(self.remaining.unwrap_or(nodes.len()));
                unknown.insert(nodes)
            }
        };
        let answer = match nodes.last() {
            Some(node) => connection.send_to(node, &scan).await?,
            None => connection.send(&scan).await?,
        };
        let Value::Array(answer) = answer else {
            return Err(StoreError::Script("SCAN answered something else".to_owned()));
        };
        let mut answer = answer.into_iter();
        if let Some(Value::BulkString(cursor)) = answer.next() {
            self.cursor = Some(cursor).filter(|cursor| cursor != b"0");
        }
        if self.cursor.is_none() && nodes.pop().is_some() && !nodes.is_empty() {
            self.cursor = Some(START.to_vec());
        }
        let Some(Value::Array(keys)) = answer.next() else { return Ok(Some(Vec::new())) };
        let own = |key| if let Value::BulkString(bytes) = key { Some(bytes) } else { None };
        Ok(Some(keys.into_iter().filter_map(own).collect()))
    }
}

/// Deletes keys; how many there were.
pub(crate) async fn unlink(store: &RedisStore, keys: &[&Vec<u8>]) -> Result<u64, StoreError> {
    if keys.is_empty() {
        return Ok(0);
    }
    let connection = store.connection();
    // A Cluster takes the keys of one slot with a command, so that each has one of its own.
    let size = if connection.is_cluster() { 1 } else { keys.len() };
    let answers = keys.chunks(size).map(|some| async move {
        let gone = connection.send(cmd("UNLINK").arg(some)).await;
        some.iter().for_each(|key| store.denials().forget(key));
        gone
    });
    let count = |answer| match answer {
        Value::Int(gone) => u64::try_from(gone).unwrap_or(0),
        _ => 0,
    };
    Ok(try_join_all(answers).await?.into_iter().map(count).sum())
}

impl KeyScan<'_> {
    /// The keys of the next step, which may be none; `None` at the end.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn next(&mut self) -> Result<Option<Vec<KeyName>>, StoreError> {
        let prefix = &self.limiter.inner.prefix;
        let keys = self.scan.step(&self.limiter.store).await?;
        Ok(keys.map(|keys| keys.iter().filter_map(|key| prefix.name(key)).collect()))
    }
}

impl RedisLimiter {
    /// The keys that something is known of.
    pub fn keys(&self) -> KeyScan<'_> {
        KeyScan { limiter: self, scan: ScanState::new(self.inner.prefix.pattern()) }
    }

    /// Makes all keys of this limiter new, and says how far it has come after every step.
    /// Reservations that are open are forgotten: settled later, they are charged anew.
    ///
    /// # Errors
    /// Where the store has no answer; keys that were made new until then stay so.
    pub async fn reset_all(
        &self,
        progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        self.reset_where(|_| true, progress).await
    }

    /// Makes the keys new whose first part is text or bytes that begin with `prefix`, as
    /// [`reset_all`](Self::reset_all) does.
    ///
    /// # Errors
    /// As [`reset_all`](Self::reset_all).
    pub async fn reset_prefix(
        &self,
        prefix: impl AsRef<[u8]>,
        progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let prefix = prefix.as_ref();
        self.reset_where(|name| begins_with(name, prefix), progress).await
    }

    async fn reset_where(
        &self,
        is_meant: impl Fn(&KeyName) -> bool,
        mut progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let mut done = ResetProgress::default();
        let mut walk = ScanState::new(self.inner.prefix.pattern());
        while let Some(keys) = walk.step(&self.store).await? {
            let own = keys.iter().filter_map(|key| Some((key, self.inner.prefix.name(key)?)));
            let own: Vec<(&Vec<u8>, KeyName)> = own.collect();
            done.seen += u64::try_from(own.len()).unwrap_or(0);
            let meant = own.iter().filter(|(_, name)| is_meant(name)).map(|(key, _)| *key);
            done.reset += unlink(&self.store, &meant.collect::<Vec<_>>()).await?;
            progress(done);
        }
        Ok(done)
    }
}

/// Whether the first part of a key is text or bytes that begin so.
pub(crate) fn begins_with(name: &KeyName, prefix: &[u8]) -> bool {
    let mut first = None;
    name.parts(&mut |part| {
        let begins = matches!(part, KeyPart::Bytes(bytes) if bytes.starts_with(prefix));
        first.get_or_insert(begins);
    });
    first.unwrap_or(false)
}
