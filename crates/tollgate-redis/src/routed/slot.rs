//! Which of a Cluster's 16384 slots a key lies in, and which key a command is about.

use redis::{Arg, Cmd};

/// How many slots there are.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of `key`: what stands between its first braces is hashed, or all of it if nothing does.
pub(crate) fn slot(key: &[u8]) -> usize {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    usize::from(crc16(tag.unwrap_or(key))) % SLOTS
}

/// CRC-16/XMODEM, as the Cluster's specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    let add = |crc: u16, byte: &u8| (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| step(crc));
    bytes.iter().fold(0, add)
}

/// The slot that a command is about; `None` where any node can answer.
pub(crate) fn of_command(command: &Cmd) -> Option<usize> {
    let argument = |number: usize| match command.args_iter().nth(number)? {
        Arg::Simple(bytes) => Some(bytes),
        _ => None,
    };
    let key = match argument(0)? {
        b"INFO" | b"PING" | b"SCAN" | b"TIME" | b"SCRIPT" | b"CLUSTER" | b"PUBLISH" => None,
        b"EVAL" | b"EVALSHA" => argument(3),
        _ => argument(1),
    };
    key.map(slot)
}

#[cfg(test)]
mod tests {
    use redis::cmd;

    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), usize::from(crc16(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }

    #[test]
    fn commands_go_where_their_key_is() {
        let mut script = cmd("EVALSHA");
        script.arg("hash").arg(2).arg("a").arg("b");
        assert_eq!(of_command(&script), Some(slot(b"a")));
        assert_eq!(of_command(cmd("TYPE").arg("a")), Some(slot(b"a")));
        assert_eq!(of_command(cmd("SCAN").arg("0")), None);
    }
}
