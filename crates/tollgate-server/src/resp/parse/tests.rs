use proptest::prelude::*;

use super::*;

/// What is read alone.
fn parse(bytes: &[u8]) -> Result<Parsed, ProtocolError> {
    super::parse(bytes, &mut Arguments::new())
}

fn command(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let mut arguments = Arguments::new();
    match super::parse(bytes, &mut arguments) {
        Ok(Parsed::Command(length)) => (arguments.to_vec(), length),
        other => panic!("{:?}: {other:?}", bytes.escape_ascii().to_string()),
    }
}

#[test]
fn arrays_and_lines_are_commands() {
    let (arguments, length) = command(b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n*1\r\n");
    assert_eq!((arguments, length), (vec![b"ECHO".as_slice(), b"a\r\nb"], 24));
    assert_eq!(command(b"*2\r\n$1\r\nx\r\n:-42\r\n").0, [b"x".as_slice(), b"-42"]);
    assert_eq!(command(b"*1\r\n$0\r\n\r\n").0, [b""]);
    assert_eq!(command(b"*0\r\n").0, [b""; 0]);
    assert_eq!(command(b"*-1\r\n").0, [b""; 0]);
    assert_eq!(command(b"  ping  a \r\nx"), (vec![b"ping".as_slice(), b"a"], 12));
    assert_eq!(command(b"echo \"a b\" ''\n").0, [b"echo".as_slice(), b"a b", b""]);
    assert_eq!(command(b"\r\n").0, [b""; 0]);
}

#[test]
fn what_cannot_be_trusted_is_refused() {
    for (bytes, error) in [
        (b"*1025\r\n".as_slice(), ProtocolError::ArrayLength),
        (b"*x\r\n", ProtocolError::ArrayLength),
        (b"*\r\n", ProtocolError::ArrayLength),
        (b"*99999999999999999999\r\n", ProtocolError::ArrayLength),
        (b"*999999999999999999999", ProtocolError::Number),
        (b"*1\r\n$-1\r\n", ProtocolError::BulkLength),
        (b"*1\r\n$131073\r\n", ProtocolError::BulkLength),
        (b"*1\r\n$1e3\r\n", ProtocolError::BulkLength),
        (b"*1\r\n*1\r\n", ProtocolError::NotAnArgument(b'*')),
        (b"*1\r\n\0", ProtocolError::NotAnArgument(0)),
        (b"*1\r\n:NaN\r\n", ProtocolError::Number),
        (b"*1\r\n:9223372036854775808\r\n", ProtocolError::Number),
        (b"*1\rx", ProtocolError::NoLineEnd),
        (b"*1\r\n$1\r\nabc", ProtocolError::NoLineEnd),
        (b"echo \"a\n", ProtocolError::Quotes),
        (b"echo \"a\"b\n", ProtocolError::Quotes),
        (b"echo \"\\x00\"\n", ProtocolError::Escape),
        (b"POST / HTTP/1.1\r\n", ProtocolError::Http),
        (b"Host: localhost\r\n", ProtocolError::Http),
    ] {
        assert_eq!(parse(bytes), Err(error), "{}", bytes.escape_ascii());
    }
    assert_eq!(parse(&[b'a'; 8192]), Err(ProtocolError::InlineTooLong));
    assert_eq!(parse(&[b'a'; 8191]), Ok(Parsed::Incomplete(8192)));
}

#[test]
fn a_command_longer_than_the_bound_is_refused_before_it_is_read() {
    let mut bytes = b"*3\r\n".to_vec();
    for _ in 0..2 {
        bytes.extend_from_slice(b"$131000\r\n");
        bytes.extend_from_slice(&[b'x'; 131_000]);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"$1000\r\n");
    assert_eq!(parse(&bytes), Err(ProtocolError::TooLong));
}

#[test]
fn a_long_argument_is_not_read_again_before_it_is_there() {
    assert_eq!(parse(b"*2\r\n$4\r\nECHO\r\n$1000\r\nab"), Ok(Parsed::Incomplete(1023)));
    assert_eq!(parse(b"*1\r\n$1\r\nab"), Ok(Parsed::Incomplete(11)));
}

#[test]
fn numbers_are_whole_and_of_64_bits() {
    assert_eq!(number(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(number(b"9223372036854775807"), Some(i64::MAX));
    for text in [b"".as_slice(), b"-", b"+1", b"1.0", b"1e3", b"NaN", b" 1", b"0x1", b"\xff"] {
        assert_eq!(number(text), None, "{}", text.escape_ascii());
    }
    assert_eq!(number(b"9223372036854775808"), None);
    assert_eq!(number(&[b'0'; 64]), None);
}

/// All commands at the front of `bytes`, and how it ends.
fn all(mut bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize) {
    let (mut commands, mut arguments) = (Vec::new(), Arguments::new());
    loop {
        match super::parse(bytes, &mut arguments) {
            Ok(Parsed::Command(length)) => {
                commands.push(arguments.iter().map(|word| word.to_vec()).collect());
                bytes = &bytes[length..];
            }
            Ok(Parsed::Incomplete(needed)) => {
                assert!(needed > bytes.len(), "it asks for what it has");
                return (commands, None, bytes.len());
            }
            Err(error) => return (commands, Some(error), bytes.len()),
        }
    }
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n".to_vec()),
        Just(b"*3\r\n$1\r\nx\r\n:12\r\n$0\r\n\r\n".to_vec()),
        Just(b"ping 'a b'\r\n".to_vec()),
        Just(b"*0\r\n".to_vec()),
        "[*$:\r\n0-9a-z'\"-]{0,6}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn more_bytes_never_change_what_was_read(bytes in stream(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len() + 1);
        let (early, error, left) = all(&bytes[..cut]);
        let (late, late_error, _) = all(&bytes);
        prop_assert_eq!(&late[..early.len()], &early[..]);
        if error.is_some() {
            prop_assert_eq!(late, early);
            prop_assert_eq!(error, late_error);
        } else {
            let (rest, rest_error, _) = all(&bytes[cut - left..]);
            prop_assert_eq!(&late[early.len()..], &rest[..]);
            prop_assert_eq!(late_error, rest_error);
        }
    }

    #[test]
    fn what_is_asked_for_is_needed(bytes in stream()) {
        let mut arguments = Arguments::new();
        if let Ok(Parsed::Command(length)) = super::parse(&bytes, &mut arguments) {
            for short in 0..length {
                match parse(&bytes[..short]) {
                    Ok(Parsed::Incomplete(needed)) => prop_assert!(needed <= length),
                    other => prop_assert!(false, "{} of {length}: {other:?}", short),
                }
            }
            prop_assert!(arguments.len() <= MAX_ARGUMENTS);
        }
    }
}
