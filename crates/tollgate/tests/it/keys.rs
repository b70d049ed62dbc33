//! Keys: equal values are one key, different values never are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate::{Key, KeyName, KeyPart, Limit, Limiter, ManualClock};
use tollgate_testkit::cases;

fn limiter() -> Limiter {
    Limiter::builder(Limit::per_hour(1000))
        .max_keys(1000)
        .build()
        .expect("the test's limit is valid")
}

/// How many units the limiter has counted for `key` once this one is, too.
fn counted(limiter: &Limiter, key: impl Key) -> u64 {
    let _ = limiter.check(&key);
    limiter.status(&key).used()
}

#[test]
fn equal_texts_are_one_key_whatever_their_type() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, "ana"), 1);
    assert_eq!(counted(&limiter, String::from("ana")), 2);
    let lent: &str = &String::from("ana");
    assert_eq!(counted(&limiter, lent), 3);
    assert_eq!(counted(&limiter, *b"ana"), 4);
    assert_eq!(counted(&limiter, b"ana".as_slice()), 5);
    assert_eq!(counted(&limiter, b"ana".to_vec()), 6);
    assert_eq!(counted(&limiter, Cow::Borrowed("ana")), 7);
    assert_eq!(counted(&limiter, Box::<str>::from("ana")), 8);
    assert_eq!(counted(&limiter, Arc::<str>::from("ana")), 9);
    assert_eq!(counted(&limiter, &["ana"][..]), 10);
    assert_eq!(counted(&limiter, Rc::<str>::from("ana")), 11);
    assert_eq!(counted(&limiter, Arc::new(String::from("ana"))), 12);
    assert_eq!(counted(&limiter, Cow::Borrowed(b"ana".as_slice())), 13);
    assert_eq!(counted(&limiter, Box::<[u8]>::from(*b"ana")), 14);
    assert_eq!(counted(&limiter, Arc::<[u8]>::from(*b"ana")), 15);
    assert_eq!(counted(&limiter, ("ana",)), 16);
    assert_eq!(counted(&limiter, ["ana"]), 17);
    assert_eq!(counted(&limiter, [String::from("ana")]), 18);
    assert_eq!(counted(&limiter, vec![("ana",)]), 19);
    assert_eq!(counted(&limiter, KeyName::new("ana")), 20);
}

#[test]
fn equal_numbers_are_one_key_whatever_their_type() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, 7_u8), 1);
    assert_eq!(counted(&limiter, 7_u16), 2);
    assert_eq!(counted(&limiter, 7_u32), 3);
    assert_eq!(counted(&limiter, 7_u64), 4);
    assert_eq!(counted(&limiter, 7_u128), 5);
    assert_eq!(counted(&limiter, 7_usize), 6);
    assert_eq!(counted(&limiter, 7_i8), 7);
    assert_eq!(counted(&limiter, 7_i64), 8);
    assert_eq!(counted(&limiter, 7_i128), 9);
    assert_eq!(counted(&limiter, 7_isize), 10);
    assert_eq!(counted(&limiter, NonZero::new(7_u8).unwrap()), 11);
    assert_eq!(counted(&limiter, NonZero::new(7_i128).unwrap()), 12);
    assert_eq!(counted(&limiter, NonZero::new(7_u128).unwrap()), 13);
    assert_eq!(counted(&limiter, Box::new(7)), 14);
    assert_eq!(counted(&limiter, [7_u64]), 15);
}

#[test]
fn a_list_is_one_key_however_it_is_nested() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, ("a", "b", "c")), 1);
    assert_eq!(counted(&limiter, (("a", "b"), "c")), 2);
    assert_eq!(counted(&limiter, ("a", ("b", "c"))), 3);
    assert_eq!(counted(&limiter, &["a", "b", "c"][..]), 4);
    assert_eq!(counted(&limiter, ["a", "b", "c"]), 5);
    assert_eq!(counted(&limiter, vec!["a", "b", "c"]), 6);
    assert_eq!(counted(&limiter, ["a", "b", "c"].map(String::from)), 7);
    assert_eq!(counted(&limiter, (["a", "b"], ("c",))), 8);
    assert_eq!(counted(&limiter, (KeyName::new("a"), ["b", "c"])), 9);
    assert_eq!(counted(&limiter, [1_u64, 2]), 1);
    assert_eq!(counted(&limiter, (1, 2)), 2);
    assert_eq!(counted(&limiter, [1_u8, 2]), 1, "bytes are no list of numbers");
}

#[test]
fn a_slice_inside_a_key_is_told_from_its_neighbours() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, (vec!["a"], vec!["b", "c"])), 1);
    assert_eq!(counted(&limiter, (vec!["a", "b"], vec!["c"])), 1);
    assert_eq!(counted(&limiter, (&["a", "b"][..], Box::<[&str]>::from(["c"]))), 2);
    assert_eq!(counted(&limiter, ("a", "b", "c")), 1);
    assert_eq!(counted(&limiter, (2, "a", "b", 1, "c")), 1);
    assert_eq!(counted(&limiter, (KeyName::new(&("a", "b")), KeyName::new("c"))), 1);
    assert_eq!(counted(&limiter, (KeyName::new("a"), KeyName::new(&("b", "c")))), 1);
}

#[test]
fn the_name_of_a_list_in_a_list_shows_its_length_and_is_the_key_again() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, (vec!["a", "b"], "c")), 1);
    let (name, _) = limiter.keys().next().unwrap();
    assert_eq!(name.to_string(), "([2], a, b, c)");
    assert_eq!(counted(&limiter, &name), 2);
}

#[test]
fn a_type_of_somebody_s_own_is_the_key_that_its_parts_are() {
    struct Tenant(&'static str, u32);
    impl Key for Tenant {
        fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
            (self.0, self.1).parts(part);
        }
    }
    let limiter = limiter();
    assert_eq!(counted(&limiter, ("acme", 7)), 1);
    assert_eq!(counted(&limiter, Tenant("acme", 7)), 2);
}

#[test]
fn values_of_different_kinds_are_different_keys() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, 42), 1);
    assert_eq!(counted(&limiter, "42"), 1);
    assert_eq!(counted(&limiter, -42), 1);
    assert_eq!(counted(&limiter, 0), 1);
    assert_eq!(counted(&limiter, -1), 1);
    assert_eq!(counted(&limiter, ""), 1);
    assert_eq!(counted(&limiter, ("", "")), 1);
    assert_eq!(counted(&limiter, i128::MAX), 1);
    assert_eq!(counted(&limiter, i128::MIN), 1);
    assert_eq!(counted(&limiter, u128::MAX), 1);
    assert_eq!(counted(&limiter, u128::MAX - 1), 1);
    assert_eq!(counted(&limiter, Ipv4Addr::LOCALHOST), 1);
    assert_eq!(counted(&limiter, IpAddr::V4(Ipv4Addr::LOCALHOST)), 2);
    assert_eq!(counted(&limiter, Ipv4Addr::LOCALHOST.to_ipv6_mapped()), 1);
    assert_eq!(counted(&limiter, Ipv4Addr::LOCALHOST.octets()), 1);
    assert_eq!(counted(&limiter, Ipv6Addr::LOCALHOST), 1);
    assert_eq!(counted(&limiter, "127.0.0.1"), 1);
}

#[test]
fn limiter_without_keys_counts_the_unit() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, ()), 1);
    assert_eq!(counted(&limiter, ""), 1);
    assert_eq!(counted(&limiter, ((),)), 2);
    assert_eq!(counted(&limiter, ((), ())), 1);
    assert_eq!(counted(&limiter, None::<&str>), 3);
}

#[test]
fn truth_values_characters_options_and_socket_addresses_are_keys() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, true), 1);
    assert_eq!(counted(&limiter, false), 1);
    assert_eq!(counted(&limiter, 1), 1);
    assert_eq!(counted(&limiter, 0), 1);
    assert_eq!(counted(&limiter, 'a'), 1);
    assert_eq!(counted(&limiter, "a"), 2);
    assert_eq!(counted(&limiter, ['a', 'b']), 1);
    assert_eq!(counted(&limiter, "ab"), 1);
    assert_eq!(counted(&limiter, Some("a")), 3);
    assert_eq!(counted(&limiter, (Some("a"), 1)), 1);
    assert_eq!(counted(&limiter, (None::<&str>, 1)), 1);
    let [v4, v6]: [SocketAddr; 2] =
        ["192.0.2.1:80", "[2001:db8::1]:80"].map(|text| text.parse().unwrap());
    assert_eq!(counted(&limiter, v4), 1);
    assert_eq!(counted(&limiter, (v4.ip(), 80)), 2);
    assert_eq!(counted(&limiter, v6), 1);
    assert_eq!(counted(&limiter, (v6.ip(), 80, 0, 0)), 2);
    let names: BTreeSet<String> = limiter.keys().map(|(name, _)| name.to_string()).collect();
    assert!(names.contains("true") && names.contains("(192.0.2.1, 80)"), "{names:?}");
}

/// Whether two values of one type are encoded alike exactly if they are equal, alone and inside
/// other keys.
fn encoded_alike_if_equal<T: Key + PartialEq + std::fmt::Debug>(a: &T, b: &T) {
    let limiter = limiter();
    let is_equal = a == b;
    assert_eq!(KeyName::new(a) == KeyName::new(b), is_equal, "{a:?} and {b:?}");
    let pairs = [KeyName::new(&(a, b)), KeyName::new(&(b, a))];
    assert_eq!(pairs[0] == pairs[1], is_equal, "{a:?} and {b:?}");
    let lists = [KeyName::new(&vec![a, b, b]), KeyName::new(&vec![a, a, b])];
    assert_eq!(lists[0] == lists[1], is_equal, "{a:?} and {b:?}");
    let _ = limiter.check(a);
    assert_eq!(limiter.status(b).used(), u64::from(is_equal), "{a:?} and {b:?}");
    // A name is the key again.
    assert_eq!(limiter.status(KeyName::new(a)).used(), 1, "{a:?}");
}

type Texts = Vec<Option<String>>;

fn texts() -> impl Strategy<Value = Texts> {
    prop::collection::vec(prop::option::of("[ab]{0,2}"), 0..3)
}

proptest! {
    #[test]
    fn different_keys_of_one_type_are_never_encoded_alike(
        truths: [bool; 2], characters: [char; 2],
        sockets: [SocketAddr; 2], ports: [u16; 2],
        options in [prop::option::of(prop::option::of(0..2_u8)), prop::option::of(prop::option::of(0..2_u8))],
        units in [prop::option::of(Just(())), prop::option::of(Just(()))],
        many_units in [prop::collection::vec(Just(()), 0..3), prop::collection::vec(Just(()), 0..3)],
        lists in [prop::option::of(texts()), prop::option::of(texts())],
        tuples in [(texts(), any::<bool>(), texts()), (texts(), any::<bool>(), texts())],
        scopes in [(0..2_u32, 0..2_u32), (0..2_u32, 0..2_u32)],
    ) {
        encoded_alike_if_equal(&truths[0], &truths[1]);
        encoded_alike_if_equal(&characters[0], &characters[1]);
        encoded_alike_if_equal(&sockets[0], &sockets[1]);
        let mut same = sockets[0];
        same.set_port(ports[0]);
        encoded_alike_if_equal(&sockets[0], &same);
        let of_scope = |(scope, flow)| {
            SocketAddr::from(std::net::SocketAddrV6::new(Ipv6Addr::LOCALHOST, ports[1], flow, scope))
        };
        encoded_alike_if_equal(&of_scope(scopes[0]), &of_scope(scopes[1]));
        encoded_alike_if_equal(&options[0], &options[1]);
        encoded_alike_if_equal(&units[0], &units[1]);
        encoded_alike_if_equal(&many_units[0], &many_units[1]);
        encoded_alike_if_equal(&lists[0], &lists[1]);
        encoded_alike_if_equal(&tuples[0], &tuples[1]);
    }
}

#[test]
fn no_list_is_the_number_beyond_all_others() {
    let limiter = limiter();
    assert_eq!(counted(&limiter, u128::MAX), 1);
    assert_eq!(counted(&limiter, (u128::MAX.to_le_bytes(), "u128")), 1);
}

#[test]
fn a_key_of_64_kib_is_counted_by_its_last_byte() {
    let limiter = limiter();
    let mut key = vec![b'x'; 64 * 1024];
    assert_eq!(counted(&limiter, &key), 1);
    assert_eq!(counted(&limiter, &key), 2);
    *key.last_mut().unwrap() = b'y';
    assert_eq!(counted(&limiter, &key), 1);
    assert_eq!(counted(&limiter, (key.as_slice(), 1)), 1);
    assert_eq!(counted(&limiter, (key.as_slice(), 2)), 1);
    assert_eq!(counted(&limiter, (key.as_slice(), 2)), 2);
}

#[test]
fn keys_of_every_length_around_the_short_ones_are_told_apart() {
    let limiter = limiter();
    for length in 0..300 {
        assert_eq!(counted(&limiter, "x".repeat(length)), 1, "{length}");
        assert_eq!(counted(&limiter, ("x".repeat(length), 1)), 1, "{length}");
    }
}

#[test]
fn one_key_of_two_limiters_is_two_keys() {
    let store = tollgate::MemoryStore::builder().build().unwrap();
    let first = store.limiter("first", Limit::per_hour(10)).unwrap();
    let second = store.limiter("second", Limit::per_hour(10)).unwrap();
    assert_eq!((counted(&first, "ana"), counted(&second, "ana")), (1, 1));
}

#[test]
fn a_list_names_every_key_that_is_not_as_good_as_new() {
    let limiter = limiter();
    for key in ["ana", "ben"] {
        assert!(limiter.check(key).is_allowed());
    }
    assert!(limiter.check(("acme", 42, Ipv4Addr::LOCALHOST)).is_allowed());
    assert!(limiter.peek("eve").is_allowed());
    let names: BTreeSet<String> = limiter.keys().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["(acme, 42, 127.0.0.1)", "ana", "ben"].map(String::from).into());
}

#[test]
fn a_name_shows_what_cannot_be_printed_escaped() {
    assert_eq!(KeyName::new("a\nb").to_string(), "a\\nb");
    assert_eq!(KeyName::new(&b"\xff".as_slice()).to_string(), "\u{fffd}");
    assert_eq!(KeyName::new("").to_string(), "");
}

#[test]
fn the_name_of_a_long_key_shows_that_it_was_cut() {
    for length in 240..520 {
        let whole = "x".repeat(length);
        let name = KeyName::new(&whole).to_string();
        // Of 264 bytes that are kept, two are the length of the key.
        assert_eq!(name == whole, length <= 262, "{length}: {name:?}");
        assert_eq!(name.ends_with('…'), length > 262, "{length}: {name:?}");
    }
}

#[test]
fn the_name_of_a_long_list_shows_that_it_was_cut() {
    for length in 240..300 {
        let whole = format!("({}, yz)", "x".repeat(length));
        let name = KeyName::new(&("x".repeat(length), "yz")).to_string();
        // The second part and both lengths take five bytes.
        assert_eq!(name == whole, length <= 259, "{length}: {name:?}");
        assert_eq!(name.contains('…'), length > 259, "{length}: {name:?}");
    }
}

#[test]
fn the_name_of_a_key_of_256_bytes_is_the_key_again() {
    let limiter = limiter();
    let key = "x".repeat(256);
    assert!(limiter.check(&key).is_allowed());
    let (name, _) = limiter.keys().next().unwrap();
    assert_eq!(limiter.status(&name).used(), 1, "the documentation says up to 256 bytes");
}

#[test]
fn without_names_every_name_is_empty() {
    let limiter = Limiter::builder(Limit::per_hour(9)).discard_key_names().build().unwrap();
    assert!(limiter.check("ana").is_allowed());
    let (name, status) = limiter.keys().next().unwrap();
    assert_eq!((name, status.used()), (KeyName::default(), 1));
}

/// A part of a key, owned.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Bytes(Vec<u8>),
    Number(i128),
    Ip(IpAddr),
}

#[derive(Clone, Debug, PartialEq)]
struct Pieces(Vec<Piece>);

impl Key for Pieces {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        for piece in &self.0 {
            match piece {
                Piece::Bytes(bytes) => part(KeyPart::Bytes(bytes)),
                Piece::Number(number) => part(KeyPart::Number(*number)),
                Piece::Ip(ip) => part(KeyPart::Ip(*ip)),
            }
        }
    }
}

/// Lists of few and small parts, so that two of them often nearly meet.
fn pieces() -> impl Strategy<Value = Pieces> {
    let bytes = prop_oneof![
        prop::collection::vec(0..8_u8, 0..4),
        prop::collection::vec(any::<u8>(), 0..200),
    ];
    let piece = prop_oneof![
        bytes.prop_map(Piece::Bytes),
        prop_oneof![-3..300_i128, any::<i128>()].prop_map(Piece::Number),
        prop_oneof![Just(IpAddr::from([0, 0, 0, 0])), any::<IpAddr>()].prop_map(Piece::Ip),
    ];
    prop::collection::vec(piece, 0..4).prop_map(Pieces)
}

type Lists = Vec<Vec<Vec<&'static str>>>;

/// So few and short that two of them often hold the same texts, cut elsewhere.
fn short_lists() -> impl Strategy<Value = Lists> {
    let texts = prop::collection::vec(Just("a"), 0..3);
    prop::collection::vec(prop::collection::vec(texts, 0..3), 0..3)
}

fn all_told_apart<K: Key + PartialEq>(
    limiter: &Limiter,
    [first, second]: &[K; 2],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(counted(limiter, first), 1);
    prop_assert_eq!(counted(limiter, second), 1 + u64::from(first == second));
    Ok(())
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn lists_are_one_key_exactly_if_they_are_equal(first in pieces(), second in pieces()) {
        let limiter = limiter();
        prop_assert_eq!(counted(&limiter, &first), 1);
        prop_assert_eq!(counted(&limiter, &second), 1 + u64::from(first == second));
    }

    #[test]
    fn lists_that_are_one_text_when_joined_are_still_different_keys(
        text in prop::collection::vec(0..9_u8, 1..12), cuts in any::<[[bool; 12]; 2]>()
    ) {
        let [first, second] = cuts.map(|cuts| cut(&text, &cuts));
        let limiter = limiter();
        prop_assert_eq!(counted(&limiter, &first), 1);
        prop_assert_eq!(counted(&limiter, &second), 1 + u64::from(first == second));
    }

    #[test]
    fn lists_of_lists_are_one_key_exactly_if_they_are_equal(
        first in short_lists(), second in short_lists(), ends in any::<[bool; 2]>()
    ) {
        let limiter = limiter();
        all_told_apart(&limiter, &[first.clone(), second.clone()])?;
        let ends = ends.map(|end| if end { "a" } else { "b" });
        limiter.reset_all();
        all_told_apart(&limiter, &[(&first, ends[0], &second), (&second, ends[1], &first)])?;
        limiter.reset_all();
        let bytes = |lists: &Lists| lists.concat().into_iter().map(|of| of.concat().into_bytes());
        let bytes = [&first, &second].map(|lists| bytes(lists).collect::<Vec<_>>());
        all_told_apart(&limiter, &bytes)?;
    }

    #[test]
    fn a_name_is_the_key_again(key in pieces()) {
        let limiter = limiter();
        prop_assert_eq!(counted(&limiter, &key), 1);
        let (name, _) = limiter.keys().next().unwrap();
        let whole = !name.to_string().contains('…');
        prop_assume!(whole && key.0.len() == name_parts(&name));
        prop_assert_eq!(counted(&limiter, &name), 2);
    }
}

/// The text as a list: cut at some of its bytes that could be taken for a separator or a length,
/// which are left out there.
fn cut(text: &[u8], cuts: &[bool]) -> Pieces {
    let mut pieces = vec![Vec::new()];
    for (byte, cut) in text.iter().zip(cuts) {
        match pieces.last_mut() {
            Some(last) if *byte % 4 != 0 || !cut => last.push(*byte),
            _ => pieces.push(Vec::new()),
        }
    }
    Pieces(pieces.into_iter().map(Piece::Bytes).collect())
}

fn name_parts(name: &KeyName) -> usize {
    let mut count = 0;
    name.parts(&mut |_| count += 1);
    count
}

#[test]
fn checking_each_is_checking_many() {
    let charges: Vec<(u32, u64)> = (0..100).map(|at| (at % 7, u64::from(at % 5))).collect();
    let limiters = [(); 2].map(|()| {
        let limiter = Limiter::builder(Limit::per_day(20)).clock(ManualClock::new());
        limiter.build().unwrap()
    });
    let mut each = Vec::new();
    limiters[0].for_each_decision(&charges, |decision| each.push(format!("{decision:?}")));
    let many = limiters[1].check_many_n(&charges);
    assert_eq!(each, many.iter().map(|decision| format!("{decision:?}")).collect::<Vec<_>>());
}
