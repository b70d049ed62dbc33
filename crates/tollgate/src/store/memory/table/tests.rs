use std::collections::BTreeMap;
use std::num::NonZeroU8;

use proptest::prelude::*;

use super::super::home::NEAR;
use super::super::slots::FAR;
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
    LayOut(Form),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (id(), limit(), 0..3_u32).prop_map(|(id, limit, place)| Step::Insert(id, limit, place)),
        3 => id().prop_map(Step::Remove),
        1 => (id(), limit()).prop_map(|(id, limit)| Step::Replace(id, limit)),
        2 => (id(), 0..9_u64).prop_map(|(id, word)| Step::Write(id, word)),
        1 => Just(Step::LayOut(Form::Plain)),
        1 => Just(Step::LayOut(Form::Paged)),
    ]
}

fn rows(table: &Table) -> Vec<Row> {
    table.taken().map(|index| table.row(index)).collect()
}

fn lay_out(table: &mut Table, form: Form) {
    let rows = rows(table);
    let homes = homes_for(rows.len() + 3, form);
    *table = table.taken_out().laid_out_as(form, &rows, homes);
}

fn insert(table: &mut Table, row: Row) {
    if table.is_full() {
        lay_out(table, table.slots.form());
    }
    loop {
        let at = table.find(row.id).expect_err("the id is new");
        if table.insert(at, row) {
            return;
        }
        lay_out(table, table.slots.form());
    }
}

proptest! {
    #[test]
    fn a_table_holds_what_a_sorted_map_would(steps in prop::collection::vec(step(), 0..300)) {
        let mut table = Table::new(Form::Plain);
        let mut model: BTreeMap<u64, (u32, u32, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(id, limit, place) => {
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(id) {
                        entry.insert((limit, place, 7));
                        insert(&mut table, Row { id, words: [id, 7], limit, place });
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
                Step::LayOut(form) => lay_out(&mut table, form),
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
        ids in prop::collection::btree_set(id(), 1..200), form in prop_oneof![
            Just(Form::Plain), Just(Form::Paged)
        ], starts in prop::collection::vec(any::<prop::sample::Index>(), 1..20)
    ) {
        let mut table = Table::new(Form::Plain);
        lay_out(&mut table, form);
        for id in &ids {
            insert(&mut table, Row { id: *id, words: [*id, 7], limit: 3, place: 0 });
        }
        let [lower, tag, higher] =
            [2, 3, 4].map(|tag| NonZeroU8::new(tag).expect("it is not zero"));
        for id in ids {
            for start in &starts {
                let start = u32::try_from(start.index(2 * table.slots.len())).expect("it is small");
                let found = table.known(Tagged::new(id, tag), start);
                prop_assert!(found.is_none_or(|words| *words == [id, 7]));
                prop_assert!(table.known(Tagged::new(id, lower), start).is_none());
                prop_assert!(table.known(Tagged::new(id, higher), start).is_none());
            }
            let (index, home) = (table.find(id).expect("it is there"), table.home(id));
            let is_near = index < home + FAR && index / PAGE_SLOTS == (home + NEAR) / PAGE_SLOTS;
            let found = table.known(Tagged::new(id, tag), u32::try_from(home).expect("it is small"));
            prop_assert!(found.is_some() || !is_near, "{index} from {home}");
        }
    }
}

/// A table of `keys` that are spread evenly, but for as many more at the very end.
fn table(form: Form, keys: u64, at_the_end: u64) -> Table {
    let mut table = Table::new(Form::Plain);
    lay_out(&mut table, form);
    let spread = (0..keys).map(|key| (key + 1) * (u64::MAX / (keys + 2)));
    let crowded = (1..=at_the_end).map(|key| u64::MAX - (key << 8));
    for id in spread.chain(crowded).map(|id| id & !TAG) {
        insert(&mut table, Row { id, words: [id, 1], limit: 1, place: 0 });
    }
    table
}

#[test]
fn a_table_in_pages_holds_the_rows_of_one_in_one_piece() {
    for (keys, at_the_end) in [(0, 0), (1, 0), (380, 0), (5000, 0), (3000, 900)] {
        let [plain, paged] = [Form::Plain, Form::Paged].map(|form| table(form, keys, at_the_end));
        assert_eq!((plain.slots.form(), paged.slots.form()), (Form::Plain, Form::Paged));
        let ids = |table: &Table| rows(table).iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(ids(&plain), ids(&paged));
        assert!(rows(&paged).iter().all(|row| paged.find(row.id).is_ok()));
    }
}

#[test]
fn a_run_goes_on_from_one_page_to_the_next() {
    let mut table = Table::new(Form::Plain).laid_out_as(Form::Paged, &[], 600);
    let last_of_page = (511_u128 << 64).div_ceil(u128::from(table.homes));
    let last_of_page = u64::try_from(last_of_page).expect("homes are below 2^64");
    let ids: Vec<u64> = (1..40).map(|key| (last_of_page & !TAG) + (key << 8)).collect();
    for &id in ids.iter().rev() {
        insert(&mut table, Row { id, words: [id, 1], limit: 1, place: 0 });
    }
    let found: Vec<_> = ids.iter().map(|id| table.find(*id)).collect();
    assert_eq!(found, (511..550).map(Ok).collect::<Vec<_>>());
    for id in ids {
        let at = table.find(id).expect("it was inserted");
        assert_eq!(table.remove(at).id, id);
    }
    assert_eq!(table.len(), 0);
}

/// How many rows are laid out anew while so many keys are added, each of which is worthless once
/// `lasts` others came after it.
fn moved(keys: u64, lasts: u64) -> usize {
    let (mut table, mut moved) = (Table::new(Form::Plain), 0);
    for number in 1..=keys {
        if table.is_full() {
            let live = rows(&table).into_iter().filter(|row| row.words[0] + lasts > number);
            let live: Vec<_> = live.collect();
            moved += live.len();
            table = table.laid_out(&live, Shrink::Slowly);
        }
        let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !TAG;
        insert(&mut table, Row { id, words: [number, 0], limit: 1, place: 0 });
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
