//! States made under other numbers: read, scaled in proportion as in memory, and written back
//! unless they have changed meanwhile. Two round trips more, once a key after a change.

use tollgate::port::{ConvertedState, ScriptDebt, ScriptLimit, ScriptState};

use crate::bounds::{MOST_DEBT, MOST_EXACT};
use crate::error::StoreError;
use crate::fetch::{HashFields, StoredState, fetch, field, without_claim};
use crate::layout::shown;
use crate::request::{RawReply, ScriptCharge};
use crate::script::{self, ANY, PackedBytes, PackedReader, RECORD};
use crate::store::RedisStore;
use crate::terms::{ENTRIES, ENTRY, HEADER, ScriptLimitCodec};

/// A state and the limit it was made under.
struct FoundState {
    terms: ScriptLimitCodec,
    state: ScriptState,
    records: Vec<u8>,
}

/// Brings a state that has been fetched under the charge's limit, if it has not changed meanwhile.
pub(crate) async fn rescale_fetched(
    store: &RedisStore,
    charge: &ScriptCharge<'_>,
    kept: &StoredState,
    now: u64,
) -> Result<(), StoreError> {
    let Some(found) = found(kept, charge)? else { return Ok(()) };
    let terms = &charge.limiter.terms;
    let is_converted = found.terms.tag == terms.tag && !kept.is_claimed();
    if is_converted && !terms.ported.is_stepped(&found.state, now) {
        // Another client has converted it.
        return Ok(());
    }
    let ConvertedState { state, is_redated, .. } = found.converted(terms, now);
    let records = rewritten(&found, terms, &state, now);
    let fresh_at = fresh_at(terms, &state, &records);
    let new =
        if fresh_at > script::moment(now) { written(terms, &state, &records) } else { Vec::new() };
    let told = store.told_time();
    let fresh_at = fresh_at.to_string();
    let mut args: Vec<&[u8]> = vec![told.as_bytes(), b"swap", b""];
    match kept {
        StoredState::Text(raw) => args.extend([raw.as_slice(), b"", b""]),
        StoredState::Hash(fields) => {
            args.extend([&b""[..], field(fields, b"h"), field(fields, b"r")])
        }
        StoredState::Nothing => return Ok(()),
    }
    args.push(fresh_at.as_bytes());
    args.extend(new.iter().map(Vec::as_slice));
    // If another client was first, the next try finds its state.
    let reply = RawReply::read(store.connection().run(&[&charge.key], &args).await?)?;
    store.count_redated(usize::from(is_redated && reply.verdict == 1));
    Ok(())
}

/// [`rescale_fetched`] of each state that a denial stores under the limit of its charge.
pub(crate) async fn rescale_denied(
    store: &RedisStore,
    charges: &[ScriptCharge<'_>],
    now: u64,
) -> Result<(), StoreError> {
    for charge in charges.iter().filter(|charge| charge.cost > 0) {
        let kept = fetch(store, &charge.key).await?;
        let found = found(&kept, charge)?;
        if found
            .is_some_and(|found| found.converted(&charge.limiter.terms, now).is_stored_by_denial)
        {
            rescale_fetched(store, charge, &kept, now).await?;
        }
    }
    Ok(())
}

/// A converted state as the script reads it.
#[derive(Debug, Default)]
pub(crate) struct Replacement {
    /// What was found, the state that replaces it, and what becomes of that. Empty for no state.
    pub(crate) packed: Vec<u8>,
    /// Whether the state was re-dated, since the clock had moved back by more than the horizon.
    pub(crate) is_redated: bool,
}

/// The state that the script takes a fetched one for, if that has not changed meanwhile. `None` if
/// there is no state any more.
pub(crate) fn replacement(
    charge: &ScriptCharge<'_>,
    kept: &StoredState,
    now: u64,
) -> Result<Option<Replacement>, StoreError> {
    let Some(found) = found(kept, charge)? else { return Ok(None) };
    let terms = &charge.limiter.terms;
    let old = match kept {
        StoredState::Text(raw) => raw.clone(),
        StoredState::Hash(fields) => [field(fields, b"h"), field(fields, b"r")].concat(),
        StoredState::Nothing => return Ok(None),
    };
    let converted = found.converted(terms, now);
    let ConvertedState { state, is_stored_by_denial, is_redated } = converted;
    let records = rewritten(&found, terms, &state, now);
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(0).to_be_bytes();
    let new = match &state {
        ScriptState::SlidingLog(entries) => {
            let LogText { header, entries } = log_text(terms, entries);
            [&header, &length(&records)[..], &records, &entries].concat()
        }
        _ => written(terms, &state, &records).concat(),
    };
    let fresh_at = PackedBytes::default().signed(fresh_at(terms, &state, &records)).0;
    let stays = [u8::from(is_stored_by_denial)];
    let packed = [&length(&old)[..], &old, &length(&new), &new, &fresh_at, &stays].concat();
    Ok(Some(Replacement { packed, is_redated }))
}

/// From when on a state is worthless, with what is reserved of it.
fn fresh_at(terms: &ScriptLimitCodec, state: &ScriptState, records: &[u8]) -> i64 {
    let fresh_at = script::moment(terms.ported.fresh_at(state));
    let last = records.last_chunk::<RECORD>().and_then(|last| PackedReader(last).moment());
    last.map_or(fresh_at, |last| fresh_at.max(last))
}

/// A key's state as it would be under the charge's limit; `None` if it has gone meanwhile.
pub(crate) async fn look(
    store: &RedisStore,
    charge: &ScriptCharge<'_>,
    now: u64,
) -> Result<Option<ScriptState>, StoreError> {
    let kept = fetch(store, &charge.key).await?;
    let found = found(&kept, charge)?;
    Ok(found.map(|found| found.converted(&charge.limiter.terms, now).state))
}

impl FoundState {
    /// The state under the limit of a charge.
    fn converted(&self, terms: &ScriptLimitCodec, now: u64) -> ConvertedState {
        terms.ported.convert(&self.terms.ported, &self.state, now)
    }
}

fn found(kept: &StoredState, charge: &ScriptCharge<'_>) -> Result<Option<FoundState>, StoreError> {
    let found = match kept {
        StoredState::Nothing => return Ok(None),
        StoredState::Text(raw) => read_text(without_claim(raw)),
        StoredState::Hash(fields) => read_hash(fields),
    };
    let found = found.ok_or_else(|| StoreError::ForeignKey(shown(&charge.key)))?;
    Ok(Some(found))
}

fn read_text(raw: &[u8]) -> Option<FoundState> {
    let (terms, rest) = ScriptLimitCodec::of_state(raw)?;
    let (words, records) = rest.split_at_checked(terms.width())?;
    if terms.is_log() || records.len() % RECORD != 0 {
        return None;
    }
    Some(FoundState { state: terms.read(words)?, records: records.to_vec(), terms })
}

fn read_hash(fields: &HashFields) -> Option<FoundState> {
    let (terms, header) = ScriptLimitCodec::of_state(without_claim(field(fields, b"h")))?;
    if !terms.is_log() || header.len() != HEADER {
        return None;
    }
    let mut header = PackedReader(header);
    let (first, next, mut before) = (header.number()?, header.number()?, header.number()?);
    if next > MOST_EXACT || first > next {
        return None;
    }
    let per_field = u64::try_from(ENTRIES).ok()?;
    let mut entries = Vec::new();
    let mut current = (u64::MAX, &[][..]);
    for index in first..next {
        if current.0 != index / per_field {
            let name = (index / per_field).to_string();
            current = (index / per_field, field(fields, name.as_bytes()));
        }
        let from = usize::try_from(index % per_field).ok()? * ENTRY;
        let mut entry = PackedReader(current.1.get(from..from + ENTRY)?);
        let (at, total) = (script::micros(entry.moment()?), entry.number()?);
        // Totals wrap.
        entries.push((at, total.wrapping_sub(before) % (1 << 52)));
        before = total;
    }
    let state = ScriptState::SlidingLog(entries);
    Some(FoundState { terms, state, records: field(fields, b"r").to_vec() })
}

/// The records of open reservations, their units priced anew.
fn rewritten(
    found: &FoundState,
    terms: &ScriptLimitCodec,
    state: &ScriptState,
    now: u64,
) -> Vec<u8> {
    let same_kind =
        std::mem::discriminant(&found.terms.shape) == std::mem::discriminant(&terms.shape);
    let is_bucket = matches!(terms.shape, ScriptLimit::Bucket { .. });
    let (old_end, new_end) =
        (ScriptLimitCodec::moment(&found.state, now), ScriptLimitCodec::moment(state, now));
    let rewrite = |record: &[u8]| {
        let mut read = PackedReader(record);
        let (until, ticket, units) = (read.moment()?, read.word()?, read.word()?);
        let _amount = (read.number()?, read.number()?);
        let (_turns, taken) = (read.byte()?, read.moment()?);
        let low = ScriptDebt { micros: read.number()?, parts: read.number()? };
        let taken = match same_kind {
            // A bucket remembers when the last of its turns has passed.
            true if is_bucket && taken == old_end => new_end,
            true => taken,
            false => new_end,
        };
        let low = rewritten_low(found, terms, state, (low, now));
        let head = PackedBytes::default().signed(until);
        let head = head.bytes(&ticket.to_be_bytes()).bytes(&units.to_be_bytes());
        let head = head.bytes(&terms.amount(units).0).bytes(&[u8::from(terms.is_queue())]);
        Some(head.signed(taken).number(low.micros).number(low.parts).0)
    };
    found.records.chunks(RECORD).filter_map(rewrite).flatten().collect()
}

/// What was owed at least since something was reserved, under the new limit.
fn rewritten_low(
    found: &FoundState,
    terms: &ScriptLimitCodec,
    state: &ScriptState,
    (low, now): (ScriptDebt, u64),
) -> ScriptDebt {
    let nothing = ScriptDebt::default();
    if low == nothing {
        return nothing;
    }
    let owed = |state: &ScriptState| match state {
        ScriptState::Bucket { at, owed } => {
            let micros = (at + owed.micros).saturating_sub(now.max(*at)).min(MOST_DEBT);
            ScriptDebt { micros, parts: owed.parts }
        }
        _ => nothing,
    };
    match (&found.terms.shape, &terms.shape) {
        (ScriptLimit::Bucket { .. }, ScriptLimit::Bucket { .. }) => {
            let low = terms.ported.debt_in_proportion(&found.terms.ported, low);
            if low.micros < MOST_DEBT { low } else { ScriptDebt { micros: MOST_DEBT, parts: 0 } }
        }
        (_, ScriptLimit::Bucket { .. }) => owed(state),
        _ => ScriptDebt { micros: ANY, parts: 0 },
    }
}

/// The state as it is kept: one string, or a hash's fields and values.
fn written(terms: &ScriptLimitCodec, state: &ScriptState, records: &[u8]) -> Vec<Vec<u8>> {
    let ScriptState::SlidingLog(entries) = state else {
        let state = terms.write(state);
        let words = if state.is_empty() { vec![0; terms.width()] } else { state };
        return vec![[&terms.tag, words.as_slice(), records].concat()];
    };
    let LogText { header, entries } = log_text(terms, entries);
    let mut fields = vec![b"h".to_vec(), header];
    for (number, chunk) in entries.chunks(ENTRIES * ENTRY).enumerate() {
        fields.extend([number.to_string().into_bytes(), chunk.to_vec()]);
    }
    if !records.is_empty() {
        fields.extend([b"r".to_vec(), records.to_vec()]);
    }
    fields
}

/// A log as it is kept: the tag with the header, and all entries one after the other.
struct LogText {
    header: Vec<u8>,
    entries: Vec<u8>,
}

fn log_text(terms: &ScriptLimitCodec, entries: &[(u64, u64)]) -> LogText {
    let mut total = 0_u64;
    let packed = entries.iter().flat_map(|(at, units)| {
        total += units;
        PackedBytes::default().signed(script::moment(*at)).number(total).0
    });
    let packed: Vec<u8> = packed.collect();
    let seen = entries.last().map_or(i64::MIN / 1024, |(at, _)| script::moment(*at));
    let count = u64::try_from(entries.len()).unwrap_or(0);
    let header =
        PackedBytes::default().number(0).number(count).number(0).signed(seen).number(total);
    LogText { header: [terms.tag.as_slice(), &header.0].concat(), entries: packed }
}
