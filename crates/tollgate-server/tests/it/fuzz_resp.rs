//! Any bytes on the Redis protocol's port: however they are cut, the answers are the same, and
//! every answer is a frame.

use tollgate::{Gate, Limit, ManualClock, MemoryStore, Policy, Rule};
use tollgate_server::{Resp, RespSession};
use tollgate_testkit::FuzzInput;

/// No answer to bytes this few is longer, the text of INFO and all commands' names included.
const LONGEST_ANSWER_PER_BYTE: usize = 512;

fn session() -> RespSession {
    let store = MemoryStore::builder().clock(ManualClock::new()).max_keys(64).build();
    let policy = Policy::new()
        .rule(Rule::new("user").key(["user"]).limit(Limit::per_minute(3)))
        .rule(Rule::new("all").limit(Limit::per_minute(100)));
    let gate =
        Gate::with_store(store.expect("the bound is valid"), policy).expect("the policy is valid");
    Resp::new(gate).session()
}

/// Feeds pieces of the bytes as a connection would, `size` says how long each is.
fn feed(mut rest: &[u8], mut size: impl FnMut() -> usize) -> Vec<u8> {
    let mut session = session();
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    while !rest.is_empty() && !session.is_over() {
        let (piece, later) = rest.split_at(size().clamp(1, rest.len()));
        rest = later;
        kept.extend_from_slice(piece);
        loop {
            let before = out.len();
            let mut answers = Vec::new();
            let used = session.answer(&kept, &mut answers);
            assert!(used <= kept.len(), "it used what it was not given");
            kept.drain(..used);
            out.append(&mut answers);
            if out.len() == before {
                break;
            }
        }
    }
    out
}

/// Passes over one reply, and gives what follows it.
fn reply(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
    let (line, rest) = (&bytes[1..end], &bytes[end + 2..]);
    let count = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'+' | b'-' | b'_' => rest,
        b':' => count().map(|_| rest).expect("an integer"),
        b'$' => match usize::try_from(count().expect("a length")) {
            Ok(length) => rest[length..].strip_prefix(b"\r\n").expect("a bulk string ends"),
            Err(_) => rest,
        },
        b'*' => (0..count().expect("a length")).fold(rest, |rest, _| reply(rest)),
        b'%' => (0..2 * count().expect("a length")).fold(rest, |rest, _| reply(rest)),
        other => panic!("no reply begins with {other}"),
    }
}

/// Reads how to cut from the first bytes, and answers the rest.
pub(crate) fn resp(data: &[u8]) {
    let (cuts, bytes) = data.split_at(data.len().min(4));
    let whole = feed(bytes, || usize::MAX);
    let mut input = FuzzInput::new(cuts);
    let cut = feed(bytes, || usize::from(input.u8() % 16));
    assert_eq!(cut.escape_ascii().to_string(), whole.escape_ascii().to_string());
    assert!(whole.len() <= (bytes.len() + 8) * LONGEST_ANSWER_PER_BYTE, "{}", whole.len());
    let mut rest = whole.as_slice();
    while !rest.is_empty() {
        rest = reply(rest);
    }
}

#[test]
fn any_split_of_the_input_gives_the_same_replies() {
    tollgate_testkit::fuzz("resp", 40_000, resp);
}
