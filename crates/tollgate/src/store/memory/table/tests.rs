use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Fingerprints that crowd the ends and single homes, beside ordinary ones.
fn id() -> impl Strategy<Value = u64> {
    let crowded = prop_oneof![
        1..40_u64,
        (u64::MAX >> 8) - 40..=u64::MAX >> 8,
        (0..8_u64).prop_map(|home| (home << 53) + 1),
        1..=u64::MAX >> 8,
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
    /// Write words, in front.
    Front(u64, u64),
    LayOut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (id(), limit(), 0..3_u32).prop_map(|(id, limit, place)| Step::Insert(id, limit, place)),
        3 => id().prop_map(Step::Remove),
        1 => (id(), limit()).prop_map(|(id, limit)| Step::Replace(id, limit)),
        2 => (id(), 0..9_u64).prop_map(|(id, word)| Step::Front(id, word)),
        1 => Just(Step::LayOut),
    ]
}

fn rows(table: &Table) -> Vec<Row> {
    table.taken().map(|index| table.row(index)).collect()
}

fn lay_out(table: &mut Table) {
    let rows = rows(table);
    *table = std::mem::take(table).laid_out(&rows, Shrink::Slowly);
}

fn insert(table: &mut Table, row: Row) {
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
                Step::Front(id, word) => {
                    if let (Ok(index), Some(row)) = (table.find(id), model.get_mut(&id)) {
                        table.bring_to_front(index);
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
