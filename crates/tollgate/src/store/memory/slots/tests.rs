use std::time::Duration;

use super::*;
use crate::store::memory::table::Row;
use crate::{Limit, Limiter};

/// How many tables of a limiter's store are in pages, and how many are not.
fn forms(limiter: &Limiter) -> (usize, usize) {
    let tables = limiter.memory().shards().lock_each();
    let paged = tables.filter(|shard| shard.table.extent().0.form() == Form::Paged).count();
    (paged, limiter.memory().shards().len() - paged)
}

fn limiter(max_keys: usize) -> Limiter {
    let limit = Limit::token_bucket(1, Duration::from_secs(3600)).burst(3);
    let builder = Limiter::builder(limit).max_keys(max_keys).without_names();
    builder.build().expect("the limit is possible")
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_of_many_keys_moves_into_pages_and_loses_none() {
    let keys = 450_000_u64;
    let limiter = limiter(500_000);
    for key in 0..keys {
        assert!(limiter.check(key).is_allowed());
    }
    let (paged, plain) = forms(&limiter);
    assert!(paged > plain, "{paged} tables in pages and {plain} not");
    assert_eq!(limiter.len() as u64, keys);
    for key in (0..keys).step_by(7) {
        assert_eq!(limiter.peek(key).remaining(), 2, "of key {key}");
    }
    let per_key = limiter.memory_usage() as u64 / keys;
    assert!(per_key < 40, "{per_key} bytes a key");
}

#[test]
fn a_store_of_few_keys_is_in_one_piece_whatever_it_has_room_for() {
    let limiter = limiter(10_000_000);
    for key in 0..1000_u64 {
        assert!(limiter.check(key).is_allowed());
    }
    assert_eq!(forms(&limiter).0, 0);
}

#[test]
fn slots_that_change_their_form_are_free() {
    let mut slots = Slots::default();
    for (number, form) in
        [Form::Paged, Form::Paged, Form::Plain, Form::Paged].into_iter().enumerate()
    {
        let row = Row { id: 1 << 8, words: [7; 2], limit: 1, place: 0 };
        slots = slots.cleared(900 + 600 * number, form);
        assert_eq!(slots.form(), form);
        assert!(slots.len() >= 900 + 600 * number && slots.get(slots.len()).is_none());
        assert!((0..slots.len()).all(|index| slots[index].is_free()));
        (0..slots.len()).for_each(|index| slots[index] = Slot::new(&row));
    }
}
