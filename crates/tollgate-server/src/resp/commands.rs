//! The commands that the server knows, and how many words each takes: what is known of a command
//! before it is run.

use super::write::shown;

/// A command as it is written.
#[derive(Debug)]
pub(super) struct CommandForm {
    name: &'static str,
    /// The words after the name.
    usage: &'static str,
    words: WordCount,
    pub(super) in_transaction: InTransaction,
}

/// The numbers of words, with the name, that a command takes.
#[derive(Clone, Copy, Debug)]
enum WordCount {
    Exactly(usize),
    AtLeast(usize),
    Between(usize, usize),
    /// The name and pairs.
    Odd,
}

/// The treatment of a command between MULTI and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTransaction {
    /// It is queued.
    Queued,
    /// It is answered at once.
    Answered,
    /// It is rejected, and EXEC then runs nothing.
    Rejected,
}

use InTransaction::{Answered, Queued, Rejected};
use WordCount::{AtLeast, Between, Exactly, Odd};

const THROTTLE: &str = "key max_burst count period [quantity]";

/// In the order in which messages name them.
const COMMANDS: [CommandForm; 19] = [
    form("CL.THROTTLE", THROTTLE, Between(5, 6), Queued),
    form("THROTTLE", THROTTLE, Between(5, 6), Queued),
    form("TG.CHECK", "[COST n] attr value ...", Odd, Queued),
    form("TG.PEEK", "[COST n] attr value ...", Odd, Queued),
    form("TG.STATUS", "attr value ...", Odd, Queued),
    form("TG.RESET", "rule value ...", AtLeast(2), Queued),
    form("DEL", "key ...", AtLeast(2), Queued),
    form("MULTI", "", Exactly(1), Answered),
    form("EXEC", "", Exactly(1), Answered),
    form("DISCARD", "", Exactly(1), Answered),
    form("PING", "[message]", Between(1, 2), Queued),
    form("ECHO", "message", Exactly(2), Queued),
    form("HELLO", "[2|3 [AUTH user password] [SETNAME name]]", AtLeast(1), Rejected),
    form("AUTH", "[user] password", Between(2, 3), Rejected),
    form("SELECT", "n", Exactly(2), Queued),
    form("CLIENT", "SETNAME name | GETNAME | SETINFO attr value | ID", AtLeast(2), Queued),
    form("COMMAND", "...", AtLeast(1), Queued),
    form("INFO", "...", AtLeast(1), Queued),
    form("QUIT", "", AtLeast(1), Answered),
];

const fn form(
    name: &'static str,
    usage: &'static str,
    words: WordCount,
    in_transaction: InTransaction,
) -> CommandForm {
    CommandForm { name, usage, words, in_transaction }
}

impl CommandForm {
    /// Finds the form of a command and checks its number of words, or returns the error.
    pub(super) fn of(arguments: &[&[u8]]) -> Result<&'static CommandForm, String> {
        let name = arguments.first().copied().unwrap_or_default();
        let form = COMMANDS.iter().find(|form| name.eq_ignore_ascii_case(form.name.as_bytes()));
        let form = form.ok_or_else(|| unknown(name))?;
        let given = arguments.len();
        let is_right = match form.words {
            Exactly(words) => given == words,
            AtLeast(words) => given >= words,
            Between(least, most) => (least..=most).contains(&given),
            Odd => given % 2 == 1,
        };
        if is_right { Ok(form) } else { Err(form.wrong_number()) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn wrong_number(&self) -> String {
        let usage = format!("{} {}", self.name, self.usage);
        format!("ERR wrong number of arguments, must be {}", usage.trim_end())
    }
}

/// The error for a name that is no command's.
pub(super) fn unknown(name: &[u8]) -> String {
    let known = COMMANDS.map(|form| form.name).join(", ");
    format!("ERR unknown command {}, known are {known}", shown(name))
}

#[cfg(test)]
mod tests {
    use tollgate::{Gate, Policy};

    use super::*;
    use crate::resp::Resp;

    /// The answer of a session to a command with this number of words.
    fn answer(name: &str, words: usize) -> (Vec<String>, String) {
        let mut session = Resp::new(Gate::new(Policy::new()).unwrap()).session();
        let words: Vec<String> = [name.to_owned()]
            .into_iter()
            .chain((1..words).map(|word| format!("w{word}")))
            .collect();
        let mut out = Vec::new();
        session.answer(format!("{}\r\n", words.join(" ")).as_bytes(), &mut out);
        (words, String::from_utf8(out).unwrap())
    }

    #[test]
    fn number_of_words_is_wrong_in_a_transaction_exactly_if_it_is_wrong_outside() {
        for form in &COMMANDS {
            for words in 1..=9 {
                let (words, answer) = answer(form.name, words);
                let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                let is_wrong = answer.starts_with("-ERR wrong number of arguments");
                // HELLO says so also for words that it does not know, and is never queued.
                if form.name != "HELLO" {
                    let expected = CommandForm::of(&words).err();
                    assert_eq!(expected.is_some(), is_wrong, "{words:?}: {answer}");
                    if let Some(expected) = expected {
                        assert_eq!(answer, format!("-{expected}\r\n"));
                    }
                }
            }
        }
    }
}
