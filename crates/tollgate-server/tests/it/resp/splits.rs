//! However the bytes are cut, the answers are the same.

use proptest::prelude::*;
use tollgate_server::RespSession;

use super::support::session;

/// Feeds `pieces` as a connection would, and gives all that was answered.
fn feed<'a>(session: &mut RespSession, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        loop {
            let mut answers = Vec::new();
            let used = session.answer(&kept, &mut answers);
            kept.drain(..used);
            if answers.is_empty() {
                break;
            }
            out.extend(answers);
        }
        if session.is_over() {
            break;
        }
    }
    out
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let array = b"*5\r\n$8\r\nTHROTTLE\r\n$1\r\nk\r\n:3\r\n:4\r\n$2\r\n60\r\n";
    let piece = prop_oneof![
        4 => Just(array.to_vec()),
        2 => Just(b"cl.throttle k 2 3 60\r\n".to_vec()),
        1 => Just(b"cl.throttle k 2 3 60 0\r\n".to_vec()),
        1 => Just(b"*4\r\n$8\r\nTG.CHECK\r\n$4\r\nuser\r\n$3\r\nana\r\n:1\r\n".to_vec()),
        1 => Just(b"tg.check cost 3 user ana\r\n".to_vec()),
        1 => Just(b"hello 3\r\n".to_vec()),
        2 => Just(b"multi\r\n".to_vec()),
        2 => Just(b"exec\r\n".to_vec()),
        1 => Just(b"discard\r\n".to_vec()),
        1 => Just(b"select 3\r\n".to_vec()),
        1 => Just(b"del k\r\n".to_vec()),
        1 => Just(b"nonsense\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..3),
        1 => (0..array.len()).prop_map(|cut| array[..cut].to_vec()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_split_gets_the_same_answers(bytes in stream(), sizes in prop::collection::vec(1_usize..40, 1..20)) {
        let whole = feed(&mut session().0, [bytes.as_slice()].into_iter());
        let by_byte = feed(&mut session().0, bytes.chunks(1));
        prop_assert_eq!(by_byte.escape_ascii().to_string(), whole.escape_ascii().to_string());
        let mut rest = bytes.as_slice();
        let mut sizes = sizes.iter().cycle();
        let pieces = std::iter::from_fn(|| {
            let (piece, later) = rest.split_at(rest.len().min(*sizes.next()?));
            rest = later;
            (!piece.is_empty()).then_some(piece)
        });
        let cut = feed(&mut session().0, pieces);
        prop_assert_eq!(cut.escape_ascii().to_string(), whole.escape_ascii().to_string());
    }
}
