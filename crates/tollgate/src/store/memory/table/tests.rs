use std::collections::BTreeMap;
use std::num::NonZeroU8;

use proptest::prelude::*;

use super::super::search::FAR;
use super::*;

/// Fingerprints that crowd the ends and single homes, beside ordinary ones.
fn id() -> impl Strategy<Value = u64> {
    let crowded = prop_oneof![
        1..40_u64,
        (u64::MAX >> 8) - 40..u64::MAX >> 8,
        (0..8_u64).prop_map(|home| (home << 53) + 1),
        1..u64::MAX >> 8,
    ];
    crowded.prop_map(|id| id << 8)
}

/// Numbers with a tag and without.
fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![1..4_u32, 254..258_u32]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32, u32),
    Remove(u64),
    Replace(u64, u32),
    Write(u64, u64),
    LayOut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (id(), limit(), 0..3_u32).prop_map(|(id, limit, place)| Step::Insert(id, limit, place)),
        3 => id().prop_map(Step::Remove),
        1 => (id(), limit()).prop_map(|(id, limit)| Step::Replace(id, limit)),
        2 => (id(), 0..9_u64).prop_map(|(id, word)| Step::Write(id, word)),
        2 => Just(Step::LayOut),
    ]
}

fn rows(table: &Table) -> Vec<TableRow> {
    table.taken().map(|index| table.row(index)).collect()
}

fn lay_out(table: &mut Table) {
    let rows = rows(table);
    let homes = homes_for(rows.len() + 3);
    *table = std::mem::take(table).with_homes(&rows, homes);
}

fn insert(table: &mut Table, row: TableRow) {
    if table.is_full() {
        lay_out(table);
    }
    loop {
        let at = table.find(row.id).expect_err("the id is new");
        if table.insert(at, row) {
            return;
        }
        lay_out(table);
    }
}

proptest! {
    #[test]
    fn a_table_holds_what_a_sorted_map_would(steps in prop::collection::vec(step(), 0..300)) {
        let mut table = Table::default();
        let mut model: BTreeMap<u64, (u32, u32, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(id, limit, place) => {
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(id) {
                        entry.insert((limit, place, 7));
                        insert(&mut table, TableRow { id, words: [id, 7], limit, place });
                    }
                }
                Step::Remove(id) => {
                    let found = table.find(id);
                    prop_assert_eq!(found.is_ok(), model.remove(&id).is_some());
                    if let Ok(index) = found {
                        prop_assert_eq!(table.remove(index).id, id);
                    }
                }
                Step::Replace(id, limit) => {
                    if let (Ok(index), Some(row)) = (table.find(id), model.get_mut(&id)) {
                        table.replace(index, limit, [id, row.2]);
                        row.0 = limit;
                    }
                }
                Step::Write(id, word) => {
                    if let (Ok(index), Some(row)) = (table.find(id), model.get_mut(&id)) {
                        *table.words_mut(index) = [id, word];
                        row.2 = word;
                    }
                }
                Step::LayOut => lay_out(&mut table),
            }
            prop_assert_eq!(table.len(), model.len());
        }
        let held: Vec<_> =
            rows(&table).iter().map(|row| (row.id, (row.limit, row.place, row.words[1]))).collect();
        prop_assert_eq!(held, model.into_iter().collect::<Vec<_>>());
        for row in rows(&table) {
            prop_assert_eq!(row.words[0], row.id);
            prop_assert!(table.find(row.id).is_ok());
        }
    }
}

proptest! {
    /// A start may be what a home was in a table that was laid out anew since.
    #[test]
    fn from_wherever_a_key_is_looked_for_it_is_found_or_nothing_is(
        ids in prop::collection::btree_set(id(), 1..200),
        starts in prop::collection::vec(any::<prop::sample::Index>(), 1..20)
    ) {
        let mut table = Table::default();
        lay_out(&mut table);
        for id in &ids {
            insert(&mut table, TableRow { id: *id, words: [*id, 7], limit: 3, place: 0 });
        }
        let [lower, tag, higher] =
            [2, 3, 4].map(|tag| NonZeroU8::new(tag).expect("it is not zero"));
        for id in ids {
            for start in &starts {
                let start = u32::try_from(start.index(2 * table.slots.len())).expect("it is small");
                let mut find = |tag| {
                    let slot = find_known(table.cells(), TaggedId::new(id, tag), start);
                    slot.map(|slot| slot.get().words)
                };
                prop_assert!(find(tag).is_none_or(|words| words == [id, 7]));
                prop_assert_eq!((find(lower), find(higher)), (None, None));
            }
            let (index, home) = (table.find(id).expect("it is there"), table.home(id));
            let is_near = index < home + FAR;
            let home_slot = u32::try_from(home).expect("it is small");
            let found = find_known(table.cells(), TaggedId::new(id, tag), home_slot);
            prop_assert!(found.is_some() || !is_near, "{index} from {home}");
        }
    }
}

/// How many rows are laid out anew while so many keys are added, each of which is worthless once
/// `lasts` others came after it.
fn moved(keys: u64, lasts: u64) -> usize {
    let (mut table, mut moved) = (Table::default(), 0);
    for number in 1..=keys {
        if table.is_full() {
            let live = rows(&table).into_iter().filter(|row| row.words[0] + lasts > number);
            let live: Vec<_> = live.collect();
            moved += live.len();
            table = table.laid_out(&live, Shrink::Gradual);
        }
        let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !TAG;
        insert(&mut table, TableRow { id, words: [number, 0], limit: 1, place: 0 });
    }
    moved
}

#[test]
fn where_keys_come_and_go_few_others_are_moved_for_each() {
    let moved = moved(100_000, 2000);
    assert!(moved < 300_000, "{moved} rows for 100000 keys");
}

#[test]
fn a_small_table_grows_without_moving_many() {
    let moved = moved(1000, u64::MAX / 2);
    assert!(moved < 6000, "{moved} rows for 1000 keys");
}
