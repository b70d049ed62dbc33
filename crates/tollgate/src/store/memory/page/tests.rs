use proptest::prelude::*;

use super::*;
use crate::store::memory::table::Row;

/// Fills a place with a number, and reads it back.
fn write(place: NonNull<Slots>, number: u8) {
    // SAFETY: the test holds the place.
    unsafe { place.cast::<u8>().write_bytes(number, size_of::<Slots>()) };
}

fn holds(place: NonNull<Slots>, number: u8) -> bool {
    let bytes = place.cast::<[u8; size_of::<Slots>()]>();
    // SAFETY: the test holds the place, and has written all of it.
    unsafe { bytes.as_ref() }.iter().all(|byte| *byte == number)
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    /// One of those that are out, by a share of 256.
    GiveBack(u8),
    GiveMostBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..100_usize).prop_map(Step::Take),
        4 => any::<u8>().prop_map(Step::GiveBack),
        1 => Just(Step::GiveMostBack),
    ]
}

fn is_consistent(pool: &Pool, out: usize) -> bool {
    let free: usize = pool.blocks.values().map(|block| block.free.len()).sum();
    free + out == pool.blocks.len() * PLACES
        && pool.blocks.values().all(|block| block.free.len() < PLACES)
        && pool.blocks.iter().all(|(at, block)| {
            at.is_multiple_of(BLOCK.size()) && pool.with_room.contains(at) != block.free.is_empty()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 32 }))]

    #[test]
    fn a_pool_hands_out_no_byte_twice_and_keeps_no_empty_block(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut pool = Pool::new();
        let mut out: Vec<(NonNull<Slots>, u8)> = Vec::new();
        for (number, step) in (0_u8..).zip(steps) {
            let given = match step {
                Step::Take(places) => {
                    for _ in 0..places {
                        let place = pool.take();
                        prop_assert!(place.is_aligned());
                        write(place, number);
                        out.push((place, number));
                    }
                    Vec::new()
                }
                Step::GiveBack(_) if out.is_empty() => Vec::new(),
                Step::GiveBack(share) => {
                    vec![out.swap_remove(out.len() * usize::from(share) / 256)]
                }
                Step::GiveMostBack => out.split_off(out.len() / 8),
            };
            for (place, number) in given {
                prop_assert!(holds(place, number), "somebody else wrote to it");
                pool.give_back(place);
            }
            prop_assert!(is_consistent(&pool, out.len()));
        }
        for (place, number) in out {
            prop_assert!(holds(place, number), "somebody else wrote to it");
            pool.give_back(place);
        }
        prop_assert!(pool.blocks.is_empty() && pool.with_room.is_empty());
    }
}

#[test]
fn what_was_given_back_is_handed_out_before_a_block_is_added() {
    let mut pool = Pool::new();
    let mut places: Vec<_> = (0..2 * PLACES).map(|_| pool.take()).collect();
    assert_eq!(pool.blocks.len(), 2);
    for place in places.drain(PLACES / 2..PLACES) {
        pool.give_back(place);
    }
    places.extend((PLACES / 2..PLACES).map(|_| pool.take()));
    assert_eq!(pool.blocks.len(), 2);
    places.into_iter().for_each(|place| pool.give_back(place));
}

#[test]
fn pages_are_new_though_their_place_was_used() {
    for _ in 0..3 {
        let mut pages: Vec<Page> = (0..PLACES).map(|_| Page::new()).collect();
        for page in &mut pages {
            assert!(page.iter().all(Slot::is_free));
            page.fill(Slot::new(&Row { id: 1 << 8, words: [7; 2], limit: 1, place: 0 }));
        }
    }
}
